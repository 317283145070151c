"""One head's given keys: the sharpness that M memories need, what given ones serve, what the context rules leave.

Everything is a root mean square over queries and, beside it, the median query; exact on the rows there are
(`ruler.GivenRows`), and beyond them by `lab.extrapolation`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from assocmem.contract.estimate import Prediction
from assocmem.contract.results import Row
from assocmem.lab.extrapolation import (
    Growth,
    Known,
    capacity_logs,
    carried_words,
    copies_words,
    equal_rows,
    estimate,
    growth,
    held_out,
    parts_for,
)
from assocmem.lab.longer_texts import RULES
from assocmem.maps.activations import Exp
from assocmem.ruler import GivenRows, RowRatios, quantile
from assocmem.theory import capacity, design, ratio

THIN = 256
"""Queries that the search for a sharpness begins with."""
PASSES = 10
ASIDE = 0.02
"""Relative distance of the two sharpnesses tried beside the first, which one pass reads together."""
CLOSE = 1e-5
"""Distance of ln ratio^2 from the wanted one at which a search ends."""
BLUNT = "no sharpness serves: other rows have logits as large as the target's"
AS_IT_IS, NEEDED, SSMAX = "as it is", "needed", "ssmax"

Of = Callable[[RowRatios], Any]


@dataclass(frozen=True)
class HeadFound:
    """What was found of a head: its rows, and warnings by kind."""

    rows: list[Row]
    warnings: Mapping[str, str]


@dataclass(frozen=True)
class GivenKeys:
    """The task of one head.

    betas: sharpnesses to judge. rules: those that raise them above `reference` keys. own: queries are the stored keys
    and values random, so that there is a theory of keys with their mean and spectrum.
    """

    memories: float
    ratio: float
    betas: tuple[float, ...]
    reference: float
    rules: tuple[str, ...]
    own: bool = True

    def __call__(self, task: tuple[int, GivenRows]) -> HeadFound:
        """Return the rows of a head, whose logits are those of sharpness 1."""
        head, rows = task
        return _Head(self, head, rows).found()


@dataclass
class _Search:
    """The sharpness at which the mean square ratio among M memories is the wanted one.

    Three are tried in the first pass; from then on the root of the parabola through the last three, ln ratio^2 being
    smooth in the sharpness. slope: of ln ratio^2 at the last one.
    """

    memories: float
    aim: float
    beta: float | None
    slope: float = -1.0
    done: RowRatios | None = None
    tried: list[tuple[float, float]] = field(default_factory=list)

    @property
    def open(self) -> bool:
        return self.beta is not None and self.done is None

    @property
    def betas(self) -> list[float]:
        """The sharpnesses to read next, the likeliest last."""
        if self.beta is None:
            return []
        return [self.beta] if self.tried else [(1 - ASIDE) * self.beta, (1 + ASIDE) * self.beta, self.beta]

    def tell(self, known: Mapping[float, RowRatios]) -> None:
        """Take the ratios (1 + parts, m) at `betas`, and end or choose another."""
        for beta in self.betas:
            self.tried.append((beta, _excess(known[beta], self.memories, self.aim)))
        (a, f), (b, g), (c, h) = self.tried[-3:]
        excesses = [f, g, h]
        if not np.isfinite(excesses).all() or len(set(excesses)) < 3 or len(self.tried) > PASSES:
            self.beta = None
            return
        curve = np.polynomial.Polynomial.fit([a, b, c], excesses, 2)
        self.slope = float(curve.deriv()(c))
        if abs(h) < CLOSE:
            self.done = known[c]
        elif self.slope >= 0:
            self.beta = None
        else:
            falling = [float(x.real) for x in curve.roots() if x.imag == 0 and float(curve.deriv()(x.real)) < 0]
            following = falling[0] if falling else c - h / self.slope
            self.beta = min(max(following, 0.5 * c), 2 * c)

    def logs(self) -> Any:
        """Return ln of the sharpness with all rows, and by a step of Newton's without each part."""
        assert self.beta is not None
        assert self.done is not None
        excess = self.done.over_queries().log_mean_square(self.memories)[..., 0]
        return math.log(self.beta) - (excess - excess[0]) / (self.slope * self.beta)


@dataclass
class _Head:
    asked: GivenKeys
    head: int
    rows: GivenRows

    def __post_init__(self) -> None:
        self.parts = parts_for(self.rows.keys.shape[0])
        self.part = self.rows.part_of(self.parts)
        self.d = int(self.rows.keys.shape[1])
        self.known: dict[float, RowRatios] = {}
        self.law = spectrum_of(np.asarray(self.rows.keys, np.float64)) if self.asked.own else None

    @cached_property
    def blunt(self) -> str:
        """Why no sharpness serves, with the share of queries that it is for."""
        rows = _thinned(self.rows)
        logits = np.asarray(rows.queries, np.float64) @ np.asarray(self.rows.keys, np.float64).T
        places = np.arange(len(logits)), np.asarray(rows.target)
        own = logits[places].copy()
        logits[places] = -math.inf
        share, alike = float(np.mean(logits.max(axis=1) >= own)), self.law is None or self.law["normalise"]
        return f"{BLUNT} for {share:.0%} of queries" + ("" if alike else "; keys of length one (normalise) may do")

    def found(self) -> HeadFound:
        """Search, judge and warn."""
        asked, aim = self.asked, 2 * math.log(self.asked.ratio)
        wanted = _Search(asked.memories, aim, None)
        served = _Search(asked.reference, aim, None)
        searches = [wanted, served] if SSMAX in asked.rules and asked.reference != asked.memories else [wanted]
        for one in searches:
            self._begin(one)
        pending = {beta for rule, beta in self._ruled()} | {2 * asked.betas[0]}
        while pending or any(one.open for one in searches):
            begun = [one for one in searches if one.open]
            self._read([*pending, *(beta for one in begun for beta in one.betas)])
            pending = set()
            for one in begun:
                one.tell(self.known)
        reference = served if len(searches) > 1 else wanted
        ssmax = None if reference.beta is None else (
            reference.beta * math.log(asked.memories) / math.log(asked.reference))  # fmt: skip
        if SSMAX in asked.rules and ssmax is not None:
            self._read([ssmax])
        self.seen = int(self.known[asked.betas[0]].others[0].max()) + 1
        return HeadFound(list(self._rows(wanted, ssmax)), dict(self._warnings(wanted)))

    def _begin(self, search: _Search) -> None:
        """Begin a search where some of the queries end theirs."""
        from scipy.optimize import brentq

        thin = _thinned(self.rows)

        def excess(beta: float) -> float:
            return _excess(thin.ratios(beta), search.memories, search.aim)

        low, high = 0.0, math.sqrt(self.d)
        last = excess(high)
        if excess(0.0) <= 0:
            search.beta, search.done = 0.0, thin.ratios(0.0)
            return
        while last > 0:
            following = excess(1.6 * high)
            if not following < last or high > 1e6 * math.sqrt(self.d):
                return
            low, high, last = high, 1.6 * high, following
        search.beta = float(brentq(excess, low, high, rtol=1e-3, xtol=1e-9))

    def _read(self, betas: Sequence[float]) -> None:
        """Work out the folds (1 + parts, m) at sharpnesses, each once."""
        fresh = [beta for beta in dict.fromkeys(betas) if beta not in self.known]
        if not fresh:
            return
        found = self.rows.folds(self.parts, fresh)
        for i, beta in enumerate(fresh):
            self.known[beta] = held_out(found[i], self.part)

    def _ruled(self) -> Iterator[tuple[str, float]]:
        """Yield the given sharpnesses and what the rules make of them among M memories."""
        for beta in self.asked.betas:
            yield AS_IT_IS, beta
            for name in self.asked.rules:
                if name in RULES:
                    yield name, beta * RULES[name](self.asked.reference)(self.asked.memories, self.d)

    def _rows(self, wanted: _Search, ssmax: float | None) -> Iterator[Row]:
        asked, m = self.asked, self.asked.memories
        uniform = design(self.d, m, asked.ratio)
        needed = Known(None, None, None, m > self.seen)
        if wanted.beta == 0:
            needed = Known(0.0, None, None, m > self.seen)
        elif wanted.done is not None:
            needed = estimate(wanted.done, lambda _: wanted.logs(), m > self.seen)
        yield self._row("sharpness", NEEDED, needed, beta=needed.value, n_memories=m, uniform=uniform.sharpness,
                        reason="" if needed.value is not None else self.blunt, theory=self._sharpness())  # fmt: skip
        for beta in asked.betas:
            for statistic, of in capacity_logs(asked.ratio).items():
                found = estimate(self.known[beta], of)
                found = replace(found, extrapolated=found.value is None or found.value > self.seen)
                reason = "" if found.value is not None else "no other row interferes, so no M is too large"
                yield self._row("capacity", AS_IT_IS, found, statistic, beta=beta, reason=reason,
                                theory=self._predicted(capacity, beta, ratio=asked.ratio),
                                uniform=capacity(Exp(beta), self.d, ratio=asked.ratio).value)  # fmt: skip
        ruled: list[tuple[str, float | None]] = [*self._ruled()]
        ruled += [(SSMAX, ssmax)] if SSMAX in asked.rules else []
        for rule, sharp in ruled:
            for statistic, of in _ratio_logs(m).items():
                found = Known(None, None, None) if sharp is None else estimate(self.known[sharp], of, m > self.seen)
                value = None if sharp is None else ratio(Exp(sharp), self.d, m).value
                theory = None if sharp is None else self._predicted(ratio, sharp, n_memories=m)
                yield self._row("ratio", rule, found, statistic, beta=sharp, n_memories=m, uniform=value, theory=theory,
                                reason=self.blunt if sharp is None else "")  # fmt: skip

    def _predicted(self, question: Callable[..., Prediction], beta: float, **asked: float) -> Prediction | None:
        """Return what theory says of normal keys with these keys' mean and covariance, at this sharpness."""
        if self.law is None:
            return None
        # The law's keys have a mean squared length of one.
        sharp = beta if self.law["normalise"] else beta * self.rows.scaling * self.law["power"]
        settings = {name: self.law[name] for name in ("eigenvalues", "mean", "normalise")}
        return question(Exp(sharp), self.d, law="spectrum", **asked, **settings)

    def _sharpness(self) -> Prediction | None:
        """Return the sharpness that theory needs on such keys for the wanted ratio, None where it has none."""
        from scipy.optimize import brentq

        def excess(beta: float) -> float:
            said = self._predicted(ratio, beta, n_memories=self.asked.memories)
            return math.nan if said is None or said.log_value is None else said.log_value - math.log(self.asked.ratio)

        low, high = 1e-6, 1.0
        while excess(high) > 0 and high < 1e6:
            low, high = high, 1.5 * high
        if not (excess(low) > 0 and excess(high) <= 0):
            return None
        found = float(brentq(excess, low, high, rtol=1e-6))
        said = self._predicted(ratio, found, n_memories=self.asked.memories)
        return None if said is None else replace(said, quantity="sharpness", value=found, log_value=math.log(found))

    def _row(self, quantity: str, rule: str, found: Known, statistic: str = "rms", **more: Any) -> Row:
        beta, said = more.get("beta"), more.get("theory") if statistic == "rms" else None
        return {
            "head": self.head, "quantity": quantity, "rule": rule, "statistic": statistic,
            "beta": beta, "logit_scale": None if beta is None else beta * self.rows.scaling,
            "n_memories": more.get("n_memories"), "threshold": self.asked.ratio, "value": found.value,
            "low": found.low, "high": found.high, "extrapolated": found.extrapolated, "n_rows": self.seen,
            "uniform": more["uniform"], "reason": more["reason"], "theory": None if said is None else said.value,
            "theory_exact": None if said is None or said.value is None else said.exact,
            "theory_source": None if said is None or said.value is None else said.source,
            "theory_reason": "" if said is None else said.reason,
        }  # fmt: skip

    def _warnings(self, wanted: _Search) -> Iterator[tuple[str, str]]:
        usual = self.asked.betas[0]
        found = self.known[usual]
        trend: Growth = growth(found, self.part)
        if trend.words:
            yield "order", trend.words
        beta = usual if not wanted.beta else wanted.beta
        copies = equal_rows(np.asarray(self.rows.keys))
        if len(copies):
            n = self.rows.keys.shape[0] - len(copies)
            everything = self.rows.ratios(beta).over_queries().log_mean_square(self.seen)[0]
            alone = replace(self.rows, drop=copies.tolist())
            left = -math.inf if n < 2 else float(alone.ratios(beta).over_queries().log_mean_square(n)[0] - everything)
            yield "copies", copies_words(self.rows, 1.0 - min(1.0, math.exp(min(left, 0.0))), len(copies))
        words = carried_words(found[0], self.known[2 * usual][0])
        if not words and beta != usual:
            thin = _thinned(self.rows, 4 * THIN)
            words = carried_words(thin.ratios(beta), thin.ratios(2 * beta))
        if words:
            yield "few", words


def spectrum_of(keys: Any) -> dict[str, Any]:
    """Return the settings of the law "spectrum" that has the mean and the covariance of keys (n, d), and their power.

    normalise: whether all keys have one length; power: the mean squared length.
    """
    scale = float(np.abs(keys).max()) or 1.0
    keys = keys / scale
    lengths = np.linalg.norm(keys, axis=1)
    mean = keys.mean(axis=0)
    values, axes = np.linalg.eigh(np.cov(keys, rowvar=False).reshape(keys.shape[1], -1))
    values = np.where(values > 1e-12 * max(values[-1], 0.0), values, 0.0)
    alike = float(lengths.std()) < 1e-6 * float(lengths.mean())
    return {
        "eigenvalues": values,
        "mean": mean @ axes,
        "normalise": alike,
        "power": float(np.mean(lengths**2)) * scale**2,
    }


def _excess(found: RowRatios, memories: float, aim: float) -> float:
    """Return ln of the mean square ratio over the wanted one, of folds' first (1 + parts, m) or of queries (m,)."""
    return float(np.ravel(found.over_queries().log_mean_square(memories))[0]) - aim


def _thinned(rows: GivenRows, count: int = THIN) -> GivenRows:
    """Return the rows with some of their queries, evenly over all."""
    m = rows.queries.shape[0]
    chosen = np.unique(np.linspace(0, m - 1, min(m, count)).round().astype(np.int64))
    assert not isinstance(rows.target, str)
    return replace(rows, queries=rows.queries[chosen], target=np.asarray(rows.target)[chosen])


def _ratio_logs(memories: float) -> dict[str, Of]:
    return {
        "rms": lambda r: 0.5 * r.over_queries().log_mean_square(memories)[..., 0],
        "median": lambda r: 0.5 * quantile(r.log_mean_square(memories), 0.5),
    }
