"""Arrays of any namespace of the Python array API standard, and the one rule for their dtypes.

The dtype rule, for every store:

- float32 and float64 are kept;
- float16 and bfloat16 are accepted: the state is float32, the output is cast back;
- integers and bools become the namespace's default floating dtype;
- mixed dtypes are promoted with the namespace's own ``result_type``, after the steps above.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from contextvars import ContextVar
from typing import Any, Literal, TypeAlias, cast

import array_api_compat
import numpy as np

from assocmem.contract.errors import DTypeError, InputError, NonFiniteError

Array: TypeAlias = Any
Namespace: TypeAlias = Any
DType: TypeAlias = Any


def namespace(*arrays: Array) -> Namespace:
    """Return the array API namespace shared by `arrays`; refuse a mixture of two."""
    if type(arrays[0]) is np.ndarray and len(arrays) == 1:
        return np
    if all(isinstance(a, np.ndarray | np.generic) for a in arrays):
        return np
    try:
        return array_api_compat.array_namespace(*arrays)
    except TypeError as error:
        kinds = ", ".join(sorted({f"{type(a).__module__}.{type(a).__name__}" for a in arrays}))
        raise DTypeError(f"all arrays of one call must come from one array library; got {kinds}.") from error


def device_of(x: Array) -> Any:
    """Return the device `x` lives on, in the words of its own library."""
    return array_api_compat.device(x)


def as_array(x: Any, name: str, *, like: Array | None = None) -> Array:
    """Return `x` as an array: Python sequences and numbers in `like`'s library, foreign byte orders turned around.

    An array stays in the library it is of. Raises DTypeError for object, text, structured and complex input,
    masked arrays and long doubles, naming the argument.
    """
    if type(x) is np.ndarray and x.dtype.kind == "f" and x.dtype.isnative and x.itemsize <= 8:
        return x
    if isinstance(x, np.ndarray | np.generic) or not array_api_compat.is_array_api_obj(x):
        array = _numpy_input(x, name)
        if isinstance(x, np.ndarray) or like is None or array_api_compat.is_numpy_array(like):
            return array
        return namespace(like).asarray(array, device=device_of(like))
    xp = namespace(x)
    if not xp.isdtype(x.dtype, ("bool", "integral", "real floating")):
        raise DTypeError(f"`{name}` must hold real numbers; got dtype {x.dtype}.")
    if xp.isdtype(x.dtype, "real floating") and dtype_name(x.dtype) not in FLOATS:
        raise DTypeError(f"`{name}` must be of {', '.join(FLOATS)} or whole numbers; got dtype {x.dtype}.")
    if array_api_compat.is_torch_array(x):
        _require_plain_tensor(x, name)
    return x


def _require_plain_tensor(x: Array, name: str) -> None:
    if x.is_nested or str(x.layout) != "torch.strided" or x.is_meta:
        kind = "a meta tensor, which holds no numbers" if x.is_meta else f"the layout {x.layout}"
        raise DTypeError(
            f"`{name}` must be a dense tensor that holds its numbers; got {'a nested one' if x.is_nested else kind}."
        )
    functorch = sys.modules["torch"]._C._functorch
    while functorch.is_functorch_wrapped_tensor(x):
        if functorch.is_batchedtensor(x):
            raise InputError(
                f"`{name}` came through torch.func.vmap, inside which no number can be checked; use batch axes: "
                "empty(..., batch=(...)) and arrays (*batch, n, width)."
            )
        x = functorch.get_unwrapped(x)


def _numpy_input(x: Any, name: str) -> np.ndarray[Any, Any]:
    if isinstance(x, np.ma.MaskedArray):
        raise DTypeError(f"`{name}` must be a plain array; a masked array came, whose hidden entries would be used.")
    try:
        array = np.asarray(x)
    except ValueError as error:
        raise InputError(f"`{name}` must be a rectangular array of numbers; its rows differ in length.") from error
    if array.dtype.kind not in "fiub":
        raise DTypeError(f"`{name}` must hold real numbers; got dtype {array.dtype}.")
    if array.dtype.kind == "f" and array.itemsize > 8:
        raise DTypeError(f"`{name}` must be of float64 or less; got dtype {array.dtype}.")
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


_NUMPYS_OWN = (type(np.dtype(np.float64)), type(np.dtype(np.float32)))


def is_half(dtype: DType, xp: Namespace) -> bool:
    """Say whether `dtype` is a 16-bit floating type."""
    if type(dtype) in _NUMPYS_OWN:
        return False
    return bool(xp.isdtype(dtype, "real floating")) and xp.finfo(dtype).bits == 16


def as_floating(x: Array, xp: Namespace) -> Array:
    """Return `x` unchanged if it is floating, else in the namespace's default floating dtype."""
    if xp.isdtype(x.dtype, "real floating"):
        return x
    return xp.astype(x, xp.__array_namespace_info__().default_dtypes()["real floating"])


def state_dtype_for(io_dtype: DType, xp: Namespace) -> DType:
    """Return the dtype in which a state keeps data of `io_dtype`: float32 for half precision, else itself."""
    return xp.float32 if is_half(io_dtype, xp) else io_dtype


def dtype_named(name: str | DType, xp: Namespace) -> DType:
    """Return the floating dtype of `xp` called `name` ("float16", "bfloat16", "float32", "float64")."""
    if not isinstance(name, str):
        return name
    dtype = getattr(xp, name, None)
    if dtype is None or not xp.isdtype(dtype, "real floating"):
        raise DTypeError(f"`state_dtype` must be a floating dtype that this array library has; got {name!r}.")
    return dtype


def dtype_name(dtype: DType) -> str:
    """Return the plain name of a dtype of any namespace, such as "float32"."""
    text = dtype.__name__ if isinstance(dtype, type) else str(getattr(dtype, "name", dtype))
    return text.rsplit(".", 1)[-1]


def all_finite(x: Array, xp: Namespace) -> bool:
    """Say whether `x` holds neither NaN nor infinity: one pass, as a finite sum shows it."""
    if quickly_finite(x) or not xp.isdtype(x.dtype, "real floating"):
        return True
    if array_api_compat.is_torch_array(x) and x.device.type == "cpu":
        # In one thread, as NumPy goes through it, nothing waits for a neighbour that keeps the other cores busy.
        x, xp = to_numpy(x), np
    with np.errstate(all="ignore"):
        if type(x) is np.ndarray and x.flags.c_contiguous and x.dtype.itemsize > 2:
            total = np.vdot(x.reshape(-1), x.reshape(-1))
        else:
            total = xp.sum(x)
        # Finite numbers whose sum overflows are looked at one by one.
        return math.isfinite(float(total)) or bool(xp.all(xp.isfinite(x)))


def quickly_finite(*arrays: Array) -> bool:
    """Say whether these are small NumPy arrays whose sums of squares show that every number is finite."""
    for x in arrays:
        if type(x) is not np.ndarray or x.size > 4096 or x.dtype.kind != "f" or not math.isfinite(np.vdot(x, x)):
            return False
    return True


_ASSUMED = ContextVar("assume_finite", default=False)


@contextmanager
def assume_finite() -> Iterator[None]:
    """Leave out, inside, every check that numbers are finite: of what comes in, of states and of recalls.

    They cost a pass over the numbers, on a GPU a synchronisation a call. NaN or infinity then spreads unannounced.

    Yields
    ------
    None
        For a `with` statement.

    Examples
    --------
    >>> with assume_finite():
    ...     require_finite(np.array([[np.nan]]), "keys", np)
    """
    token = _ASSUMED.set(True)
    try:
        yield
    finally:
        _ASSUMED.reset(token)


def trusted_finite(x: Array, xp: Namespace) -> bool:
    """Say whether `x` is finite, or assumed to be."""
    return _ASSUMED.get() or all_finite(x, xp)


def overflow_unheard() -> AbstractContextManager[Any]:
    """Silence NumPy's overflow warnings in a rule's arithmetic: a result out of range is refused in one sentence."""
    return np.errstate(over="ignore", invalid="ignore")


def own_arithmetic(xp: Namespace, device: Any) -> AbstractContextManager[Any]:
    """Compute a rule in the dtypes that the contract documents: torch's autocast off, and no word on overflow."""
    quiet = np.errstate(over="ignore", invalid="ignore")
    if xp is np or not array_api_compat.is_torch_namespace(xp):
        return quiet
    torch, kind = sys.modules["torch"], "cpu" if device is None else device.type
    if not torch.amp.is_autocast_available(kind) or not torch.is_autocast_enabled(kind):
        return quiet
    both = ExitStack()
    both.enter_context(quiet)
    both.enter_context(torch.autocast(kind, enabled=False))
    return both


def require_finite(x: Array, name: str, xp: Namespace) -> None:
    """Raise NonFiniteError naming the first row of `x` that holds NaN or infinity."""
    if trusted_finite(x, xp):
        return
    finite = xp.all(xp.isfinite(x), axis=-1)
    flat = xp.reshape(finite, (-1,))
    row = int(xp.argmin(xp.astype(flat, xp.int8)))
    rest, index = row, []
    for length in reversed(finite.shape):
        rest, at = divmod(rest, length)
        index.append(at)
    place = index[0] if len(index) == 1 else tuple(reversed(index))
    raise NonFiniteError(f"`{name}` must be finite; row {place} holds NaN or infinity, and nothing was changed.")


def broadcast_shapes(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape to which arrays of these shapes broadcast; ValueError where they do not."""
    if all(not s for s in shapes):
        return ()
    return tuple(int(n) for n in np.broadcast_shapes(*shapes))


def constant(x: Array) -> Array:
    """Return `x` cut off from any gradient: a shift that cancels in the result need not be differentiated."""
    return x.detach() if array_api_compat.is_torch_array(x) else x


def unit_rows(x: Array, name: str) -> Array:
    """Return the rows of `x` divided by their length, in floating point; half precision is divided in float32.

    Raises NonFiniteError for NaN or infinity, InputError naming the first row of length zero.
    """
    xp = namespace(x)
    rows = as_floating(x, xp)
    require_finite(rows, name, xp)
    wide = rows if not is_half(rows.dtype, xp) else xp.astype(rows, xp.float32)
    # The largest entry is divided out first, so that no length over- or underflows.
    largest = xp.max(xp.abs(wide), axis=-1, keepdims=True) if int(x.shape[-1]) else wide
    flat = xp.reshape(largest, (-1,))
    if int(x.shape[-1]) == 0 or bool(xp.any(flat == 0)):
        zero = 0 if int(x.shape[-1]) == 0 else int(xp.argmin(flat))
        raise InputError(
            f"`{name}` cannot be normalised: row {zero} has length zero; leave it out, or normalise=False."
        )
    scaled = wide / largest
    unit = scaled / xp.sqrt(xp.sum(scaled * scaled, axis=-1, keepdims=True))
    return unit if unit.dtype == rows.dtype else xp.astype(unit, rows.dtype)


def transpose(x: Array) -> Array:
    """Swap the last two axes of `x`."""
    return x.mT if hasattr(x, "mT") else np.swapaxes(x, -1, -2)


def contiguous(x: Array) -> Array:
    """Return `x` laid out row by row in memory where its library lets us choose: matrix products run faster on it."""
    if type(x) is np.ndarray:
        return np.ascontiguousarray(x)
    return x.contiguous() if array_api_compat.is_torch_array(x) else x


def to_numpy(x: Array) -> np.ndarray[Any, Any]:
    """Return `x` as a NumPy array in host memory, detached from any gradient and from torch.func's wrappers."""
    if array_api_compat.is_torch_array(x):
        inner = sys.modules["torch"]._C
        while inner._functorch.is_functorch_wrapped_tensor(x):
            x = inner._functorch.get_unwrapped(x)
        with inner._DisableFuncTorch():  # inside torch.func nothing else lets numbers out
            x = x.detach().cpu()
            return cast("np.ndarray[Any, Any]", (x.float() if dtype_name(x.dtype) == "bfloat16" else x).numpy())
    if array_api_compat.is_numpy_array(x):
        return np.asarray(x)
    if hasattr(x, "__array__"):
        return np.asarray(x)
    return np.from_dlpack(x)


def can_write_in_place(x: Array) -> bool:
    """Say whether rows of a buffer like `x` may be overwritten: not for immutable or gradient-carrying arrays."""
    if type(x) is np.ndarray:
        return bool(x.flags.writeable)
    if array_api_compat.is_torch_array(x):
        # What was made in torch's inference mode may be changed there only.
        frozen = x.is_inference() and not sys.modules["torch"].is_inference_mode_enabled()
        return not (frozen or carries_gradient(x))
    return bool(array_api_compat.is_writeable_array(x))


def carries_gradient(x: Array) -> bool:
    """Say whether derivatives are being recorded for `x`: in reverse mode, in forward mode or by torch.func."""
    if type(x) is np.ndarray or not array_api_compat.is_torch_array(x):
        return False
    return bool(x.requires_grad) or carries_tangent(x)


def carries_tangent(x: Array) -> bool:
    """Say whether derivatives of a torch array are being recorded in forward mode or by torch.func."""
    torch = sys.modules["torch"]
    if torch._C._functorch.is_functorch_wrapped_tensor(x):
        return True
    return torch.autograd.forward_ad.unpack_dual(x).tangent is not None


def times(x: Array, y: Array) -> Array:
    """Return x y, of the shape of x; in the memory of x where that loses no derivative."""
    if not can_write_in_place(x) or carries_gradient(y):
        return x * y
    x *= y
    return x


def plus(x: Array, y: Array) -> Array:
    """Return x + y, of the shape of x; in the memory of x where that loses no derivative."""
    if not can_write_in_place(x) or carries_gradient(y):
        return x + y
    x += y
    return x


def write_rows(buffer: Array, start: int, stop: int, rows: Array) -> None:
    """Overwrite ``buffer[..., start:stop, :]`` in place.

    A torch buffer is written through `.data`: earlier recalls may have saved views of its *other* rows for
    their backward pass, and these rows do not change.
    """
    if type(buffer) is not np.ndarray and array_api_compat.is_torch_array(buffer):
        buffer = buffer.data
    buffer[..., start:stop, :] = rows


_DIGITS = {"bfloat16": 7, "float16": 10, "float32": 23}


def rounding_unit(dtype: str) -> float:
    """Return the distance of 1 from the next larger number of the floating dtype called so; of float64 for others."""
    return 2.0 ** -_DIGITS.get(dtype, 52)


FLOATS = ("float16", "bfloat16", "float32", "float64")
"""Names of the floating dtypes that stores take."""
FloatName: TypeAlias = Literal["float16", "bfloat16", "float32", "float64"]


def top_k(scores: Array, k: int) -> Array:
    """Return the places of the k largest along the last axis, ascending; all of them where there are fewer.

    Of equal ones the first are taken. Cost: a partition in NumPy, a stable sort elsewhere.

    >>> top_k(np.array([[1.0, 3.0, 2.0, 3.0, 3.0]]), 2).tolist(), top_k(np.array([5.0]), 4).tolist()
    ([[1, 3]], [0])
    """
    xp, n = namespace(scores), int(scores.shape[-1])
    if k >= n:
        return xp.broadcast_to(xp.arange(n, device=device_of(scores)), scores.shape)
    if type(scores) is np.ndarray:
        flat = scores.reshape(-1, n)
        least = np.partition(flat, n - k, axis=-1)[:, n - k, None]
        keep = flat >= least
        if np.count_nonzero(keep) != k * len(flat):
            more = flat > least
            lack = k - more.sum(axis=-1, keepdims=True)
            keep = more | ((flat == least) & (np.cumsum(flat == least, axis=-1) <= lack))
        if np.count_nonzero(keep) == k * len(flat):  # not so where NaN stands among them, after an overflow
            # One flat index is ten times as fast as one for each axis.
            at = np.flatnonzero(keep).reshape(-1, k) - n * np.arange(len(flat))[:, None]
            return at.reshape(*scores.shape[:-1], k)
    return xp.sort(xp.argsort(-scores, axis=-1, stable=True)[..., :k], axis=-1)
