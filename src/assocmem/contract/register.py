"""The register of stores: a key, the class that it makes, what it is called and how it is drawn.

A family registers its stores at the end of its file; `assocmem.stores` finds them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from assocmem.contract.errors import InputError
from assocmem.contract.settings import NONE, Setting, made, offered
from assocmem.contract.store import Store


@dataclass(frozen=True)
class Variant:
    """A class with settings that are fixed; `when` is the value of the entry's `choice` that stands for it."""

    kind: type[Store]
    fixed: Mapping[str, Any] = field(default_factory=dict)
    when: str = ""


@dataclass(frozen=True)
class Entry:
    """One registered store, as `register` made it.

    Parameters
    ----------
    key : str
        Its public name.
    variants : tuple of Variant
        The classes that it makes, the first by default.
    summary : str
        One sentence.
    choice : Setting or None
        The setting that chooses, where there are several variants.
    defaults : mapping
        Other ones than the class's.
    family : str
        The file's noun.
    label, colour, article, usual
        As `register` takes them.
    """

    key: str
    variants: tuple[Variant, ...]
    summary: str
    choice: Setting | None
    defaults: Mapping[str, Any]
    family: str
    label: str
    colour: str
    article: int
    usual: bool = False

    @property
    def kind(self) -> type[Store]:
        """The class that it makes by default."""
        return self.variants[0].kind

    @cached_property
    def settings(self) -> tuple[Setting, ...]:
        """The settings that it takes, those of objects given by name among them."""
        found: dict[str, Setting] = {} if self.choice is None else {self.choice.name: self.choice}
        for variant in self.variants:
            for name, setting in offered(variant.kind, variant.fixed).items():
                if name in variant.fixed:
                    continue
                if setting.of in variant.fixed:
                    setting = replace(setting, of="", owners=())
                owners = (*(found[name].owners if name in found else ()), variant.when)
                if self.choice is not None and len(owners) < len(self.variants):
                    idle = self.variants[0].when not in owners
                    setting = replace(setting, of=self.choice.name, owners=owners, idle=idle)
                found[name] = setting
        for name, value in self.defaults.items():
            found[name] = replace(found[name], default=value)
        return tuple(sorted(found.values(), key=lambda setting: setting.tuning))

    def make(self, **settings: Any) -> Store:
        """Return the store with the given settings.

        Parameters
        ----------
        **settings
            By name.

        Returns
        -------
        Store
            Of the chosen class.

        Raises
        ------
        InputError
            For a setting that it does not take, or a value out of range.
        """
        takes = {setting.name: setting for setting in self.settings} if settings else {}
        for name in settings:
            if name not in takes:
                names = ", ".join(takes) or "no settings"
                raise InputError(f"the store {self.key!r} has no setting {name!r}; it takes {names}.")
        variant = self.variants[0]
        if self.choice is not None:
            chosen = self.choice.checked(settings.pop(self.choice.name, variant.when), self.key)
            variant = next(one for one in self.variants if one.when == chosen)
            for name in [name for name in settings if takes[name].of == self.choice.name]:
                if chosen not in takes[name].owners and settings.pop(name) is not None:
                    raise InputError(
                        f"`{name}` of {self.key} is for {self.choice.name}={takes[name].owners[0]!r}; leave it out "
                        f"with {self.choice.name}={chosen!r}."
                    )
        store: Store = made(variant.kind, {**self.defaults, **settings}, f"the store {self.key!r}", variant.fixed)
        return store


entries: dict[str, Entry] = {}


def register(
    key: str,
    *variants: type[Store] | Variant,
    summary: str = "",
    choice: tuple[str, str] | None = None,
    defaults: Mapping[str, Any] = NONE,
    label: str = "",
    colour: str = "",
    article: int = 0,
    usual: bool = False,
) -> None:
    """Add a store to the register.

    Parameters
    ----------
    key : str
        Its public name: lower case, words joined by hyphens.
    *variants : type or Variant
        The class that it makes; where there are several, the first by default.
    summary : str
        One sentence; by default the class's.
    choice : (str, str), optional
        Name and help of the setting that chooses between several variants by their `when`.
    defaults : mapping
        Other ones than the class's.
    label : str
        Its name in prose and charts; by default the key's words.
    colour : str
        Its own as #RRGGBB, "" for one that charts choose.
    article : int
        Its place among the stores whose figures the article shows (1, 2, ...), 0 for all others.
    usual : bool
        Measured where no store is named.

    Raises
    ------
    InputError
        Where the key is registered already.
    """
    if key in entries:
        raise InputError(f"the store key {key!r} is registered twice.")
    kinds = tuple(one if isinstance(one, Variant) else Variant(one) for one in variants)
    first = kinds[0].kind
    entries[key] = Entry(
        key,
        kinds,
        summary or first.summary,
        None
        if choice is None
        else Setting(choice[0], (str,), kinds[0].when, choices=tuple(k.when for k in kinds), help=choice[1]),
        defaults,
        first.__module__.rsplit(".", 1)[-1],
        label or key.replace("-", " "),
        colour,
        article,
        usual,
    )
