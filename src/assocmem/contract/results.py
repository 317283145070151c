"""Results: a tidy table with a header that says how it was made, written whole or not at all.

Drawing and reporting read these files and never call a store. NDJSON: the first line is `{"header": ...}`, every
further line one row. CSV: the header as JSON behind `# `, then the table.
"""

from __future__ import annotations

import json
import math
import os
import platform
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, is_dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from assocmem._version import __version__
from assocmem.contract.columns import COLUMNS, shown
from assocmem.contract.errors import FileFormatError, InputError
from assocmem.contract.files import write_whole

if TYPE_CHECKING:
    import polars as pl

_ENCODER = json.JSONEncoder(allow_nan=False, ensure_ascii=False)
Row = dict[str, Any]
SHOWN = 20


class Rows(list[Row]):
    """Tidy rows, which print as a table of what differs between them; `frame` gives all columns.

    >>> Rows([{"label": "softmax", "n_memories": 16, "value": 0.5}, {"label": "relu", "n_memories": 16, "value": 1.25}])
    label    value
    softmax  0.5
    relu     1.25
    """

    def frame(self) -> pl.DataFrame:
        """Return the rows as a polars DataFrame; NaN and infinity become null."""
        return Results("rows", tuple(self)).frame()

    def __repr__(self) -> str:
        hidden = ("store", "theory_source")
        names = [n for n in Results("rows", tuple(self)).columns if n in COLUMNS and n not in hidden]
        names = [n for n in names if n == "value" or len({str(row.get(n)) for row in self}) > 1] or names
        lines = [names, *([shown(name, row.get(name)) for name in names] for row in self[:SHOWN])]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        text = ["  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip() for line in lines]
        return "\n".join(text + [f"... {len(self) - SHOWN} more rows"] * (len(self) > SHOWN))


@dataclass(frozen=True)
class Results:
    """A named table of tidy rows (one measured number a row) and the header that makes it repeatable.

    name: the file's name without ending. rows: dicts of plain values; a missing column reads as None.
    header: config, seed, versions, commit, machine, python, seconds, definitions (see `header_for`).

    >>> table = Results("demo", ({"store": "softmax", "value": 1.5},), {"seed": 0})
    >>> table.frame().shape
    (1, 2)
    """

    name: str
    rows: tuple[Row, ...]
    header: Mapping[str, Any] = field(default_factory=dict)

    @property
    def columns(self) -> tuple[str, ...]:
        """Column names in the order in which the rows bring them."""
        return tuple(dict.fromkeys(name for row in self.rows for name in row))

    def frame(self) -> pl.DataFrame:
        """Return the rows as a polars DataFrame; NaN and infinity become null."""
        import polars as pl

        columns = self.columns
        data = {name: [plain(row.get(name)) for row in self.rows] for name in columns}
        for name, column in data.items():
            kinds = {type(x) for x in column if x is not None}
            if kinds == {int, float}:
                data[name] = [None if x is None else float(x) for x in column]
            elif len(kinds) > 1 or kinds & {list, dict}:
                data[name] = [None if x is None else x if isinstance(x, str) else json.dumps(x) for x in column]
        return pl.DataFrame(data, strict=True)

    def where(self, **equal: Any) -> Results:
        """Return the rows whose columns equal the given values.

        >>> Results("demo", ({"M": 1}, {"M": 2})).where(M=2).rows
        ({'M': 2},)
        """
        kept = tuple(row for row in self.rows if all(row.get(name) == value for name, value in equal.items()))
        return Results(self.name, kept, self.header)

    def write(self, folder: str | os.PathLike[str], formats: Iterable[str] = ("ndjson", "csv")) -> list[Path]:
        """Write <folder>/<name>.<format> for each format and return the paths; each appears whole or not at all.

        Parameters: formats out of "ndjson", "csv". Raises InputError for an unknown format or a folder that cannot be
        written.
        """
        makers, chosen = {"ndjson": self._ndjson, "csv": self._csv}, tuple(formats)
        for name in chosen:
            if name not in makers:
                raise InputError(f"`formats` of Results.write must be among {', '.join(makers)}; got {name!r}.")
        return [write_whole(Path(folder) / f"{self.name}.{kind}", makers[kind]()) for kind in chosen]

    def _ndjson(self) -> bytes:
        lines = [as_json({"header": self._stamped()})]
        columns = self.columns
        lines += [as_json({name: row.get(name) for name in columns}) for row in self.rows]
        return ("\n".join(lines) + "\n").encode()

    def _csv(self) -> bytes:
        frame = self.frame()
        types = {name: str(kind) for name, kind in frame.schema.items()}
        comment = as_json(self._stamped() | {"columns": types}, indent=1).split("\n")
        return ("".join(f"# {line}\n" for line in comment) + frame.write_csv()).encode()

    def _stamped(self) -> dict[str, Any]:
        return {**self.header, "rows": len(self.rows)}

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Results:
        """Return the results written to `path` (.ndjson or .csv).

        Raises FileFormatError for a file that is missing, truncated or of another kind.
        """
        path = Path(path)
        readers = {".ndjson": _read_ndjson, ".csv": _read_csv}
        if path.suffix not in readers:
            raise FileFormatError(f"{path} must end in {', '.join(readers)}; got {path.suffix or 'no ending'!r}.")
        try:
            header, rows = readers[path.suffix](path)
            if header.pop("rows") != len(rows):
                raise ValueError(f"it holds {len(rows)} rows and its header names another number")
        except OSError as error:
            raise FileFormatError(f"cannot read {path}: {error.strerror or error}.") from error
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise FileFormatError(f"{path} is not a results file of assocmem, or it is truncated: {error}.") from error
        return cls(path.stem, tuple(rows), header)


def header_for(
    *, config: Any = None, seed: int | None = None, seconds: float | None = None, definitions: Any = None
) -> dict[str, Any]:
    """Return the header of a run made now on this machine.

    Parameters: config, a plan (dataclass) or mapping; seed; seconds spent; definitions, a mapping from column or
    quantity to its meaning in words. The commit is given where assocmem runs from its own git checkout.
    """
    return {
        "config": plain(config),
        "seed": seed,
        "versions": {"assocmem": __version__, **_versions("numpy", "scipy", "polars")},
        "commit": _commit(__file__),
        "machine": {"system": platform.platform(), "processor": platform.machine(), "cores": os.cpu_count()},
        "python": sys.version.split()[0],
        "seconds": None if seconds is None else round(seconds, 3),
        "definitions": plain(definitions or {}),
    }


@cache
def _versions(*names: str) -> dict[str, str]:
    found = {}
    for name in names:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


@cache
def _commit(file: str) -> str | None:
    """Return the commit of the checkout that `file` is tracked in ("-dirty" with uncommitted changes), else None."""
    here = Path(file).resolve().parent
    try:
        for command in (["ls-files", "--error-unmatch", Path(file).name], ["describe", "--always", "--dirty",
                        "--abbrev=40", "--exclude=*"]):  # fmt: skip
            done = subprocess.run(
                ["git", "-C", str(here), *command], capture_output=True, text=True, timeout=5, check=True
            )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def plain(value: Any) -> Any:
    """Return `value` in words that JSON knows; NaN and infinity become None, dataclasses mappings (see `setting`).

    >>> plain({"a": np.float32(0.5), "b": float("nan"), "c": (1, np.int64(2))})
    {'a': 0.5, 'b': None, 'c': [1, 2]}
    """
    kind = type(value)
    if kind is float:
        return value if math.isfinite(value) else None
    if kind is dict:
        return {str(name): plain(item) for name, item in value.items()}
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float | np.floating):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, np.bool_):
        return bool(value)
    if isinstance(value, np.integer):
        return int(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {"is": type(value).__name__, **{k: setting(v) for k, v in _fields(value).items()}}
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, Iterable):
        return [plain(item) for item in value]
    return getattr(value, "__name__", None) or str(value)


def setting(value: Any) -> Any:
    """Return a setting likewise, but infinity as a word: None would be a setting that was left open.

    >>> setting(float("inf")), setting(8.0), setting(None)
    ('inf', 8.0, None)
    """
    return str(value) if isinstance(value, float) and math.isinf(value) else plain(value)


def _fields(value: Any) -> dict[str, Any]:
    return {name: getattr(value, name) for name in value.__dataclass_fields__}


def as_json(value: Any, *, indent: int | None = None, escape: bool = False) -> str:
    """Return `value` as valid JSON: no NaN, no infinity; Unicode kept unless `escape`."""
    plainly = indent is None and not escape
    encoder = _ENCODER if plainly else json.JSONEncoder(allow_nan=False, ensure_ascii=escape, indent=indent)
    try:
        return encoder.encode(value)  # most values are plain already, and to find out otherwise costs little
    except (TypeError, ValueError):
        return encoder.encode(plain(value))


def _read_ndjson(path: Path) -> tuple[dict[str, Any], list[Row]]:
    # Only "\n" ends a row: other signs at which str.splitlines() splits may stand in a text.
    first, *rest = path.read_bytes().decode("utf-8").removesuffix("\n").split("\n")
    return json.loads(first)["header"], [dict(json.loads(line)) for line in rest]


def _read_csv(path: Path) -> tuple[dict[str, Any], list[Row]]:
    import polars as pl

    lines = path.read_bytes().decode("utf-8").removesuffix("\n").split("\n")
    # The header is an indented JSON object, so its last line, and none before, is the brace alone.
    count = 1 + next((i for i, line in enumerate(lines) if line.rstrip("\r") == "# }"), len(lines))
    header = json.loads("\n".join(line[2:] for line in lines[:count]))
    # A column of nulls alone has the type Null, which a CSV reader does not know.
    types = {name: pl.String if kind == "Null" else getattr(pl, kind) for name, kind in header.pop("columns").items()}
    if not types:
        return header, []
    body = "\n".join(lines[count:]) + "\n"
    try:
        return header, pl.read_csv(body.encode(), schema_overrides=types).to_dicts()
    except pl.exceptions.PolarsError as error:
        raise ValueError(str(error).splitlines()[0]) from error
