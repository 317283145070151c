"""A torch module as a store: one that writes and recalls, or one that is trained on the pairs."""

from __future__ import annotations

import copy
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from assocmem.contract import arrays as ar
from assocmem.contract.arrays import Array
from assocmem.contract.errors import InputError
from assocmem.contract.numbers import is_whole
from assocmem.contract.traits import Traits
from assocmem.stores.function import FunctionStore

if TYPE_CHECKING:
    from torch import nn

Maker = Callable[[int, int], "nn.Module"]
_ONE_AT_A_TIME = threading.RLock()
"""torch's default dtype and its random generator are the whole process's."""


def module_store(
    module: nn.Module | Maker,
    promises: Traits | None = None,
    *,
    steps: int = 0,
    rate: float = 0.1,
    optimiser: Callable[..., Any] | None = None,
    seed: int = 0,
    device: str | None = None,
    dtype: Literal["float64", "float32"] = "float64",
) -> FunctionStore:
    """Return a store whose recall is that of a torch module, measured like any other.

    A module with `write(keys, values)` and `recall(queries)` is written to once and asked in inference mode. Any other
    is trained: its `forward(keys)` is fitted to the values by the mean over pairs of the squared error's sum, all pairs
    in every step, and asked in inference mode. Every recall begins with a fresh module (a copy of the one given, or
    one that is made anew) and with torch's generators at `seed`, so that the same pairs give the same recall; the
    caller's generators are left as they were.

    Parameters
    ----------
    module : torch.nn.Module or callable
        make(d_k, d_v) returning a module, such as the module's class; or a module that takes any widths. Measurements
        write values of other widths than the module's own, so one made for one width alone is refused.
    promises : Traits, optional
        See `FunctionStore`, which measures them.
    steps : int
        Steps of training, >= 1 for a module that has no write and recall.
    rate : float
        Step size.
    optimiser : callable, optional
        Called with parameters and lr=rate; torch.optim.SGD by default.
    seed : int
        Seed of torch's generators, in [0, 2^63).
    device : str, optional
        Where the module runs; by default where its parameters are, or the CPU.
    dtype : {"float64", "float32"}
        What it is made and run in. Traits are held to float64's rounding; float32 is for devices without it.

    Returns
    -------
    FunctionStore
        It keeps the pairs; the module is its recall.

    Raises
    ------
    InputError
        For a module that neither recalls nor has steps to be trained in.

    Notes
    -----
    Cost: one write of all pairs, or `steps` forward and backward passes over them, for every recall. Modules run one at
    a time, as torch's generator and default dtype are the whole process's.

    Examples
    --------
    >>> import torch
    >>> class Linear(torch.nn.Module):
    ...     def write(self, keys, values):
    ...         self.W = keys.mT @ values
    ...     def recall(self, queries):
    ...         return queries @ self.W
    >>> module_store(Linear()).traits.overwrite
    'adds'
    """
    if not callable(module):
        raise InputError(f"`module` must be a torch module or a function make(d_k, d_v) of one; got {module!r}.")
    if not is_whole(steps, 0):
        raise InputError(f"`steps` must be a whole number >= 0; got {steps!r}.")
    if dtype not in ("float64", "float32"):
        raise InputError(f"`dtype` must be float64 or float32; got {dtype!r}.")
    return FunctionStore(_ModuleRecall(module, steps, rate, optimiser, seed, device, dtype), promises)


@dataclass(frozen=True)
class _ModuleRecall:
    """The recall function of a module: f(K, V, x) = module, written with or trained on K and V, at x."""

    module: Any
    steps: int
    rate: float
    optimiser: Callable[..., Any] | None
    seed: int
    device: str | None
    dtype: str

    @property
    def __name__(self) -> str:
        return str(getattr(self.module, "__name__", type(self.module).__name__))

    def __call__(self, keys: Array, values: Array, queries: Array) -> Array:
        import torch

        dtype = getattr(torch, self.dtype)
        with _alone(dtype, self.seed, self.device):
            module = self._made(int(keys.shape[-1]), int(values.shape[-1]), dtype)
            first = next(iter((*module.parameters(), *module.buffers())), None)
            device = self.device or ("cpu" if first is None else first.device)
            k, v, x = (torch.as_tensor(ar.to_numpy(rows)).to(device, dtype) for rows in (keys, values, queries))
            if self._recalls(module):
                with torch.inference_mode():
                    module.write(k, v)
                    out = module.recall(x)
            else:
                self._train(module, k, v)
                with torch.inference_mode():
                    out = module(x)
            out = out.detach().cpu()
        xp = ar.namespace(queries)
        return xp.asarray(out.numpy(), dtype=queries.dtype, device=ar.device_of(queries))

    def _made(self, d_k: int, d_v: int, dtype: Any) -> Any:
        from torch import nn

        given = self.module
        with warnings.catch_warnings():  # torch warns of parameters of width 0
            warnings.filterwarnings("ignore", message="Initializing zero-element tensors")
            module = copy.deepcopy(given) if isinstance(given, nn.Module) else given(d_k, d_v)
        if not isinstance(module, nn.Module):
            raise InputError(f"`module` must make a torch.nn.Module of (d_k, d_v); got {type(module).__name__}.")
        if not self._recalls(module) and not self.steps:
            raise InputError(
                f"the module {self.__name__} has no write(keys, values) and recall(queries); to train its forward on "
                "the pairs give `steps`."
            )
        module = module.to(dtype=dtype)
        return (module if self.device is None else module.to(self.device)).eval()

    def _recalls(self, module: Any) -> bool:
        return callable(getattr(module, "write", None)) and callable(getattr(module, "recall", None))

    def _train(self, module: Any, keys: Any, values: Any) -> None:
        import torch

        make = torch.optim.SGD if self.optimiser is None else self.optimiser
        step = make(module.parameters(), lr=self.rate)
        module.train()
        with torch.enable_grad():
            for _ in range(self.steps):
                step.zero_grad()
                ((module(keys) - values) ** 2).sum(-1).mean().backward()
                step.step()
        module.eval()


@contextmanager
def _alone(dtype: Any, seed: int, device: str | None) -> Iterator[None]:
    """Run alone on one thread, with torch's default dtype and generators set, and put all of them back."""
    import torch

    with _ONE_AT_A_TIME:
        if str(device).startswith("cuda"):
            torch.cuda.init()  # type: ignore[no-untyped-call]
        # Seeding what was never used would queue a call, and a traceback, for each recall.
        used: bool = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
        devices = range(torch.cuda.device_count()) if used else ()
        with torch.random.fork_rng(devices):
            before, threads = torch.get_default_dtype(), torch.get_num_threads()
            torch.set_default_dtype(dtype)
            torch.set_num_threads(1)  # as all that is measured side by side; more wait for each other
            torch.default_generator.manual_seed(seed)
            if devices:
                torch.cuda.manual_seed_all(seed)
            try:
                yield
            finally:
                torch.set_default_dtype(before)
                torch.set_num_threads(threads)
