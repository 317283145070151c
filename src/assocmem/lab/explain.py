"""What the geometry of given keys says about their recall, in words."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import numpy as np

from assocmem.ruler import Geometry
from assocmem.ruler.ratio import Floats

SHARED = 0.25
UNEVEN = 0.5
SPREAD = 0.05
FAR_FROM_ONE = 0.2
FAR_IN_SQUARE = 0.4
NAMED = 3
FITTED = {"centred": "the mean", "whitened": "the whitening"}
FAINT = 1e-140
"""Largest entry of the keys below which squares of inner products are no normal numbers."""
FEW_ROWS = 0.02
"""Columns for each row of a whitening above which its uncertainty is said."""
SHOWN = 6
"""Heads that a sentence names one by one."""
NAMING = "zero"
"""The topic whose numbers name rows, so that a range of them would say something else."""
NUMBER = re.compile(r"\d+(?:[.,]\d+)*(?:e[+-]?\d+)?")


def explain(found: Geometry, kind: str, *, told: bool = False) -> dict[str, str]:
    """Return sentences by topic on why recall of such keys is as it is; `kind` is "raw", "centred" or "whitened".

    told: a sharpness was given, so that none is advised.

    A shared mean is named where it makes up a quarter of E cos² or more; uneven use of directions where the
    participation ratio is below half the width; lengths where they scatter by more than 5 %; what a
    sharpness means where the mean length is off by more than a fifth.
    """
    words = {}
    name = kind.capitalize()
    c, effective = found.mean_cosine, found.effective_dimension
    if c is not None and effective is not None and c > 0 and c * c * effective >= SHARED:
        words["mean"] = (
            f"{name} keys share a mean: two different ones have cosine {c:.2f} on average, where independent "
            f"ones in {found.d} dimensions scatter about 0 by {1 / math.sqrt(found.d):.2f}, and the mean makes up "
            f"{100 * (found.shared_mean_share or 0):.0f} % of their squared length. So in every recall all other "
            f"memories get a weight of the same sign, about σ({c:.2f}), and these add up: the outer product's "
            f"interference passes its signal near M = {1 + effective:.0f} instead of {1 + found.d}. A sharp "
            f"store sees keys that differ by only {1 - c:.2f} of similarity, which leaves {1 - c:.2f} of its beta."
        )
    ratio, remedy = found.participation_ratio_centred, "Whitening evens them out."
    if kind == "whitened":
        remedy = "They were whitened by other rows, whose directions differ, or a few long rows carry most of it."
    if ratio is not None and ratio < UNEVEN * found.d:
        words["directions"] = (
            f"{name} keys use their {found.d} directions unevenly: their covariance is worth {ratio:.1f} equal "
            f"directions (participation ratio). {remedy}"
        )
    if found.norm_mean and found.norm_std > SPREAD * found.norm_mean:
        words["lengths"] = (
            f"{name} keys have lengths from {found.norm_min:.3g} to {found.norm_max:.3g}: σ sees k.x, so a long "
            "key weighs more in every recall than a short one in its own. Normalising makes lengths one."
        )
    square = found.norm_mean * found.norm_mean + found.norm_std * found.norm_std
    if not told and 0 < square < math.inf and abs(found.norm_mean - 1) > FAR_FROM_ONE:
        root = math.sqrt(found.d)
        words["sharpness"] = (
            f"{name} keys have a mean squared length of {square:.3g}. A sharpness beta is meant for keys of length 1: "
            f"here it acts as {square:.3g} times as much. Normalise them, or give beta = {root / square:.3g} for what "
            f"{root:.3g} is on unit keys; a transformer's own 1/sqrt(d_k), {1 / root:.3g}, acts here as "
            f"{square / root:.3g}."
        )
    if effective is not None and not words:
        words["even"] = (
            f"{name} keys overlap as uniform ones do in {effective:.0f} dimensions (1/E cos²; they have {found.d})."
        )
    if found.duplicates:
        many = "1 key repeats" if found.duplicates == 1 else f"{found.duplicates} keys repeat"
        words["repeats"] = f"{many} an earlier one; no store can tell their values apart."
    return words


def zero_rows(rows: Floats, kept: Sequence[int]) -> str:
    """Return a sentence on measured rows (n, d) of length zero, by their places `kept` in the given array, or ""."""
    places = [str(kept[int(i)]) for i in np.flatnonzero(~rows.any(axis=1))]
    if len(places) == 1:
        return f"row {places[0]} has length zero: every inner product with it is 0, so it cannot be told from nothing"
    named = ", ".join(places[:NAMED]) + (f" and {len(places) - NAMED} more" if len(places) > NAMED else "")
    what = "have length zero: every inner product with them is 0, so they cannot be told from nothing"
    return f"rows {named} {what}" if places else ""


def too_small(rows: Floats) -> str:
    """Return a sentence on keys (n, d) whose inner products underflow, or ""."""
    top = float(np.max(np.abs(rows)))
    if not 0 < top < FAINT:
        return ""
    return (
        f"no entry is larger than {top:.3g}, so that inner products vanish in double precision, and with them every "
        "weight that grows from zero with the inner product; normalise them, or multiply them by a number"
    )


def set_aside(count: int, rows: int, width: int, kinds: Sequence[str]) -> str:
    """Return the sentences that say which rows the preparations were fitted on, and what a whitening so fitted lacks.

    width: of the whitened keys. Independent keys of equal variances, whitened by the covariance of N others, have
    1/E cos^2 = d (1 - d/N) in the limit of large d: by the law of Marchenko and Pastur the inverse's mean eigenvalue is
    1/(1 - d/N), their mean square 1/(1 - d/N)^3.
    """
    what = " and ".join(words for kind, words in FITTED.items() if kind in kinds)
    words = (
        f"{count} of the {rows} rows, drawn at random, were set aside to fit {what}; "
        f"everything is measured on the other {rows - count}."
    )
    if "whitened" in kinds and FEW_ROWS * count < width < count:
        words += (
            f" A whitening fitted on {count} rows is itself uncertain: keys that are perfectly even would come out "
            f"worth {width * (1 - width / count):.0f} of their {width} dimensions. More rows mend that."
        )
    return words


def effective_sharpness(beta: float | None, lengths: tuple[float, float], kind: str, *, own: bool = True) -> str:
    """Return the note on how sharp a store with `beta` is where logits are far from those of unit keys and queries.

    lengths: root mean squares of the queries' and of the keys' lengths. own: the keys ask for themselves.
    """
    if beta is None or beta == 0 or math.isinf(beta):
        return ""
    product = lengths[0] * lengths[1]
    if not math.isfinite(product) or abs(product - 1) <= FAR_IN_SQUARE:
        return ""
    long = f"of mean squared length {product:.3g}" if own else "and queries of root mean squared lengths "
    named = f"{kind} keys {long}" if own else f"{kind} keys {long}{lengths[1]:.3g} and {lengths[0]:.3g}"
    return f"on these {named}, a beta of {beta:.3g} is as sharp as {beta * product:.3g} is on unit keys and queries"


def gathered(names: Sequence[str], sentences: Sequence[dict[str, str]]) -> list[str]:
    """Return the sentences of every head; what several heads agree on, but for its numbers, is said once.

    names, sentences: of every head, and its sentences by topic. A number that differs from head to head is a range.
    """
    if len(sentences) == 1:
        return list(sentences[0].values())
    heads: dict[tuple[str, str], list[int]] = {}
    for head, found in enumerate(sentences):
        for topic, sentence in found.items():
            form = sentence if topic == NAMING else NUMBER.sub("#", sentence)
            heads.setdefault((topic, form), []).append(head)
    words = []
    for (topic, form), alike in heads.items():
        if topic != NAMING:
            for values in zip(*(NUMBER.findall(sentences[head][topic]) for head in alike), strict=True):
                form = form.replace("#", _range(values), 1)
        who = f"Head {names[alike[0]]}" if len(alike) == 1 else f"Heads {_listed(alike, names)}"
        words.append(f"{who}: {form}")
    return words


def _range(found: Sequence[str]) -> str:
    """Return one number where all are the same, else the smallest and the largest."""
    ordered = sorted(set(found), key=lambda text: float(text.replace(",", "")))
    return ordered[0] if len(ordered) == 1 else f"{ordered[0]}–{ordered[-1]}"


def _listed(heads: Sequence[int], names: Sequence[str]) -> str:
    if len(heads) > 2 and heads[-1] - heads[0] == len(heads) - 1:
        return f"{names[heads[0]]} to {names[heads[-1]]}"
    if len(heads) > SHOWN:
        return f"{', '.join(names[head] for head in heads[: SHOWN - 1])} and {len(heads) - SHOWN + 1} more"
    return ", ".join(names[head] for head in heads[:-1]) + f" and {names[heads[-1]]}"
