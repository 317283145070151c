"""Settings of stores and maps, declared once: as `Annotated` fields of their dataclasses.

    strength: Annotated[float, Interval(ge=0, le=2), Help("write strength b", per_pair=True)] = 1.0

From the type, the range and the help derive the check of every value, command-line options, cards, docstrings, the
page's controls and what a file keeps. Types: float (finite, unless the range ends at inf), int, bool, Literal, tuples
of numbers, classes, and unions of these with None.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from math import inf
from types import MappingProxyType, NoneType, UnionType
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin, get_type_hints

import numpy as np
from annotated_types import Interval

from assocmem.contract.errors import InputError

REQUIRED = dataclasses.MISSING
"""The default of a setting that has none."""
NONE: Mapping[str, Any] = MappingProxyType({})
POSITIVE, NOT_NEGATIVE, SHARE, COUNT = Interval(gt=0), Interval(ge=0), Interval(ge=0, le=1), Interval(ge=1)
"""The ranges that most settings have: > 0, >= 0, [0, 1] and >= 1."""


@dataclass(frozen=True, slots=True)
class Help:
    """What a setting means, and its unit; `none`: what None stands for.

    per_pair: `write` takes one for each pair (`traits.extras_of`), with `log` also its logarithm.
    """

    text: str
    unit: str = ""
    none: str = ""
    per_pair: bool = False
    log: bool = False


@dataclass(frozen=True, slots=True)
class Named:
    """Says that a setting's objects have names, "dpfp" for DPFP(), and that the settings of an object go with its name.

    `bare` makes the object of a value that is neither an object nor a name: of a number, or of a function.
    """

    table: Mapping[str, type]
    bare: Callable[[Any], Any] | None = None

    def made(self, setting: str, name: Any, own: Mapping[str, Any]) -> Any:
        """Return the object called `name` with settings of its `own`; InputError where it does not have them."""
        kind = self.table.get(name) if isinstance(name, str) else None
        if kind is None:
            raise InputError(f"`{setting}` must be one of {', '.join(self.table)}; got {name!r}.")
        known = {s.name: s for s in settings_of(kind)}
        for other in own:
            if other not in known:
                takes = f"it takes {', '.join(known)}" if known else "leave it out"
                raise InputError(f"the {setting} {name!r} has no setting `{other}`; {takes}.")
        for needed in known.values():
            if needed.default is REQUIRED and needed.name not in own:
                raise InputError(f"the {setting} {name!r} needs `{needed.name}`, {needed.help}: {needed.words}.")
        return kind(**own)


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting of a class: name, what values it takes, default, help.

    kinds: the types that a value may have. whole: numbers must be whole. low, high: the range of numbers, without its
    ends where `open_low`, `open_high`; inf itself is taken where `infinite`. choices: the texts that it takes. lengths:
    of a tuple of numbers, None for any; () for no tuple. optional: whether None is taken; `none` says what it stands
    for. per_pair, log: whether `write` takes one for each pair, or its logarithm. named: names of its objects. of,
    owners: for a setting that goes with certain values of another one, that one and those values; idle: its default is
    none of them. tuning: changes speed and rounding only.
    """

    name: str
    kinds: tuple[type, ...]
    default: Any
    whole: bool = False
    low: float = -inf
    high: float = inf
    open_low: bool = False
    open_high: bool = False
    infinite: bool = False
    choices: tuple[str, ...] = ()
    lengths: tuple[int | None, ...] = ()
    optional: bool = False
    help: str = ""
    unit: str = ""
    none: str = ""
    per_pair: bool = False
    log: bool = False
    named: Named | None = None
    of: str = ""
    owners: tuple[str, ...] = ()
    idle: bool = False
    tuning: bool = False

    @property
    def told(self) -> str:
        """Help in one line: meaning, unit, what it goes with, values, default."""
        owners = f" ({self.of} {', '.join(self.owners)})" if self.of else ""
        return f"{self.meaning}: {self.words}{self.told_default}{owners}"

    @property
    def meaning(self) -> str:
        """Help with the unit, and whether each pair may have its own."""
        unit = f", in units of {self.unit}" if self.unit else ""
        return f"{self.help}{unit}{', unless write is given one for each pair' if self.per_pair else ''}"

    @property
    def told_default(self) -> str:
        """The default in words, with a comma before it; nothing where there is none or None."""
        if self.default is REQUIRED or self.default is None:
            return ""
        return f", default {self.default_name or self.default}"

    @property
    def default_name(self) -> str:
        """The name of the default object, "" where it has none."""
        names = self.named.table.items() if self.named else ()
        return next((name for name, kind in names if type(self.default) is kind), "")

    @property
    def words(self) -> str:
        """What a value must be, such as "a number in [0, 2]"."""
        names = self.choices or tuple(self.named.table if self.named else ())
        parts = [f"one of {', '.join(names)}"] if names else []
        for kind in self.kinds:
            if kind in (int, float):
                parts.append(self._range())
            elif kind is tuple:
                size = f"{self.lengths[0]} " if self.lengths[0] else ""
                parts.append(f"a tuple of {size}{'of them' if parts else 'numbers'}".replace("of of", "of"))
            elif kind is not str or not self.choices:
                parts.append(_WORDS.get(kind) or f"{'an' if kind.__name__[0] in 'AEIOU' else 'a'} {kind.__name__}")
        if self.optional:
            parts.append(f"None for {self.none}" if self.none else "None")
        return " or ".join(parts) if len(parts) < 3 else f"{', '.join(parts[:-1])}, or {parts[-1]}"

    def _range(self) -> str:
        if self.low > -inf and self.high < inf:
            if self.whole:
                return f"a whole number from {self.low:g} to {self.high:g}"
            first, last = "(" if self.open_low else "[", ")" if self.open_high else "]"
            return f"a number in {first}{self.low:g}, {self.high:g}{last}"
        words = "a whole number" if self.whole else "a number" if self.infinite else "a finite number"
        if self.low > -inf:
            words += f" {'>' if self.open_low else '>='} {self.low:g}"
        elif self.high < inf:
            words += f" {'<' if self.open_high else '<='} {self.high:g}"
        return f"{words} or inf" if self.infinite else words

    def checked(self, value: Any, owner: str) -> Any:
        """Return the value as it is kept: NumPy's scalars as Python's numbers, lists as tuples, names as objects.

        Raises InputError, "`name` of Owner must be ...; got ...", unless it fits.
        """
        if value is None and self.optional:
            return None
        if isinstance(value, np.generic) and value.dtype.kind in "biuf":
            value = value.item()
        elif isinstance(value, list) and self.lengths:
            value = tuple(value)
        if self.named is not None and not isinstance(value, self.kinds):
            if isinstance(value, str) and value in self.named.table:
                value = self.named.made(self.name, value, {})
            elif self.named.bare is not None and not isinstance(value, str):
                value = self.named.bare(value)
        if not self.takes(value):
            each = f" One for each pair is given to write: write(state, keys, values, {self.name}=...)."
            raise InputError(
                f"`{self.name}` of {owner} must be {self.words}; got {value!r}.{each if self.per_pair else ''}"
            )
        return value

    def takes(self, value: Any) -> bool:
        """Tell whether a value, as it is kept, is one of those that the setting may have."""
        if object in self.kinds:
            return True
        if isinstance(value, tuple) and self.lengths:
            return (None in self.lengths or len(value) in self.lengths) and all(self._in_range(x) for x in value)
        if isinstance(value, bool):
            return bool in self.kinds
        if isinstance(value, int | float):
            return (int in self.kinds or float in self.kinds) and self._in_range(value)
        if isinstance(value, str) and self.choices:
            return value in self.choices
        return isinstance(value, self.kinds)

    def _in_range(self, x: Any) -> bool:
        if isinstance(x, bool) or not isinstance(x, int if self.whole else int | float):
            return False
        above = x > self.low if self.open_low else x >= self.low
        below = x < self.high if self.open_high else x <= self.high
        return above and below and (self.whole or abs(x) <= sys.float_info.max or (self.infinite and x == inf))


_SHARED = ("unit", "none", "per_pair", "log")
_WORDS: dict[type, str] = {bool: "True or False", object: "any object", str: "a text", Callable: "a function"}  # type: ignore[dict-item]


class Worded:
    """A frozen dataclass that refuses a word which the Literal of its field, or of its field's tuple, doesn't know."""

    def __post_init__(self) -> None:
        for name, known in _words(cast(Any, type(self))):
            given = getattr(self, name)
            for word in given if isinstance(given, tuple) else (given,):
                if word not in known:
                    said = ", ".join(map(repr, known))
                    raise InputError(f"`{name}` of {type(self).__name__} must be out of {said}; got {word!r}.")


@cache
def _words(kind: type) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return the fields of a dataclass that hold words, with the words that they know."""
    inner = (
        (name, get_args(hint)[0] if get_origin(hint) is tuple else hint) for name, hint in get_type_hints(kind).items()
    )
    return tuple((name, get_args(hint)) for name, hint in inner if get_origin(hint) is Literal)


class WithSettings:
    """A frozen dataclass whose fields are settings: checked when it is made, told in its docstring."""

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        if cls.__doc__ and "Parameters\n" not in cls.__doc__:
            cls.__doc__ = _told(cls)

    def __post_init__(self) -> None:
        for setting in settings_of(cast(Any, type(self))):
            value = getattr(self, setting.name)
            if value is not setting.default:
                kept = setting.checked(value, type(self).__name__)
                if kept is not value:
                    object.__setattr__(self, setting.name, kept)
        self.check_together()

    def check_together(self) -> None:
        """Refuse settings that do not go together, with InputError; each by itself has been checked already."""

    def settings(self) -> dict[str, Any]:
        """Return the hyper-parameters by name."""
        return {f.name: getattr(self, f.name) for f in dataclasses.fields(cast(Any, self))}


@cache
def settings_of(kind: type) -> tuple[Setting, ...]:
    """Return the settings that a dataclass declares, in the order of its fields; () for another class.

    >>> from assocmem.stores.delta import DeltaNet
    >>> strength = {s.name: s for s in settings_of(DeltaNet)}["strength"]
    >>> strength.words, strength.default
    ('a number in [0, 2]', 1.0)
    """
    if not dataclasses.is_dataclass(kind):
        return ()
    notes = dict(_notes(cast(type, kind)))
    return tuple(_setting(field.name, field, notes[field.name]) for field in dataclasses.fields(kind) if field.init)


def offered(kind: type, fixed: Mapping[str, Any] = NONE) -> dict[str, Setting]:
    """Return by name the settings that `made` takes: the class's own, and those of the objects that they may name."""
    found = {setting.name: setting for setting in settings_of(kind)}
    for setting in settings_of(kind):
        names = () if setting.named is None else tuple(setting.named.table)
        chosen = fixed.get(setting.name, setting.default_name)
        for name in names if setting.name not in fixed else (chosen,):
            for own in settings_of(setting.named.table[name]) if setting.named else ():
                owners = (*found[own.name].owners, name) if own.name in found else (name,)
                found[own.name] = replace(own, of=setting.name, owners=owners, idle=chosen not in owners)
    return found


def made(kind: type, given: Mapping[str, Any], label: str, fixed: Mapping[str, Any] = NONE) -> Any:
    """Return an object of a class with the settings that are `given`, its own and those of objects given by name.

    So feature="dpfp", nu=2 stands for feature=DPFP(nu=2). Parameters: label, what the class is called in errors;
    fixed, further settings, which cannot be given.

    Raises InputError for a setting that the class, or the chosen object, does not have.
    """
    if not given and not fixed:
        return kind()
    takes = offered(kind, fixed)
    for name in given:
        if name not in takes or name in fixed:
            names = ", ".join(name for name in takes if name not in fixed)
            raise InputError(f"{label} has no setting {name!r}; it takes {names or 'no settings'}.")
    values = {**given, **fixed}
    for setting in settings_of(kind):
        if setting.named is None:
            continue
        others = [name for name in values if takes[name].of == setting.name]
        own = {name: value for name in others if (value := values.pop(name)) is not None}
        value = values.pop(setting.name, None)
        value = setting.default_name if value is None else value
        if not isinstance(value, str):
            values[setting.name] = value
            if any(getattr(value, name, None) != wanted for name, wanted in own.items()):
                raise InputError(f"`{setting.name}` is {value!r} already; give {', '.join(own)} to it instead.")
        elif value or own:
            values[setting.name] = setting.named.made(setting.name, value, own)
    return kind(**values)


def _notes(kind: type) -> Iterator[tuple[str, Any]]:
    """Yield name and annotation of a class's fields, its bases' first; Any for one that names what is not there."""
    for base in reversed(kind.__mro__):
        names = vars(sys.modules[base.__module__]) if base.__module__ in sys.modules else {}
        for name, note in inspect.get_annotations(base).items():
            if not isinstance(note, str):
                yield name, note
            elif not note.startswith("ClassVar"):
                try:
                    yield name, eval(note, names)
                except (NameError, AttributeError, TypeError):
                    yield name, Any


def _setting(name: str, field: dataclasses.Field[Any], note: Any) -> Setting:
    marks: list[Any] = []
    if get_origin(note) is Annotated:
        note, *marks = get_args(note)
    members = get_args(note) if get_origin(note) in (Union, UnionType) else (note,)
    kinds: list[Any] = []
    choices: list[str] = []
    lengths: list[int | None] = []
    for member in members:
        if get_origin(member) is Literal:
            choices += get_args(member)
            kinds.append(str)
        elif get_origin(member) is tuple:
            lengths.append(None if Ellipsis in get_args(member) else len(get_args(member)))
            kinds.append(tuple)
        elif member is not NoneType:
            kinds.append(get_origin(member) or member)
    made = Setting(
        name,
        tuple(kind if isinstance(kind, type) and kind is not Any else object for kind in kinds),
        field.default if field.default_factory is REQUIRED else field.default_factory(),
        whole=int in kinds and float not in kinds,
        choices=tuple(choices),
        lengths=tuple(lengths),
        optional=NoneType in members,
        tuning=field.compare is False,
    )
    for mark in marks:
        if isinstance(mark, Help):
            made = replace(made, help=mark.text, **{name: getattr(mark, name) for name in _SHARED})
        elif isinstance(mark, Named):
            made = replace(made, named=mark)
        elif isinstance(mark, Interval):
            low: Any = mark.ge if mark.gt is None else mark.gt
            high: Any = mark.le if mark.lt is None else mark.lt
            made = replace(
                made,
                low=-inf if low is None else low,
                high=inf if high is None else high,
                open_low=mark.gt is not None,
                open_high=mark.lt is not None,
                infinite=mark.le == inf,
            )
    return made


def _told(kind: type) -> str:
    """Return a class's docstring with a section of the parameters that its fields declare, before any other section."""
    text, told = inspect.cleandoc(kind.__doc__ or ""), []
    inherited = [base.__dataclass_fields__ for base in kind.__mro__ if dataclasses.is_dataclass(base)]
    for name, note in _notes(kind):
        field = next((f[name] for f in inherited if name in f), None)
        if name in inspect.get_annotations(kind):
            default = kind.__dict__.get(name, REQUIRED)
            field = default if isinstance(default, dataclasses.Field) else dataclasses.field(default=default)
        if field is None:
            continue
        if (setting := _setting(name, field, note)).help:
            told.append((field.kw_only is True, setting))
    if not told:
        return kind.__doc__ or ""
    lines: list[str] = []
    for _, setting in sorted(told, key=lambda one: one[0]):  # as the signature has them
        lines += [f"{setting.name} : {setting.words}{setting.told_default}", f"    {setting.meaning}."]
    return with_section(text, "Parameters", lines, before="[A-Z][a-z]+")


def with_section(text: str, title: str, lines: Iterable[str], before: str) -> str:
    """Return a clean docstring with a section more, in front of the first whose title matches `before`."""
    at = re.search(rf"^{before}\n-{{4,}}$", text, re.M)
    place = len(text) if at is None else at.start()
    section = "\n".join([title, "-" * len(title), *lines])
    return "\n\n".join(part for part in (text[:place].rstrip(), section, text[place:].rstrip()) if part) + "\n"
