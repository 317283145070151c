"""Frozen descriptions of what to measure: a result is repeated from its plan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from assocmem.contract.errors import InputError
from assocmem.contract.estimate import Statistic
from assocmem.inputs import Law
from assocmem.lab.labelled import Subject
from assocmem.maps.activations import Activation

Estimator = Literal["auto", "weights", "vectors", "projection"]


@dataclass(frozen=True)
class SimilarityPlan:
    """What to measure by similarities.

    stores: subjects, all with a σ. memories: every M >= 1, counting the target. streams: independent streams, each as
    long as the largest M: the number of trials there. pieces: most trials that a smaller M may cut from one stream.
    length: similarities in each stream, if more than the largest M needs. cosines: of the query with its key.
    statistics: of the ratio over trials. estimators: "weights", or "vectors" for Gaussian values of width d_v, whose
    interference is then drawn exactly.
    """

    experiment: str
    stores: tuple[Subject, ...]
    d_k: int
    memories: tuple[int, ...]
    seed: int = 0
    streams: int = 100
    pieces: int = 64
    length: int = 0
    cosines: tuple[float, ...] = (1.0,)
    statistics: tuple[Statistic, ...] = ("rms",)
    estimators: tuple[str, ...] = ("weights",)
    d_v: int = 64

    def __post_init__(self) -> None:
        if not self.memories or any(isinstance(n, bool) or int(n) != n or n < 1 for n in self.memories):
            raise InputError(f"`memories` must be whole numbers >= 1, at least one; got {self.memories!r}.")
        if self.streams < 1 or self.pieces < 1:
            raise InputError(f"`streams` and `pieces` must be >= 1; got {self.streams} and {self.pieces}.")
        for one in self.stores:
            sigma_of(one, self.d_k, max(self.memories))
        if self.estimators != ("weights",) and not set(self.estimators) <= {"weights", "vectors"}:
            raise InputError(f"`estimators` must be among weights and vectors; got {self.estimators!r}.")


@dataclass(frozen=True)
class KeyPlan:
    """What to measure by drawn keys.

    memories: every M >= 1, counting the target. trials: at the largest M; smaller ones get in proportion more, at
    most `most`. targets: stored keys asked for in each trial (at most M). keys, values: laws by name or as Law; values
    of length one make the mean squares of both estimators agree. estimator: "auto" takes the weights where the store
    gives them or M <= 512, else vectors; the projection for stores that are not linear in their values.
    dtype: "float64" or "float32".
    """

    experiment: str
    stores: tuple[Subject, ...]
    d_k: int
    memories: tuple[int, ...]
    seed: int = 0
    trials: int = 16
    most: int = 256
    targets: int = 16
    cosines: tuple[float, ...] = (1.0,)
    statistics: tuple[Statistic, ...] = ("rms",)
    d_v: int = 64
    keys: str | Law = "sphere"
    values: str | Law = "sphere"
    estimator: Estimator = "auto"
    dtype: str = "float64"

    def __post_init__(self) -> None:
        if not self.memories or any(isinstance(n, bool) or int(n) != n or n < 1 for n in self.memories):
            raise InputError(f"`memories` must be whole numbers >= 1, at least one; got {self.memories!r}.")
        if min(self.trials, self.most, self.targets, self.d_v) < 1:
            raise InputError("`trials`, `most`, `targets` and `d_v` must be whole numbers >= 1.")
        if self.dtype not in ("float64", "float32"):
            raise InputError(f"`dtype` must be float64 or float32; got {self.dtype!r}.")

    def trials_at(self, n: int) -> int:
        """Return the number of trials for n memories."""
        return max(self.trials, min(self.most, self.trials * max(self.memories) // n))


@dataclass(frozen=True)
class KeyTask:
    """Some trials of one M: `count` of them from number `first`; as one batch, or (not `batched`) one alone."""

    plan: KeyPlan
    n: int
    first: int
    count: int
    batched: bool


def sigma_of(one: Subject, d_k: int, n_memories: int) -> Activation:
    """Return the store's σ; InputError where its recall is not V^T σ(K x)."""
    sigma = one.sigma(d_k, n_memories)
    if sigma is None:
        raise InputError(f"{one.label} is not of the form V^T σ(K x); measure it by the keys sampler.")
    return sigma
