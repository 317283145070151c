"""How far smaller caches are from the whole one, on queries that the compressors have not seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from assocmem.compressors.cache import Budget, Cache, Compressed, Compressor, Floats, Per
from assocmem.contract.errors import InputError
from assocmem.contract.numbers import is_whole
from assocmem.contract.results import Results, Row, header_for
from assocmem.ruler import quantile

if TYPE_CHECKING:
    from assocmem.models.tracing import LayerTrace

COLUMNS = {
    "compressor": "the rule, with its settings",
    "kept": "rows held, as a share of the cache's",
    "error": "distance of what the smaller cache recalls from what the whole one does, over the length of that: of the "
    "median held-out query, all heads together",
    "error_p90": "the same, of the query that 90 % do better than",
    "error_rms": "the same, root mean square over queries",
    "mass_error": "distance of the logarithm of the weights' sum from the whole cache's: of the median query",
    "ratio": "interference-to-signal ratio of the strongest row among the rows held, of the median query",
    "ratio_whole": "the same among all rows of the cache",
}


def split(layer: LayerTrace, context: int) -> tuple[Cache, Floats]:
    """Return the cache of a traced layer's first tokens with every second later query, and the other later queries.

    Parameters
    ----------
    layer : LayerTrace
        Of `models.tracing` (`open_model(...).trace(text)`).
    context : int
        Tokens whose keys and values are the cache; at least two must follow.

    Returns
    -------
    cache : Cache
    held_out : float64 array (h, m, d_k)
        Queries that the compressors do not see.

    Raises
    ------
    InputError
        For a context that leaves no queries, and a layer with a window, a soft cap or sinks, which a cache of keys and
        values alone does not answer for.
    """
    n = layer.keys.shape[1]
    if not is_whole(context) or context > n - 2:
        raise InputError(f"`context` must be a whole number in [1, {n - 2}]; got {context!r}.")
    for name in ("softcap", "window", "sinks"):
        if getattr(layer, name) is not None:
            raise InputError(f"layer {layer.layer} attends with a {name}, which a smaller cache cannot keep to.")
    later = np.asarray(layer.queries[:, context:], np.float64)
    cache = Cache(layer.keys[:, :context], layer.values[:, :context], later[:, ::2], layer.scaling)
    return cache, later[:, 1::2]


def compare(
    cache: Cache, held_out: Any, compressors: Mapping[str, Compressor] | Sequence[Compressor],
    budgets: Sequence[Budget], *, per: Per = "head",
) -> Results:  # fmt: skip
    """Return how each compressor does at each budget on held-out queries, a row each.

    Parameters
    ----------
    cache : Cache
    held_out : array (h, m, d_k)
        Queries that see the whole cache and that no compressor has seen.
    compressors : mapping from label to compressor, or sequence of them
    budgets, per : as `Compressor.compress`

    Returns
    -------
    results : Results
        Columns as `COLUMNS` explains them (in the header too).
    """
    named = compressors if isinstance(compressors, Mapping) else {repr(c): c for c in compressors}
    asked = replace(cache, queries=held_out, causal=False)
    whole = cache.whole()
    want, ratio = whole.recall(asked.queries), _median_ratio(whole, asked)
    assert want.mass is not None  # `recall` asks for it
    rows: list[Row] = []
    for budget in budgets:
        for label, compressor in named.items():
            small = compressor.compress(cache, budget, per=per)
            got = small.recall(asked.queries)
            assert got.mass is not None
            error = np.linalg.norm(got.values - want.values, axis=-1) / np.linalg.norm(want.values, axis=-1)
            rows.append({
                "compressor": label, "kept": small.share, "error": float(quantile(error.ravel(), 0.5)),
                "error_p90": float(quantile(error.ravel(), 0.9)), "error_rms": float(np.sqrt(np.mean(error**2))),
                "mass_error": float(quantile(np.abs(got.mass.log - want.mass.log).ravel(), 0.5)),
                "ratio": _median_ratio(small, asked), "ratio_whole": ratio,
            })  # fmt: skip
    config = {"n": cache.n, "heads": len(cache.queries), "held_out": int(asked.queries.shape[1]), "per": per}
    return Results("compression", tuple(rows), header_for(config=config, definitions=COLUMNS))


def _median_ratio(small: Compressed, asked: Cache) -> float:
    ratios = [small.rows(head, rows).ratios().ratio() for head, rows in enumerate(asked.grouped)]
    found = np.concatenate([r[~np.isnan(r)] for r in ratios])
    return float(quantile(found, 0.5)) if found.size else 0.0
