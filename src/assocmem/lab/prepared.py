"""One head in one preparation: the rows that say what each store makes of it, exact or sampled."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from assocmem import theory
from assocmem.contract.errors import AssocmemError
from assocmem.contract.estimate import Estimate, Prediction, Statistic
from assocmem.contract.numbers import bounded, interval, number, stream
from assocmem.contract.results import Row
from assocmem.inputs import value_law
from assocmem.lab.exact import FARTHEST, Exact
from assocmem.lab.explain import effective_sharpness
from assocmem.lab.extrapolation import Known
from assocmem.lab.given import Given
from assocmem.lab.given_keys import spectrum_of
from assocmem.lab.plan import FloatArray, LabelledStore, Trials, row
from assocmem.lab.rows import Rows
from assocmem.maps.activations import Activation, Exp
from assocmem.ruler import GivenRows, quantile
from assocmem.ruler.capacity import Capacity, crossing_of_curve
from assocmem.ruler.geometry import Geometry, key_geometry
from assocmem.ruler.ratio import ESTIMATORS
from assocmem.ruler.whitening import Kind, Preparation

STATISTICS = {"median": "median", "rms": "root mean square", "mean": "mean"}
EXACT = "exact"
"""What stands for the sampler of numbers that were not sampled."""
FEW_HEADS = 4
"""Heads that are few enough to be told by theory what their mean and spectrum do."""
HEAVY = 0.5
"""Share of a mean square that one query holds above which it is said that the rms speaks of that query."""
UNEVEN, AT_MOST = 4.0, 0.2
"""How many even shares of a sum over trials one trial may hold, and what share at most, for it to have an interval:
beyond, where one more trial would change it all, intervals were found that miss the truth for most seeds."""


@dataclass(frozen=True, eq=False)
class Prepared:
    """One head in one preparation: its rows, of which those that the preparation was fitted on count as absent."""

    given: Given
    place: int
    kind: Kind
    rows: GivenRows
    fitted: Preparation
    fitted_on: int

    @classmethod
    def of(cls, given: Given, place: int, kind: Kind, *, fit: int, normalise: bool, seed: int) -> Prepared:
        """Return a head prepared; the `fit` rows to fit on are drawn among those that no query asks for, if they do."""
        aside = None
        if fit:
            rows = given.head(place)
            order = stream(seed, "split", given.key_head(place)).permutation(rows.keys.shape[-2])
            if given.asked == "queries" and rows.target is not None:
                order = np.concatenate([order[~np.isin(order, rows.target)], order[np.isin(order, rows.target)]])
            aside = order[:fit]
        prepared, fitted = given.prepared(place, kind, fit_on=aside, normalise=normalise)
        return cls(given, place, kind, prepared, fitted, fit)

    @cached_property
    def kept(self) -> FloatArray:
        """The places of the rows that are measured."""
        return np.setdiff1d(np.arange(self.rows.keys.shape[-2]), list(self.rows.drop))

    @cached_property
    def shape(self) -> Geometry:
        """The geometry of the rows that are measured."""
        return key_geometry(self.rows.keys[self.kept], came=self.given.came)

    @cached_property
    def most(self) -> int:
        """How many rows a query sees at most."""
        if self.rows.mask is not None:
            return int(self.rows.seen().sum(axis=-1).max())
        return min(len(self.kept), self.rows.window or len(self.kept))

    @cached_property
    def lengths(self) -> tuple[float, float]:
        """The mean length of the queries' and of the keys' rows, as roots of mean squares."""
        return tuple(  # type: ignore[return-value]
            float(np.abs(x).max()) * float(np.sqrt(np.mean(np.sum((x / (np.abs(x).max() or 1.0)) ** 2, axis=-1))))
            for x in (self.rows.queries, self.rows.keys[self.kept])
        )

    def columns(self) -> Row:
        """Return what every row says of the keys."""
        fit, place = self.fitted, self.given.places[self.place]
        return {
            "name": self.given.names[self.place], "layer": place[-2] if len(place) > 1 else None,
            "head": place[-1] if place else 0, "preparation": self.kind, "normalised": fit.normalise,
            "n_rows": len(self.kept), "n_fitted": 0 if self.kind == "raw" else fit.n_fitted, "columns": fit.d,
            "columns_dropped": fit.dropped, "directions_dropped": fit.directions_dropped, "d_k": fit.rank,
        }  # fmt: skip

    @cached_property
    def law(self) -> dict[str, Any] | None:
        """The mean and spectrum of few heads' keys that ask for themselves among random values, else None."""
        rows, few = self.rows, len(self.given.names) <= FEW_HEADS
        own = self.given.asked == "stored keys" and rows.values is None and rows.mask is None and not rows.causal
        return spectrum_of(np.asarray(rows.keys, np.float64)[self.kept]) if own and few else None

    def predicted(self, one: LabelledStore, threshold: float) -> Prediction | None:
        """Return the capacity, by rms, that theory gives normal keys with these keys' mean and covariance."""
        sigma = one.sigma(self.rows.keys.shape[-1], len(self.kept))
        if self.law is None or sigma is None or one.changes_with_n(self.rows.keys.shape[-1]):
            return None
        power = 1.0 if self.law["normalise"] else self.law["power"]  # of the law's keys the mean square length is one
        if sigma.exponent is not None:
            sigma = Exp(sigma.exponent * power)
        elif abs(power - 1) > 1e-6 and not _of_a_power(sigma):
            return None
        settings = {name: self.law[name] for name in ("eigenvalues", "mean", "normalise")}
        return theory.capacity(sigma, self.rows.keys.shape[-1], ratio=threshold, law="spectrum", **settings)

    # ------------------------------------------------------------------ exact

    def exact(
        self, one: LabelledStore, memories: Sequence[int], statistic: Statistic, threshold: float, d_v: int, seed: int
    ) -> tuple[list[Row], Row] | None:
        """Return the curve's rows and the capacity's row of a store; None where it must be sampled."""
        top = memories[-1]
        base: Row = self.columns() | {"beta": one.beta(self.rows.keys.shape[-1], top)}
        estimator = "weights" if self.rows.values is None else "vectors"
        definition = (
            f"{STATISTICS[statistic]} over queries of the root mean square over subsets of M rows of the "
            f"{ESTIMATORS[estimator]}"
        )
        known = Estimate(None, None, None, 0, seed, definition, statistic, EXACT, method="no sampling")
        try:
            found = Exact.of(self.rows, one)
            if found is None:
                return None
            curve = [
                row(one, replace(known, value=found.ratio(m, statistic)), **base, quantity="ratio", n_memories=m,
                    estimator=estimator, **self._at(found, m, threshold)) for m in memories if m >= 2
            ]  # fmt: skip
            right = self._right(found, top, d_v, seed)
            for last in curve[-1:]:
                last["right"] = right
            return curve, self._capacity(one, found, known, base, max(2, top), right, threshold)
        except AssocmemError as error:
            return [], row(
                one, replace(known, reason=str(error)), **base, **NO_CAPACITY, note=self._sharp(base["beta"])
            )

    def _at(self, found: Exact, m: float, threshold: float) -> Row:
        return {
            "p10": found.ratio(m, "p10"), "p90": found.ratio(m, "p90"), "rms": found.ratio(m, "rms"),
            "heaviest": found.heaviest(m), "past": found.past(m, threshold),
            "loudest": found.loudest(m), "right": None, "right_low": None, "right_high": None,
        }  # fmt: skip

    def _right(self, found: Exact, m: int, d_v: int, seed: int) -> float:
        """Return the share of right choices among m rows, drawn at random where there are more."""
        rows, rng = self.rows, stream(seed, "values", self.place)
        values = value_law("sphere").draw(rng, rows.keys.shape[-2], d_v) if rows.values is None else rows.values
        left = rng.permutation(self.kept)[m:]
        among = Exact(replace(rows, drop=(*rows.drop, *left.tolist())), found.one) if len(left) else found
        return among.right(values, m)

    def _capacity(
        self, one: LabelledStore, found: Exact, known: Estimate, base: Row, top: int, right: float, threshold: float
    ) -> Row:
        """Return the row of a capacity, between 2 and the largest M, with what else there is to know."""
        statistic, there, heaviest = known.statistic, found.ratio(top, known.statistic), found.heaviest(top)
        reach = {name: found.crossing(threshold, of, 2, top) for name, of in
                 (("value", statistic), ("p10", "p90"), ("p90", "p10"), ("rms", "rms"))}  # fmt: skip
        beyond, said, reason, more, notes = None, Known(None, None, None), "", "", list[str]()
        if reach["value"] is None and found.ratio(2, statistic) > threshold:
            endless = math.isinf(found.log_ratio(2, statistic))
            first = "infinite: a query gives its own row no weight" if endless else bounded(found.ratio(2, statistic))
            none = "" if endless else ": no other memory fits"
            reason = f"already above {threshold:g} at M = 2, where the ratio is {first}{none}"
        elif reach["value"] is None:
            beyond = found.crossing(threshold, statistic, top, FARTHEST)
            all_of = "all the rows there are" if top == len(self.kept) else "the largest that was measured"
            if beyond is not None:
                said, doubts = found.extrapolated(threshold, statistic)
                span = "" if said.low is None else f" ({interval(said.low, said.high)})"
                more = (
                    f"; extrapolated to more rows of the same kind it is reached near M = {number(round(beyond))}{span}"
                )
                notes += doubts
            reason = f"not reached below M = {top:,}, {all_of}; the ratio there is {bounded(there)}{more}"
        if heaviest > HEAVY:
            notes.append(f"one query holds {heaviest:.0%} of the mean square at M = {top:,}: the rms speaks of it")
        if reason.endswith("fits") and right > HEAVY:
            notes.append(
                f"yet {right:.0%} of choices among M = {top:,} are right: the ratio is a mean square, which the few "
                "rows that are louder than the one asked for carry, in the few subsets and queries that meet them; a "
                "choice fails in those alone"
            )
        capacity = Capacity(
            reach["value"], None, None, threshold, known.definition, statistic, 0, float(top), there, known.seed,
            EXACT, reason=reason,
        )  # fmt: skip
        return row(
            one, capacity, **base, quantity="capacity", threshold=threshold, largest_m=capacity.largest_m,
            ratio_there=capacity.ratio_there, right_there=right, definition=known.definition, beyond=beyond,
            beyond_low=said.low, beyond_high=said.high,
            p10=reach["p10"], p90=reach["p90"], rms=reach["rms"],
            note="; ".join(filter(None, [*notes, self._sharp(base["beta"])])),
        ) | self._theory(one, threshold)  # fmt: skip

    def _theory(self, one: LabelledStore, threshold: float) -> Row:
        found = self.predicted(one, threshold)
        if found is None or found.value is None:
            return {}
        return {"theory": found.value, "theory_statistic": found.statistic, "theory_exact": found.exact,
                "theory_source": f"normal keys with the mean and covariance of these: {found.source}"}  # fmt: skip

    # ------------------------------------------------------------------ sampled

    def sampler(self, trials: int, asked: int) -> Rows:
        """Return the sampler of the stores that are not exact."""
        rows, kept = self.rows, self.kept
        settings: dict[str, Any] = {"trials": trials, "asked": asked, "name": self.place}
        values = None if rows.values is None else rows.values[kept]
        masked = rows.causal or rows.mask is not None
        if self.given.asked == "stored keys" and not masked:
            return Rows(rows.keys[kept], values, **settings)
        targets = replace(rows, activation=None, scaling=1.0, gates=None).targets()
        inside = targets >= 0
        seen = rows.seen()[inside][:, kept] if masked else None
        return Rows(
            rows.keys[kept], values, rows.queries[inside], np.searchsorted(kept, targets[inside]), seen, rows.causal,
            **settings,
        )  # fmt: skip

    def sampled(self, trials: Sequence[Trials], threshold: float, seed: int) -> tuple[list[Row], Row]:
        """Return the curve's rows and the capacity's row of one store, from its ratios and choices in turn."""
        one, counts = trials[0].one, [found.n_memories for found in trials[::2]]
        base: Row = self.columns() | {"beta": one.beta(self.rows.keys.shape[-1], counts[-1])}
        curve = [held(found.estimate(seed)) for found in trials[::2]]
        sharp = self._sharp(base["beta"])
        refused = next((found.refusal for found in trials if found.refusal), "")
        if refused:
            return [], row(one, _refused(curve[0], refused), **base, **NO_CAPACITY, note=sharp)
        rows = []
        for n, ratio, drawn, choices in zip(counts, curve, trials[::2], trials[1::2], strict=True):
            right, numbers = choices.estimate(seed), np.ravel(drawn.numbers)
            peak = float(numbers.max())
            squares = np.square(numbers / peak) if 0 < peak < math.inf else np.square(numbers)
            rows.append(row(
                one, ratio, **base, quantity="ratio", n_memories=n, estimator=drawn.estimator,
                p10=float(quantile(numbers, 0.1)), p90=float(quantile(numbers, 0.9)),
                rms=(peak or 1.0) * float(np.sqrt(np.mean(squares))),
                heaviest=None if math.isinf(peak) else float(squares.max() / (squares.sum() or 1.0)),
                past=float(np.mean(numbers > threshold)), loudest=None, right=right.value, right_low=right.low,
                right_high=right.high,
            ))  # fmt: skip
        found = crossing_of_curve([float(n) for n in counts], curve, threshold)
        if found.value is None and found.ratio_there is not None and found.ratio_there <= threshold:
            all_of = "all the rows there are" if counts[-1] == len(self.kept) else "the largest that was measured"
            reason = f"not reached below M = {counts[-1]:,}, {all_of}; the ratio there is {bounded(found.ratio_there)}"
            found = replace(found, reason=reason)
        return rows, row(
            one, found, **base, quantity="capacity", threshold=threshold, largest_m=found.largest_m,
            ratio_there=found.ratio_there, right_there=rows[-1]["right"], definition=found.definition,
            **UNKNOWN, note="; ".join(filter(None, [found.note, sharp])),
        )  # fmt: skip

    def _sharp(self, beta: float | None) -> str:
        return effective_sharpness(beta, self.lengths, self.kind, own=self.given.asked == "stored keys")


def _of_a_power(sigma: Activation) -> bool:
    """Say whether longer keys change the weights by one factor."""
    s = np.array([1.0, 0.5, 0.1, -0.5])
    with np.errstate(all="ignore"):
        longer, here = (np.asarray(sigma(x), np.float64) for x in (3 * s, s))
    return bool(np.allclose(longer * here[0], here * longer[0], rtol=1e-9))


UNKNOWN: Row = dict.fromkeys(("p10", "p90", "rms", "beyond", "beyond_low", "beyond_high"))
NO_CAPACITY: Row = {"quantity": "capacity", **UNKNOWN}


def _refused(found: Estimate, reason: str) -> Estimate:
    """Return an estimate of nothing: what was found at a smaller M is no capacity."""
    return replace(found, value=None, low=None, high=None, reason=reason)


def held(found: Estimate) -> Estimate:
    """Return an estimate without its interval where one trial carries so much of a sum that no interval would hold."""
    if found.heaviest is None or found.low is None or found.heaviest <= min(AT_MOST, UNEVEN / found.n_trials):
        return found
    reason = (
        f"one of {found.n_trials} trials holds {found.heaviest:.0%} of the sum, so that no interval of it would hold "
        "what it says; ask for the median"
    )
    return replace(found, low=None, high=None, reason=reason)
