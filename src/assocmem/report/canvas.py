"""What all charts share: colours and sizes, and the canvas that keeps the rows of a chart's layers by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

# Okabe and Ito's palette and three more, apart for common colour-vision deficiencies, seen on white and on black.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#A6761D", "#8A8A8A", "#AA4499", "#44AA99")
WIDTH = 620

Row = Mapping[str, Any]
Spec: TypeAlias = dict[str, Any]
Mode = Literal["report", "paper", "live"]
"""report: legend entries toggle their series. paper: no interaction. live: named datasets that a page swaps."""


@dataclass
class Canvas:
    """How a chart is made, and the rows of its layers by name.

    Layers refer to their rows by name, so that Altair does not go through every row; a live page swaps the rows under
    a name.
    """

    mode: Mode
    datasets: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def layer(self, name: str, rows: Sequence[Row]) -> Any:
        """Return a chart over rows kept under a name of their own (live: under `name`, supplied by the page)."""
        import altair as alt

        if self.mode == "live":
            return alt.Chart(alt.NamedData(name))
        unique = f"{name}-{len(self.datasets)}"
        self.datasets[unique] = [dict(r) for r in rows]
        return alt.Chart(alt.NamedData(unique))

    def written(self, layer: Any) -> Spec:
        """Return a layer as a specification; rows that it holds itself go to the others."""
        context = {"top_level": False, "datasets": self.datasets}
        spec: Spec = layer.to_dict(validate=False, context=context)
        return spec


def parameters(**values: Any) -> list[Spec]:
    """Return parameters of a live chart, which the page sets by name."""
    return [{"name": name, "value": value} for name, value in values.items()]
