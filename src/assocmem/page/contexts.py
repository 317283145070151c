"""Data of "long contexts" and of the design calculator: theory only, on grids that the controls step through."""

from __future__ import annotations

from typing import Any

from assocmem.maps.sharpness import Constant, LogN, QwenLogN, Sharpness, YaRN
from assocmem.page.offer import rounded
from assocmem.theory import Design, design, ratio

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
    """Return the rms ratio and the sharpness of the four rules at every M from 16 to 2,097,152, lists by rule.

    A ratio too small for a float is null.
    """
    rules = {}
    for rule in RULES:
        chosen = policy(rule, reference, beta)
        ratios = [ratio(chosen, d_k, m).value for m in LONG_COUNTS]
        rules[rule] = {
            "ratio": [rounded([r], 4)[0] if r else None for r in ratios],
            "beta": rounded([chosen(m, d_k) for m in LONG_COUNTS], 4),
        }
    return {"m": list(LONG_COUNTS), "rules": rules}


def calculator(d_k: int, cosine: float) -> dict[str, Any]:
    """Return, for every M and wanted ratio, the smallest sharpness that serves, or why none does.

    table: a line for each M, in it {beta, scale, sentence} for each ratio; scale is the factor on q.k for queries and
    keys of length sqrt(d_k). best: the sharpness of the lowest ratio, null where sharper is always better.
    """
    table = [[_cell(design(d_k, m, ratio, cosine)) for ratio in RATIOS] for m in CALCULATOR_COUNTS]
    best = design(d_k, CALCULATOR_COUNTS[0], RATIOS[0], cosine).best_sharpness
    return {"table": table, "best": None if best.value is None else rounded([best.value], 4)[0]}


def _cell(answer: Design) -> dict[str, Any]:
    return {
        "beta": None if answer.sharpness is None else rounded([answer.sharpness], 4)[0],
        "scale": None if answer.logit_scale is None else rounded([answer.logit_scale], 4)[0],
        "sentence": _sentence(answer),
    }


def _sentence(answer: Design) -> str:
    best, most, reached = answer.best_sharpness.value, answer.largest.value, answer.reached.value
    if answer.feasible and best is None:
        return "The query is clean: anything sharper serves too."
    limit = "" if best is None or most is None else (
        f"With this noise the best sharpness is {best:.3g}; it serves up to {_count(most)} at this ratio."
    )  # fmt: skip
    if answer.feasible:
        return limit
    return f"The lowest ratio within reach is {reached:.3g}. {limit}" if reached is not None else limit


def _count(m: float) -> str:
    whole = int(m)
    return f"{whole:,} {'memory' if whole == 1 else 'memories'}" if m < 1e12 else f"{m:.2g} memories"
