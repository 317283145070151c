"""What more keys of the same kind do to the heads of a layer, under the rules that sharpen logits with length."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from assocmem.contract.results import Row
from assocmem.maps.activations import LogN, QwenLogN, Sharpness, YaRN
from assocmem.ruler import GivenRows, RowRatios, quantile
from assocmem.theory import design

FloatArray = np.ndarray[Any, Any]

CONTEXTS = (4096, 32768, 131072)
CONTEXT_COLUMNS = {
    "layer": "number of the layer, from 0",
    "head": "number of the query head, from 0",
    "n_memories": "M, keys of the same kind as these, the target counted",
    "rule": "as it is; log-n (Su); qwen (log-n above L); yarn (its temperature); ssmax (s ln n, with the s that serves "
    "L); needed: what the median query takes for the threshold",
    "factor": "by which the rule multiplies the logits, null where none serves",
    "ratio": "of the median query among M keys, its logits times the factor",
    "reference": "L, the length that the rules leave as it is",
    "random_keys": "factor that random unit keys of this width need for the same M, where 1 is beta = sqrt(d)",
}
RULES: dict[str, Callable[[float], Sharpness]] = {
    "log-n": lambda reference: LogN(reference, 1.0),
    "qwen": lambda reference: QwenLogN(reference, 1.0),
    "yarn": lambda reference: YaRN(reference, 1.0),
}


@dataclass(frozen=True)
class LongerTexts:
    """The task of a layer: what each rule does to its heads among each number of keys."""

    memories: tuple[float, ...]
    reference: float
    threshold: float

    def __call__(self, task: tuple[int, GivenRows]) -> list[Row]:
        """Return the rows of a layer's heads, given its number and their rows."""
        layer, rows_of = task
        d = rows_of.keys.shape[-1]
        lengths = (self.reference, *self.memories)
        needed = quantile(np.moveaxis(rows_of.logit_factors(lengths, self.threshold), -1, 0), 0.5)  # (1 + M, h)
        rules: dict[str, list[FloatArray]] = {"as it is": [np.ones(needed.shape[1]) for _ in self.memories]}
        for name, rule in RULES.items():
            rules[name] = [np.full(needed.shape[1], rule(self.reference)(m, d)) for m in self.memories]
        rules["ssmax"] = [needed[0] * math.log(m) / math.log(self.reference) for m in self.memories]
        known: dict[bytes, RowRatios] = {}
        rows: list[Row] = []
        for i, m in enumerate(self.memories):
            random = design(d, m, self.threshold).sharpness
            base = {"n_memories": m, "reference": self.reference,
                    "random_keys": None if random is None else random / math.sqrt(d)}  # fmt: skip
            for name, factors in rules.items():
                c = np.where(np.isfinite(factors[i]), factors[i], 1.0)
                if c.tobytes() not in known:
                    known[c.tobytes()] = rows_of.ratios(c)
                ratios = quantile(known[c.tobytes()].ratio(m), 0.5)
                rows += _context_rows(layer, base | {"rule": name}, factors[i], ratios)
            rows += _context_rows(
                layer, base | {"rule": "needed"}, needed[1 + i], np.full(needed.shape[1], self.threshold)
            )
        return rows


def _context_rows(layer: int, base: Row, factors: FloatArray, ratios: FloatArray) -> list[Row]:
    """Return a row for each head; no ratio where no factor serves."""
    known = np.where(np.isfinite(factors), ratios, np.nan)
    return [
        {"layer": layer, "head": head} | base | {"factor": finite(factors[head]), "ratio": finite(known[head])}
        for head in range(len(factors))
    ]


def finite(value: Any) -> float | None:
    """Return a number as a table holds it: None where it is infinite or NaN."""
    number = float(value)
    return number if math.isfinite(number) else None
