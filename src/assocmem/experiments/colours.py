"""One colour for each store in all figures that show it as one line: the register's."""

from __future__ import annotations

from collections.abc import Iterable

from assocmem import stores
from assocmem.experiments.experiment import Shown


def colours(shown: Iterable[Shown]) -> dict[str, str]:
    """Return the colours by label of those stores that have one of their own; charts find one for the others."""
    known = {one.label: stores.entry(one.key).colour for one in shown if one.key in stores.names()}
    return {label: colour for label, colour in known.items() if colour}
