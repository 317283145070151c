"""Data of "long contexts" and of the design calculator: theory only, on grids that the controls step through."""

from __future__ import annotations

from typing import Any

from assocmem.core.sharpness import Constant, LogN, QwenLogN, Sharpness, YaRN
from assocmem.page.offer import rounded
from assocmem.theory import design, softmax_ratio

LONG_COUNTS = tuple(2**k for k in range(4, 22))
CALCULATOR_COUNTS = tuple(2**k for k in range(4, 31))
RATIOS = (1.0, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01)
RULES = ("fixed", "Su / Scalable-Softmax", "Qwen LogN", "YaRN")


def policy(rule: str, reference: int, beta: float) -> Sharpness:
    """Return the sharpness policy that the page calls `rule`, equal to `beta` at the reference length."""
    if rule == "fixed":
        return Constant(beta)
    if rule == "YaRN":
        return YaRN(reference, beta)
    return QwenLogN(reference, beta) if rule == "Qwen LogN" else LogN(reference, beta)


def long_contexts(d_k: int, beta: float, reference: int) -> dict[str, Any]:
    """Return the rms ratio and the sharpness of the four rules at every M from 16 to 2,097,152."""
    rows = []
    for rule in RULES:
        chosen = policy(rule, reference, beta)
        for m in LONG_COUNTS:
            ratio = softmax_ratio(chosen, d_k, m).value
            if ratio is not None and ratio > 1e-12:
                rows.append(
                    {
                        "label": rule,
                        "n_memories": m,
                        "theory": rounded([ratio])[0],
                        "beta": rounded([chosen.beta(m, d_k)])[0],
                    }
                )
    return {"rows": rows}


def calculator(d_k: int, cosine: float) -> dict[str, Any]:
    """Return, for every M and wanted ratio, the smallest sharpness that serves, or why none does."""
    table = []
    for m in CALCULATOR_COUNTS:
        line = []
        for ratio in RATIOS:
            answer = design(d_k, m, ratio, cosine)
            line.append(
                {
                    "beta": None if answer.sharpness is None else rounded([answer.sharpness], 4)[0],
                    "scale": None if answer.logit_scale is None else rounded([answer.logit_scale], 4)[0],
                    "sentence": answer.sentence,
                }
            )
        table.append(line)
    best = design(d_k, CALCULATOR_COUNTS[0], RATIOS[0], cosine).best_sharpness
    return {"table": table, "best": None if best.value is None else rounded([best.value], 4)[0]}
