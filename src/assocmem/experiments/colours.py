"""One colour for each short-term store in all figures that show it as one line."""

from __future__ import annotations

from collections.abc import Iterable

from assocmem.experiments.experiment import Shown

# Okabe and Ito's, Paul Tol's, and a brown and a grey, apart for common colour-vision deficiencies.
COLOURS = {
    "outer-product": "#0072B2", "linear-attention": "#D55E00", "mamba": "#009E73", "mamba-2": "#CC79A7",
    "delta-net": "#E69F00", "gated-delta-net": "#56B4E9", "ttt-linear": "#A6761D", "ttt-mlp": "#661100",
    "titans": "#8A8A8A", "mesa-net": "#AA4499", "delta-former": "#000000", "softmax": "#44AA99",
    "optimal-linear": "#332288", "superposed-mlp": "#117733", "dpfp": "#999933",
}  # fmt: skip


def colours(shown: Iterable[Shown]) -> dict[str, str]:
    """Return the colours by label of those stores that have one of their own; charts find one for the others."""
    return {one.label: COLOURS[one.key] for one in shown if one.key in COLOURS}
