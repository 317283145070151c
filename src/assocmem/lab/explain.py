"""What the geometry of given keys says about their recall, in words."""

from __future__ import annotations

import math

from assocmem.ruler import Geometry

SHARED = 0.25
UNEVEN = 0.5
SPREAD = 0.05
FAR_FROM_ONE = 0.2


def explain(found: Geometry, kind: str) -> list[str]:
    """Return sentences on why recall of such keys is as it is; `kind` is "raw", "centred" or "whitened".

    A shared mean is named where it makes up a quarter of E cos² or more; uneven use of directions where the
    participation ratio is below half the width; lengths where they scatter by more than 5 %; what a
    sharpness means where the mean length is off by more than a fifth.
    """
    words = []
    name = kind.capitalize()
    c, effective = found.mean_cosine, found.effective_dimension
    if c is not None and effective is not None and c > 0 and c * c * effective >= SHARED:
        words.append(
            f"{name} keys share a mean: two different ones have cosine {c:.2f} on average, where independent "
            f"ones in {found.d} dimensions scatter about 0 by {1 / math.sqrt(found.d):.2f}, and the mean makes up "
            f"{100 * (found.shared_mean_share or 0):.0f} % of their squared length. So in every recall all other "
            f"memories get a weight of the same sign, about σ({c:.2f}), and these add up: the outer product's "
            f"interference passes its signal near M = {1 + effective:.0f} instead of {1 + found.d}. A sharp "
            f"store sees keys that differ by only {1 - c:.2f} of similarity, which leaves {1 - c:.2f} of its beta."
        )
    ratio = found.participation_ratio_centred
    remedy = "Whitening evens them out."
    if kind == "whitened":
        remedy = "They were whitened by other rows, whose directions differ, or a few long rows carry most of it."
    if ratio is not None and ratio < UNEVEN * found.d:
        words.append(
            f"{name} keys use their {found.d} directions unevenly: their covariance is worth {ratio:.1f} equal "
            f"directions (participation ratio). {remedy}"
        )
    if found.norm_mean and found.norm_std > SPREAD * found.norm_mean:
        words.append(
            f"{name} keys have lengths from {found.norm_min:.3g} to {found.norm_max:.3g}: σ sees k.x, so a long "
            "key weighs more in every recall than a short one in its own. Normalising makes lengths one."
        )
    if found.norm_mean and abs(found.norm_mean - 1) > FAR_FROM_ONE:
        square = found.norm_mean**2 + found.norm_std**2
        words.append(
            f"{name} keys have a mean squared length of {square:.3g}. A sharpness beta is meant for keys of length 1: "
            f"here it acts as {square:.3g} times as much. Normalise them, or give beta divided by {square:.3g} (a "
            f"transformer's 1/sqrt(d_k) on keys of length sqrt(d_k) is beta = {1 / math.sqrt(found.d):.3g} here)."
        )
    if effective is not None and not words:
        words.append(
            f"{name} keys overlap as uniform ones do in {effective:.0f} dimensions (1/E cos²; they have {found.d})."
        )
    if found.duplicates:
        words.append(f"{found.duplicates} keys repeat an earlier one; no store can tell their values apart.")
    return words
