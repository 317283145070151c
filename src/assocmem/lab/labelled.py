"""A store with the names that results give it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from assocmem import stores
from assocmem.contract.errors import InputError
from assocmem.contract.form import Form, KernelSum
from assocmem.contract.store import Store
from assocmem.maps.activations import Activation
from assocmem.stores import key_of, make_store


@dataclass(frozen=True)
class Subject:
    """A store to be measured: the store, its register key (or class name) and the label that charts show."""

    store: Store
    key: str
    label: str

    def form(self, d_k: int) -> Form | None:
        """Return the store's form, which is all that theory sees of it: `theory.ratio(one.form(d_k), d_k, M)`."""
        return self.store.form(d_k)

    def sigma(self, d_k: int, n_memories: float) -> Activation | None:
        """Return σ where recall of that many pairs is V^T σ(K x), else None."""
        form = self.form(d_k)
        return form.at(n_memories, d_k) if isinstance(form, KernelSum) else None

    def beta(self, d_k: int, n_memories: int) -> float | None:
        """Return the sharpness at that many memories, None for stores that have none."""
        found = getattr(self.sigma(d_k, n_memories), "beta", None)
        return None if found is None else float(found)

    def changes_with_n(self, d_k: int) -> bool:
        """Whether σ depends on the number of memories (a sharpness policy)."""
        form = self.form(d_k)
        return isinstance(form, KernelSum) and form.depends_on_n


Subjectlike: TypeAlias = Subject | Store | str | tuple[str, Store]


def subject(what: Any) -> Subject:
    """Return a Subject from a register key, a store, a (label, store) pair, or a Subject.

    >>> subject("outer-product").label
    'outer-product'
    """
    if isinstance(what, Subject):
        return what
    if isinstance(what, str):
        return Subject(make_store(what), what, what)
    if isinstance(what, tuple) and len(what) == 2 and isinstance(what[0], str) and isinstance(what[1], Store):
        return Subject(what[1], _key(what[1]), what[0])
    if isinstance(what, Store):
        return Subject(what, _key(what), key_of(what))
    raise InputError(f"a store must be given by its key, as a Store, or as (label, Store); got {what!r}.")


def _key(store: Store) -> str:
    """Return the store's register key; with other settings than any, the key of its class where only one makes it."""
    key = key_of(store)
    if key != store.name:
        return key
    alike = [name for name in stores.names() if stores.entry(name).kind is type(store)]
    return alike[0] if len(alike) == 1 else key


def subjects(*given: Any) -> tuple[Subject, ...]:
    """Return the Subjects of all stores, refusing two with one label."""
    found = tuple(subject(what) for what in given)
    labels = [one.label for one in found]
    for label in labels:
        if labels.count(label) > 1:
            raise InputError(f"two stores are labelled {label!r}; give each a label of its own, as (label, store).")
    return found
