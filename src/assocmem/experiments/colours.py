"""One colour for each short-term store in all figures that show it as one line."""

from __future__ import annotations

import re
from collections.abc import Iterable

# Okabe and Ito's, Paul Tol's, and a brown and a grey, apart for common colour-vision deficiencies.
COLOURS = {
    "outerproduct": "#0072B2",
    "linearattention": "#D55E00",
    "mamba": "#009E73",
    "mamba2": "#CC79A7",
    "deltanet": "#E69F00",
    "gateddeltanet": "#56B4E9",
    "tttlinear": "#A6761D",
    "tttmlp": "#661100",
    "titans": "#8A8A8A",
    "mesanet": "#AA4499",
    "deltaformer": "#000000",
    "softmax": "#44AA99",
    "leastsquares": "#332288",
    "optimallinear": "#332288",
    "superposedmlp": "#117733",
    "dpfp": "#999933",
}


def colours(labels: Iterable[str]) -> dict[str, str]:
    """Return the colours of labels that name a store, with or without its settings behind a comma.

    >>> colours(["DeltaNet", "delta-net", "Gated DeltaNet, decay 0.99", "pairs kept"])["delta-net"]
    '#E69F00'
    """
    named = {label: re.sub(r"[^a-z0-9]", "", label.partition(",")[0].lower()) for label in labels}
    return {label: COLOURS[name] for label, name in named.items() if name in COLOURS}
