"""What a section of the page declares: routes, exported files, sliders and the checks of addresses derive from it."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from assocmem.contract.errors import InputError
from assocmem.contract.settings import Setting

LIVE, SITE, FILE = "live", "site", "file"
"""The copies of the page: what is served, a static site, one file."""


@dataclass(frozen=True)
class Option:
    """A choice that is more than a number: its id in addresses, the words on its button, what it stands for.

    facts: what the page's script reads of it; parts of an endpoint may depend on one that is true or false.
    """

    id: str | int
    label: str
    of: Any = None
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Control:
    """What a reader sets: a slider through numbers, or a button for each Option.

    name: in the page's address. values: what there is to choose. usual: what is chosen at first (an id). label: of a
    slider, "_" before an index. say: a value in words, for those who listen. special: value: (shown, said). kept:
    the values that a copy of the page holds, where they are fewer. noun: what `values` counts, for the note that says
    so. many: any number of the choices at once, joined by dots. pattern: of a text that the page's script reads and
    writes, in place of values.
    """

    name: str
    values: Sequence[Any]
    usual: Any
    label: str = ""
    say: str = "{}"
    special: Mapping[Any, tuple[str, str]] = field(default_factory=dict)
    kept: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    noun: str = ""
    many: bool = False
    pattern: str = ""

    @classmethod
    def of(
        cls, name: str, settings: Iterable[Setting], steps: Sequence[float], usual: float, label: str, **more: Any
    ) -> Self:
        """Return a slider for settings that it sets together, in the range of all: of the steps those that each takes.

        InputError where there is no setting, and where the usual step is out of their range.
        """
        held = tuple(settings)
        values = tuple(step for step in steps if held and all(setting.takes(step) for setting in held))
        if usual not in values:
            raise InputError(f"`usual` of the slider {name} must be in the range of what it sets; got {usual!r}.")
        return cls(name, values, usual, label, **more)

    def held(self, copy: str) -> Sequence[Any]:
        """Return the values that a copy of the page offers."""
        return self.kept.get(copy, self.values)

    def lacks(self, copy: str) -> str:
        """Return what the whole page has and a copy leaves out, in words; "" where it is nothing."""
        held, every = self.held(copy), len(self.values)
        if len(held) == every:
            return ""
        if self.noun:
            return f"{every:,} {self.noun} in place of {len(held)}"
        rest = " and ".join(_written(value) for value in self.values if value not in held)
        return f"{self.label.split(' d_')[0].lower()}s of {rest}"

    @property
    def buttons(self) -> bool:
        """Whether a reader sets it by buttons."""
        return bool(self.values) and isinstance(self.values[0], Option)

    def declared(self, copy: str) -> dict[str, Any]:
        """Return the control as JSON for the page's script."""
        held = self.held(copy)
        options = [{"id": o.id, "label": o.label, **o.facts} for o in held if isinstance(o, Option)]
        more = {"label": self.label, "say": self.say, "special": dict(self.special), "pattern": self.pattern}
        values = [o["id"] for o in options] or list(held)
        return {"values": values, "usual": self.usual, "options": options, "many": self.many, **more}


@dataclass(frozen=True)
class Part:
    """One part of an endpoint's paths: the value of a control.

    needs: fact of the path's first option without which this control has no part; then `rest` stands there, or
    nothing. without: what such an option does instead. index: its place among the control's values stands for the
    value.
    """

    control: Control
    needs: str = ""
    rest: float | None = None
    without: str = ""
    index: bool = False

    def applies(self, first: Any) -> bool:
        """Tell whether the control has a part in paths that begin with the option `first`."""
        return not self.needs or bool(first.facts[self.needs])

    def words(self, copy: str, usual: bool = False) -> dict[str, Any]:
        """Return the values that a copy holds, or the usual one, by how they are written in a path."""
        held = enumerate(self.control.held(copy))
        wanted = ((i, v) for i, v in held if not usual or self.control.usual == (v.id if isinstance(v, Option) else v))
        return {str(i) if self.index else _written(value): value for i, value in wanted}


@dataclass(frozen=True)
class Endpoint:
    """Where some of the page's numbers are found: paths of a name and its parts, and what computes them.

    answer: called with the parts' values, an option as what it stands for. first: the page cannot start without it.
    """

    name: str
    answer: Callable[..., Any]
    parts: tuple[Part, ...] = ()
    first: bool = False

    def asked(self, words: Sequence[str]) -> Any:
        """Return the answer at the path of these words; InputError, in a sentence, for another than `paths` yields."""
        left, values = list(words), list[Any]()
        for part in self.parts:
            name, known = part.control.name, part.words(LIVE)
            if part.applies(values[0] if values else None):
                word = left.pop(0) if left else ""
                if word not in known:
                    shown = ", ".join(known) if len(known) < 30 else f"{next(iter(known))} to {[*known][-1]}"
                    raise InputError(f"`{name}` of {self.name} must be one of {shown}; got {word!r}.")
                values.append(known[word])
            elif part.rest is None:
                values.append(part.control.usual)
            elif not left or left.pop(0) != _written(part.rest):
                raise InputError(f"{values[0].label} has no {name}; its path holds {_written(part.rest)} there.")
            else:
                values.append(part.rest)
        if left:
            raise InputError(f"a path of {self.name} has at most {len(self.parts)} parts; got {'/'.join(words)!r}.")
        return self.answer(*(value.of if isinstance(value, Option) else value for value in values))

    def paths(self, copy: str, usual: bool = False) -> Iterator[str]:
        """Yield every path that a copy of the page holds, or the one of the usual choices."""

        def further(path: str, parts: Sequence[Part], first: Any) -> Iterator[str]:
            if not parts:
                yield path
            elif parts[0].applies(first):
                for word, value in parts[0].words(copy, usual).items():
                    yield from further(f"{path}/{word}", parts[1:], first or value)
            else:
                rest = "" if parts[0].rest is None else f"/{_written(parts[0].rest)}"
                yield from further(path + rest, parts[1:], first)

        return further(self.name, self.parts, None)

    def declared(self) -> list[dict[str, Any]]:
        """Return the parts as JSON for the page's script."""
        return [
            {"control": p.control.name, "needs": p.needs, "rest": p.rest, "without": p.without, "index": p.index}
            for p in self.parts
        ]


@dataclass(frozen=True, eq=False)
class Section:
    """A part of the page.

    place: its turn, in the page and in the menu. endpoints: where its numbers are. sliders: those that it shows, in
    order. more: other controls without a part in any path. charts: name: (view, height). words: what else its script
    reads. title, text, link (in the menu): of a section that is no more than a chart, of its own name, with controls:
    it is made from this declaration alone, and its one endpoint answers with rows (of the chart's datasets), text, and
    where there are any note, said and signals.
    """

    place: float
    endpoints: tuple[Endpoint, ...]
    sliders: tuple[Control, ...] = ()
    more: tuple[Control, ...] = ()
    charts: Mapping[str, tuple[Mapping[str, Any], int]] = field(default_factory=dict)
    words: Mapping[str, Any] = field(default_factory=dict)
    title: str = ""
    text: str = ""
    link: str = ""

    @property
    def controls(self) -> list[Control]:
        """Every control of the section."""
        return [*self.sliders, *self.more, *(part.control for one in self.endpoints for part in one.parts)]


def _written(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value.id if isinstance(value, Option) else value)
