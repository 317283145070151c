"""Results: a tidy table with a header that says how it was made, shown, drawn, and written whole or not at all.

Drawing and reporting read results and never call a store. NDJSON: the first line is `{"header": ...}`, every further
line one row. CSV: the header as JSON behind `# `, then the table.
"""

from __future__ import annotations

import html
import json
import math
import os
import platform
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, is_dataclass
from functools import cache
from importlib import import_module, metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from assocmem._version import __version__
from assocmem.contract.columns import COLUMNS, cell, heading, is_numeric, shown
from assocmem.contract.errors import FileFormatError, InputError, MissingExtraError
from assocmem.contract.files import write_whole
from assocmem.contract.tables import html_table, pair_lines, table_lines, wrapped

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa
    from altair.typing import ChartType

_ENCODER = json.JSONEncoder(allow_nan=False, ensure_ascii=False)
Row = dict[str, Any]
SHOWN = 60
"""Rows of a printed table; those behind them are counted."""
CHARTS = "assocmem.report.figures"
"""The module that draws results, by its name: charts read results, and the words here know of no chart."""
TABLES, PICTURES = ("ndjson", "csv"), ("png", "svg", "pdf")
OWN = ("label", "value", "interval", "theory")
"""Columns that are printed where all rows have the same in them; what else is the same is told once."""
_WORDS_OF_A_ROW = ("store", "theory_source", "low", "high", "definition", "reason", "note", "theory_reason")


@dataclass(frozen=True, repr=False)
class Results:
    """A named table of tidy rows, and the header that makes it repeatable: what every measurement returns.

    `print` shows the sentences of the header and the answer as a table, a notebook likewise; `frame` has every row and
    column. The answer is the rows of the first row's `quantity`; rows of other quantities lie behind it, such as the
    ratios that a capacity was read from.

    Parameters
    ----------
    name : str
        Of the file, without its ending.
    rows : tuple of dict
        Plain values, one measured number a row; a missing column reads as None. Columns: see `contract.columns`.
    header : mapping
        config, seed, versions, commit, machine, python, seconds, definitions (see `header_for`); of what is shown
        `words` (sentences), `facts` (names and single answers), `table` (the columns that are printed), `notes`
        (sentences below it) and `view` (the chart).

    Examples
    --------
    >>> table = Results("demo", ({"label": "softmax", "value": 1.5}, {"label": "relu", "value": 3.0}), {"seed": 0})
    >>> table
    <Results 'demo': 2 rows>
    >>> print(table)
     store    measured
     ─────────────────
     softmax       1.5
     relu            3
    >>> table.where(label="relu").value
    3.0
    >>> table.frame().shape
    (2, 2)
    """

    name: str
    rows: tuple[Row, ...]
    header: Mapping[str, Any] = field(default_factory=dict)

    # ------------------------------------------------------------------ rows and numbers

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.rows)

    def __iter__(self) -> Iterator[Row]:
        """Return the rows one by one."""
        return iter(self.rows)

    @property
    def columns(self) -> tuple[str, ...]:
        """Column names in the order in which the rows bring them."""
        return tuple(dict.fromkeys(name for row in self.rows for name in row))

    def where(self, **equal: Any) -> Results:
        """Return the rows whose columns equal the given values.

        >>> Results("demo", ({"M": 1}, {"M": 2})).where(M=2).rows
        ({'M': 2},)

        Raises InputError for a name that no row has.
        """
        for name in equal:
            if self.rows and name not in self.columns:
                raise InputError(f"there is no column {name!r}; there are {', '.join(self.columns)}.")
        kept = tuple(row for row in self.rows if all(row.get(name) == value for name, value in equal.items()))
        return Results(self.name, kept, self.header)

    @property
    def answer(self) -> tuple[Row, ...]:
        """The rows of the first row's quantity, which `print` and notebooks show."""
        return tuple(row for row in self.rows if row.get("quantity") == self.rows[0].get("quantity"))

    @property
    def _printed(self) -> tuple[Row, ...]:
        """The rows of `print` and notebooks: the answer, or all where the header says so."""
        return self.rows if self.header.get("prints") == "all" else self.answer

    @property
    def value(self) -> float | None:
        """The measured number where the answer is one row, None where there is none (its `reason` says why).

        Raises InputError for an answer of several rows.
        """
        return self._only("value")

    @property
    def low(self) -> float | None:
        """The lower end of the 95 % interval of `value`."""
        return self._only("low")

    @property
    def high(self) -> float | None:
        """The upper end of the 95 % interval of `value`."""
        return self._only("high")

    @property
    def theory(self) -> float | None:
        """What theory says that `value` is, None where it says nothing."""
        return self._only("theory")

    def _only(self, column: str) -> float | None:
        rows = self.answer
        if len(rows) != 1:
            raise InputError(
                f"`{column}` wants an answer of one row; this one has {len(rows)}: take .frame(), or narrow it with "
                f".where(label=..., d_k=...)."
            )
        found = rows[0].get(column)
        return None if found is None else float(found)

    @property
    def facts(self) -> Mapping[str, Any]:
        """Single answers by name, such as a design's sharpness."""
        found: Mapping[str, Any] = self.header.get("facts") or {}
        return found

    @property
    def words(self) -> tuple[str, ...]:
        """The sentences that go with the numbers."""
        return tuple(self.header.get("words") or ())

    @property
    def ok(self) -> bool:
        """Whether no row says that something did not pass."""
        return all(row.get("passed", True) for row in self.rows)

    # ------------------------------------------------------------------ shown

    def __repr__(self) -> str:
        rows = self.answer
        if len(rows) != 1 or "value" not in rows[0]:
            return f"<Results {self.name!r}: {len(self.rows)} row{'s' if len(self.rows) != 1 else ''}>"
        where = [f"{heading(name)} = {cell(name, rows[0])}" for name in ("d_k", "n_memories") if name in rows[0]]
        told = ", ".join([cell("label", rows[0]), *where, cell("value", rows[0])])
        return f"<Results {self.name!r}: {told} ({cell('interval', rows[0])})>"

    def __str__(self) -> str:
        """Return what is printed: sentences, single answers, the table of the answer, notes below it."""
        head, body = table_lines(*self.table()) if self._printed and self.shown_columns else ([], [])
        pairs = pair_lines({heading(name): shown(name, value) for name, value in self.facts.items()})
        return "\n".join([*wrapped(self.words), *pairs, *head, *body[:-1], *wrapped(self._below())])

    def _repr_html_(self) -> str:
        """Return the same for a notebook."""
        paragraphs = [f"<p>{html.escape(text)}</p>" for text in self.words]
        if self.facts:
            told = [[heading(name), shown(name, value)] for name, value in self.facts.items()]
            paragraphs.append(html_table(["", ""], told))
        if self._printed and self.shown_columns:
            paragraphs.append(html_table(*self.table()))
        return "".join([*paragraphs, *(f"<p>{html.escape(text)}</p>" for text in self._below())])

    def table(self) -> tuple[list[str], list[list[str]], list[str]]:
        """Return what is shown of the answer: headings, rows of texts, and the headings of columns of numbers."""
        rows, columns = self._printed[:SHOWN], self.shown_columns
        quantities = {str(row.get("quantity") or "") for row in rows}
        quantity = quantities.pop() if len(quantities) == 1 else ""
        heads = [quantity if name == "value" and quantity else heading(name) for name in columns]
        full = all(row.get("value") is not None for row in rows)
        numeric = [h for name, h in zip(columns, heads, strict=True) if is_numeric(name) or (name == "value" and full)]
        return heads, [[cell(name, row) for name in columns] for row in rows], numeric

    @property
    def shown_columns(self) -> tuple[str, ...]:
        """The columns that are printed: those that the header names, else the value and what differs."""
        rows = self._printed
        if "table" in self.header:
            wanted = ("low" if name == "interval" else name for name in self.header["table"])
            found = zip(self.header["table"], wanted, strict=True)
            there = [(name, {str(row.get(column)) for row in rows}) for name, column in found]
            return tuple(
                name
                for name, told in there
                if len(told) > 1
                or ((len(rows) == 1 or name in OWN) and told != {"None"})
                or (name == "value" and any(row.get("reason") for row in rows))
            )
        names = [name for name in self.columns if name in COLUMNS and name not in _WORDS_OF_A_ROW]
        told = [name for name in names if name == "value" or len({str(row.get(name)) for row in rows}) > 1]
        return tuple(told or names)

    def _below(self) -> list[str]:
        rows, columns = self._printed, self.shown_columns
        more = [f"{len(rows) - SHOWN:,} more rows; frame() has all."] if len(rows) > SHOWN and columns else []
        wanted = (name for name in self.header.get("table") or () if name not in columns)
        shared = [
            f"{heading(name)} = {cell(name, rows[0])}"
            for name in wanted
            if rows and rows[0].get(name) not in (None, "")
        ]
        if shared and columns:
            more.append(f"In all rows {', '.join(shared)}.")
        return [*more, *(self.header.get("notes") or ())]

    def plot(self, quantity: str | None = None, *, mode: str = "report", **view: Any) -> ChartType:
        """Return the Altair chart: measured points with intervals, joined, and theory as lines or ticks beside them.

        Parameters
        ----------
        quantity : str, optional
            What to draw where there are rows of several, such as "ratio" of a capacity; the answer by default.
        mode : {"report", "paper"}
            Whether a click on the legend picks a series.
        **view
            Settings of the chart, such as x="d_k", x_title, y_title, title, width, height, order (labels).

        Returns
        -------
        Chart
            Of altair.

        Raises
        ------
        InputError
            Where nothing here can be drawn.
        """
        drawn: ChartType = import_module(CHARTS).chart(self, quantity=quantity, mode=mode, **view)
        return drawn

    # ------------------------------------------------------------------ as other tables, and as files

    def frame(self) -> pl.DataFrame:
        """Return the rows as a polars DataFrame; NaN and infinity become null."""
        import polars as pl

        return pl.DataFrame(self._data(), strict=True)

    def to_pandas(self) -> pd.DataFrame:
        """Return the rows as a pandas DataFrame; MissingExtraError where pandas is not installed."""
        return _installed("pandas").DataFrame(self._data())

    def to_arrow(self) -> pa.Table:
        """Return the rows as an Arrow table; MissingExtraError where pyarrow is not installed.

        Libraries that read Arrow's stream interface (DuckDB, pyarrow, nanoarrow) take results as they are.
        """
        return _installed("pyarrow").table(self)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.frame().__arrow_c_stream__(requested_schema)

    def _data(self) -> dict[str, list[Any]]:
        """Return the columns, each of one kind of values."""
        data = {name: [plain(row.get(name)) for row in self.rows] for name in self.columns}
        for name, column in data.items():
            kinds = {type(x) for x in column if x is not None}
            if kinds == {int, float}:
                data[name] = [None if x is None else float(x) for x in column]
            elif len(kinds) > 1 or kinds & {list, dict}:
                data[name] = [None if x is None else x if isinstance(x, str) else json.dumps(x) for x in column]
        return data

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the table or its picture to a file, whole or not at all, and return the path.

        Parameters
        ----------
        path : str or path
            Its ending says what: .ndjson or .csv, which `load` reads back; .png (twice as fine as a screen), .svg or
            .pdf, the chart that `plot` draws.

        Raises
        ------
        InputError
            For another ending, a place that cannot be written, and a picture of what cannot be drawn.
        """
        path = Path(path)
        kind = path.suffix.removeprefix(".").lower()
        if kind in PICTURES:
            drawing = import_module(CHARTS)
            found: Path = drawing.write_picture(drawing.specification(self, mode="paper"), path)
            return found
        if kind not in TABLES:
            known = ", ".join(f".{name}" for name in (*TABLES, *PICTURES))
            raise InputError(f"`path` of Results.save must end in one of {known}; got {str(path)!r}.")
        return write_whole(path, self._ndjson() if kind == "ndjson" else self._csv())

    def write(self, folder: str | os.PathLike[str], formats: Iterable[str] = TABLES) -> list[Path]:
        """Write <folder>/<name>.<format> for each format and return the paths; see `save`."""
        return [self.save(Path(folder) / f"{self.name}.{kind}") for kind in formats]

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
    def load(cls, path: str | os.PathLike[str]) -> Results:
        """Return the results that were saved to `path` (.ndjson or .csv).

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


def _installed(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise MissingExtraError(
            f"{name} is not installed; `pip install {name}` adds it, .frame() needs nothing."
        ) from error


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
