"""The rules: one family of stores a file, found by discovery, and a user's own by their address MODULE:CLASS.

A new file in this folder is listed, tested, drawn and documented without any other file being edited. The classes of
registered stores are had from here too, loaded on touch: `assocmem.stores.SoftmaxAttention`.
"""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from typing import TYPE_CHECKING, Any

from assocmem.contract.errors import InputError, UnknownNameError
from assocmem.contract.register import Entry, entries
from assocmem.contract.store import Store

if TYPE_CHECKING:  # what checkers and editors know
    # generated: classes
    from assocmem.stores.all_attention import AllAttention as AllAttention
    from assocmem.stores.all_attention import AttentionOverParameters as AttentionOverParameters
    from assocmem.stores.delta import DeltaNet as DeltaNet
    from assocmem.stores.delta import GatedDeltaNet as GatedDeltaNet
    from assocmem.stores.delta_former import DeltaFormer as DeltaFormer
    from assocmem.stores.dense_memory import DenseMemory as DenseMemory
    from assocmem.stores.dense_memory import ExponentialMemory as ExponentialMemory
    from assocmem.stores.engram import Engram as Engram
    from assocmem.stores.functional_gradient import FunctionalGradient as FunctionalGradient
    from assocmem.stores.gradient_descent import GradientDescent as GradientDescent
    from assocmem.stores.gradient_descent import TrainedLayer as TrainedLayer
    from assocmem.stores.hopfield import Hopfield as Hopfield
    from assocmem.stores.hopfield import ProjectionHopfield as ProjectionHopfield
    from assocmem.stores.hopfield import StorkeyHopfield as StorkeyHopfield
    from assocmem.stores.knn import MemorizingTransformer as MemorizingTransformer
    from assocmem.stores.knn import NearestNeighbours as NearestNeighbours
    from assocmem.stores.linear_attention import LinearAttention as LinearAttention
    from assocmem.stores.mamba import Mamba as Mamba
    from assocmem.stores.mamba import Mamba2 as Mamba2
    from assocmem.stores.mesa import MesaNet as MesaNet
    from assocmem.stores.mlp import MLP as MLP
    from assocmem.stores.mlp import GatedMLP as GatedMLP
    from assocmem.stores.modern_hopfield import ModernHopfield as ModernHopfield
    from assocmem.stores.optimal import OptimalLinear as OptimalLinear
    from assocmem.stores.outer import OuterProduct as OuterProduct
    from assocmem.stores.peer import PEER as PEER
    from assocmem.stores.product_key import MemoryLayers as MemoryLayers
    from assocmem.stores.product_key import ProductKeyMemory as ProductKeyMemory
    from assocmem.stores.regression import WeightedRegression as WeightedRegression
    from assocmem.stores.sdm import SparseDistributedMemory as SparseDistributedMemory
    from assocmem.stores.series import TruncatedExp as TruncatedExp
    from assocmem.stores.series import TruncatedExpFeatures as TruncatedExpFeatures
    from assocmem.stores.softmax import SoftmaxAttention as SoftmaxAttention
    from assocmem.stores.superposed import SuperposedMLP as SuperposedMLP
    from assocmem.stores.superposed import WhitenedMLP as WhitenedMLP
    from assocmem.stores.titans import Titans as Titans
    from assocmem.stores.ttt import TTTMLP as TTTMLP
    from assocmem.stores.ttt import TTTLinear as TTTLinear
    from assocmem.stores.ultramem import UltraMem as UltraMem
    # end: classes
else:

    def __getattr__(name: str) -> type[Store]:
        kind = _classes().get(name) if name[:1].isupper() else None
        if kind is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return kind


_discovered = False


def _discover(key: str = "") -> None:
    """Import all families; with a key that begins with the name of one, only that."""
    global _discovered
    if not _discovered:
        names = [info.name for info in pkgutil.iter_modules(__path__)]
        named = [name for name in names if key.replace("-", "_").startswith(name)]
        for name in named or names:
            importlib.import_module(f"{__name__}.{name}")
        _discovered = not named


def _classes() -> dict[str, type[Store]]:
    """Return the classes that the families in this folder register, by name."""
    _discover()
    found = {variant.kind for one in entries.values() for variant in one.variants}
    return {kind.__name__: kind for kind in found if kind.__module__.startswith(f"{__name__}.")}


def __dir__() -> list[str]:
    return sorted({*globals(), *_classes()})


def names() -> tuple[str, ...]:
    """Return the keys of all stores, in the order of the article and then by name.

    Returns
    -------
    tuple of str
        What `make_store` and `Memory` take.

    Examples
    --------
    >>> "softmax" in names()
    True
    """
    _discover()
    return tuple(sorted(entries, key=lambda key: (entries[key].article or len(entries), key)))


def entry(key: str) -> Entry:
    """Return the register's entry for a key.

    Parameters
    ----------
    key : str
        One of `names()`.

    Returns
    -------
    Entry
        Its class, settings and label.

    Raises
    ------
    UnknownNameError
        For another key, with the nearest.
    """
    for begins in (key, ""):
        if key not in entries:
            _discover(begins)
    if key not in entries:
        near = difflib.get_close_matches(key, entries, n=3, cutoff=0.5)
        offer = f" Did you mean {' or '.join(near)}?" if near else ""
        raise UnknownNameError(f"there is no store called {key!r}.{offer} `assocmem list` shows all {len(entries)}.")
    return entries[key]


def make_store(key: str, **settings: Any) -> Store:
    """Return the store registered under `key`, or a user's own under MODULE:CLASS, with the given settings.

    Parameters
    ----------
    key : str
        One of `assocmem.stores.names()`; see `address.load_store` for what MODULE:CLASS may name.
    **settings
        Of the store, as `assocmem show KEY` lists them.

    Returns
    -------
    Store
        A frozen dataclass of its settings.

    Raises
    ------
    UnknownNameError
        For an unknown key, with the nearest.
    InputError
        For a setting that it does not take.

    Examples
    --------
    >>> make_store("softmax", beta=4.0).name
    'SoftmaxAttention'
    """
    if not isinstance(key, str):
        raise InputError(f"`key` of make_store must be a text such as 'softmax' or 'MODULE:CLASS'; got {key!r}.")
    if ":" in key:
        from assocmem.stores.address import load_store

        return load_store(key, **settings)
    return entry(key).make(**settings)


def key_of(store: Store) -> str:
    """Return the registered key of a store.

    Parameters
    ----------
    store : Store
        Any.

    Returns
    -------
    str
        The key whose default settings give it, else its class name.
    """
    alike = (key for key, found in entries.items() if found.kind is type(store) and found.make() == store)
    return next(alike, type(store).__name__)
