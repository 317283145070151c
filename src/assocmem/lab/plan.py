"""What to measure: stores under the names that results give them, and the plan that a result is repeated from."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np

from assocmem import stores, theory
from assocmem.contract.errors import InputError
from assocmem.contract.estimate import Estimate, Prediction, Statistic
from assocmem.contract.numbers import is_whole
from assocmem.contract.results import Row
from assocmem.contract.store import Store
from assocmem.inputs import Law, key_law
from assocmem.kernels.compute import Progress, Workers
from assocmem.lab.extras import Extras, check_names, taken_by
from assocmem.maps.activations import Activation
from assocmem.ruler.estimate import summarise, summarise_shares
from assocmem.stores import key_of, make_store
from assocmem.stores.address import own_store

FloatArray = np.ndarray[Any, Any]
NO_FORMULA = "no formula where extras are given"
Estimator = Literal["auto", "weights", "vectors", "projection"]


@dataclass(frozen=True)
class LabelledStore:
    """A store to be measured: the store, its register key (or class name) and the label that charts show."""

    store: Store
    key: str
    label: str

    def sigma(self, d_k: int, n_memories: float) -> Activation | None:
        """Return σ where recall of that many pairs is V^T σ(K x) for keys of length one, else None."""
        form = self.store.form(d_k)
        return None if form is None or form.signs else form.of_keys(n_memories, d_k)

    def beta(self, d_k: int, n_memories: float) -> float | None:
        """Return the sharpness at that many memories, None for stores that have none."""
        found = getattr(self.sigma(d_k, n_memories), "beta", None)
        return None if found is None else float(found)

    def changes_with_n(self, d_k: int) -> bool:
        """Say whether σ depends on the number of memories (a sharpness policy)."""
        form = self.store.form(d_k)
        return form is not None and form.depends_on_n


StoreLike: TypeAlias = LabelledStore | Store | str | tuple[str, Store] | type[Store] | Callable[..., Any]


def labelled(what: StoreLike) -> LabelledStore:
    """Return a labelled store from a key, a Store or class (a user's own too), a function, or a (label, Store) pair.

    >>> labelled("outer-product").label
    'outer-product'
    """
    if isinstance(what, LabelledStore):
        return what
    if isinstance(what, str):
        return LabelledStore(make_store(what), what, what)
    if isinstance(what, tuple) and len(what) == 2 and isinstance(what[0], str):
        return replace(labelled(what[1]), label=what[0])
    if isinstance(what, Store):
        return LabelledStore(what, _key(what), key_of(what))
    if callable(what):
        store, name = own_store(what), getattr(what, "__name__", type(what).__name__)
        return LabelledStore(store, _key(store), name)
    raise InputError(
        f"a store must be given by its key, as a Store, class or function, or as (label, Store); got {what!r}."
    )


def all_labelled(given: Iterable[StoreLike]) -> tuple[LabelledStore, ...]:
    """Return all of them labelled, refusing two with one label."""
    found = tuple(labelled(what) for what in given)
    labels = [one.label for one in found]
    for label in labels:
        if labels.count(label) > 1:
            raise InputError(f"two stores are labelled {label!r}; give each a label of its own, as (label, store).")
    return found


def _key(store: Store) -> str:
    """Return the only register key of the store's class, else the one with its settings, else the class name."""
    alike = [name for name in stores.names() if stores.entry(name).kind is type(store)]
    return alike[0] if len(alike) == 1 else key_of(store)


@dataclass(frozen=True, eq=False)
class Trials:
    """Numbers of independent trials of one store at one place, which a statistic will sum up.

    numbers: (trials,), or (trials, m) for the m targets of each; of shares, where `recalls` > 0 were made in each.
    quantity, estimator, definition: what the numbers are; sampler: how they were drawn. columns: of the row, which say
    where in the plan this is. predict: gives what theory says of it. refusal: why there are no numbers. failed: of
    how many recalls the ratio is infinite because they were not finite, in words.
    """

    one: LabelledStore
    n_memories: int
    numbers: FloatArray
    statistic: Statistic
    estimator: str
    sampler: str
    columns: Mapping[str, Any] = field(default_factory=dict)
    quantity: str = "ratio"
    definition: str | None = None
    recalls: int = 0
    predict: Callable[[], Prediction | None] = lambda: None
    refusal: str = ""
    failed: str = ""

    def estimate(self, seed: int) -> Estimate:
        """Return the statistic of the numbers with its interval."""
        record: dict[str, Any] = {"seed": seed, "sampler": self.sampler}
        if self.recalls:
            return summarise_shares(self.numbers, self.recalls, definition=self.definition or "", **record)
        record |= {"estimator": self.estimator, "definition": self.definition}
        found = summarise(self.numbers, self.statistic, **record)
        if self.refusal:
            return replace(found, reason=self.refusal)
        if not self.failed:
            return found
        return replace(found, reason=self.failed if found.value == math.inf else found.reason, failed=self.failed)


class Sampler(Protocol):
    """Draws the trials of a plan; results do not depend on the workers."""

    def draw(self, plan: Plan, workers: Workers, progress: Progress | None) -> Iterator[Trials]:
        """Yield the trials of every place of the plan: store by store, then M, then where they are asked."""
        ...


@dataclass(frozen=True)
class Plan:
    """What to measure and how, frozen: a result is repeated from it.

    sampler: draws the trials. stores; d_k, width of their keys. memories: every M >= 1, the target counted.
    seed: of all random streams. cosines: of a query with the key that it asks for. statistics: of the ratio over
    trials. d_v: width of the values. keys, values: laws by name or as Law; values of length one make the mean squares
    by weights and by vectors agree. experiment: the figure or table that rows are for. extras: laws of the further
    arrays that writes take, by name (see `extras.drawn_extras`).
    """

    sampler: Sampler
    stores: tuple[LabelledStore, ...]
    d_k: int
    memories: tuple[int, ...]
    seed: int = 0
    cosines: tuple[float, ...] = (1.0,)
    statistics: tuple[Statistic, ...] = ("rms",)
    d_v: int = 64
    keys: str | Law = "sphere"
    values: str | Law = "sphere"
    experiment: str = ""
    extras: Extras = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.memories or not all(is_whole(n) for n in self.memories):
            raise InputError(f"`memories` must be whole numbers >= 1, at least one; got {self.memories!r}.")
        for name in ("d_k", "d_v"):
            if not is_whole(getattr(self, name)):
                raise InputError(f"`{name}` must be a whole number >= 1; got {getattr(self, name)!r}.")
        if self.extras:
            check_names([one.store for one in self.stores], self.extras)

    def predicted(self, one: LabelledStore, n: int, cosine: float = 1.0, statistic: Statistic = "rms") -> Prediction:
        """Return what theory says of the ratio at one place of the plan, or none with a reason."""
        return self._asked(theory.ratio, one, cosine, statistic, n)

    def predicted_capacity(self, one: LabelledStore, threshold: float) -> Prediction:
        """Return what theory says of the capacity at the plan's first cosine and statistic, or none with a reason."""
        return self._asked(theory.capacity, one, self.cosines[0], self.statistics[0], ratio=threshold)

    def _asked(
        self, question: Callable[..., Prediction], one: LabelledStore, cosine: float, statistic: Statistic,
        *more: float, **named: float,
    ) -> Prediction:  # fmt: skip
        if self.extras and taken_by([one.store], self.extras):
            return Prediction(question.__name__, None, statistic, "", "", reason=NO_FORMULA)
        asked: dict[str, Any] = {"cosine": cosine, "statistic": statistic}
        if self.keys != "sphere":
            law = key_law(self.keys)
            asked |= {"law": law.name, **law.settings}
        return question(one.store.form(self.d_k), self.d_k, *more, **named, **asked)


def sigma_of(one: LabelledStore, d_k: int, n_memories: int) -> Activation:
    """Return the store's σ; InputError where its recall is not V^T σ(K x)."""
    sigma = one.sigma(d_k, n_memories)
    if sigma is None:
        raise InputError(f"{one.label} is not of the form V^T σ(K x); measure it by the keys sampler.")
    return sigma


def row(one: LabelledStore, found: Any, theory: Prediction | None = None, **columns: Any) -> Row:
    """Return one tidy row: the store, what was found of it (an Estimate or a Capacity), theory, and `columns`.

    Theory of another statistic than the measured one goes to a column of its own. Columns: see `contract.columns`.
    """
    known = None if theory is None else theory.value
    same = theory is not None and theory.statistic == found.statistic
    return {
        "store": one.key, "label": one.label, "statistic": found.statistic, "sampler": found.sampler,
        "value": found.value, "low": found.low, "high": found.high, "n_trials": found.n_trials, "seed": found.seed,
        "theory": known if same else None, "theory_quotient": None if same else known,
        "theory_source": theory.source if theory is not None and known is not None else None,
        "reason": found.reason or getattr(found, "failed", ""), **columns,
    }  # fmt: skip
