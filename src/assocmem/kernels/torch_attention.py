"""Softmax attention of torch arrays by torch's own fused kernel, which hands out the logarithm of the weights' sum.

The kernel is the one behind `scaled_dot_product_attention` on a CPU. It takes a mask as numbers that are added to the
logits, so masks go through it some rows at a time, and a scan leaves out the pairs that a block of rows cannot see. It
has one derivative in reverse mode; a second one is taken through the blocks that any other library goes through.
"""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import array_api_compat

from assocmem.contract import arrays as ar
from assocmem.contract.arrays import Array
from assocmem.contract.recall import Causal, Visible
from assocmem.kernels.blockwise import mask_of

BIAS_NUMBERS = 2**22
"""Numbers of a mask that are at hand as floating numbers at once: 16 MB in float32."""

Blocks: TypeAlias = Callable[[Array, Array, Array, float, Visible], Array]
"""The same recall block by block: values for keys, values, queries, scale and what is visible."""


@dataclass(frozen=True)
class Attended:
    """Output (..., m, d), log of the weights' sum (..., m) without a gradient, both in the arrays' dtype.

    some (..., m): which queries see anything; None for all of them.
    """

    output: Array
    log_mass: Array
    some: Array | None


def suits(keys: Array, values: Array, queries: Array) -> bool:
    """Say whether the kernel takes these: torch's on a CPU, of one dtype and one width, without forward derivatives."""
    given = (keys, values, queries)
    if not all(map(array_api_compat.is_torch_array, given)):
        return False
    torch = sys.modules["torch"]
    return (
        keys.dtype in (torch.float32, torch.float64)
        and keys.dtype == values.dtype == queries.dtype
        and keys.shape[-1] == values.shape[-1]
        and all(x.device.type == "cpu" and x.numel() for x in given)
        and not any(map(ar.carries_tangent, given))
    )


def attend(keys: Array, values: Array, queries: Array, scale: float, visible: Visible, in_blocks: Blocks) -> Attended:
    """Return softmax(scale K x)^T V for each query over the pairs that it sees, keys and values (*batch, n, d).

    Logits that leave the dtype show as NaN, or as zeros beside a log mass of 0: the caller decides. Working memory:
    BIAS_NUMBERS numbers under a mask.
    """
    torch = sys.modules["torch"]
    lead = ar.broadcast_shapes(tuple(keys.shape[:-2]), tuple(queries.shape[:-2]))
    shape = (*lead, int(queries.shape[-2]))
    if visible is None and keys.ndim == 2:
        queries, lead = torch.reshape(queries, (-1, queries.shape[-1])), ()
    masked = visible is not None and not isinstance(visible, Causal)
    seen = _of_four_axes(_once(visible) if len(lead) <= 2 else visible) if masked else visible
    # The kernel takes the numbers of a row to stand side by side, whatever the strides say.
    side_by_side = (a if a.stride(-1) == 1 else a.contiguous() for a in (keys, values, queries))
    k, v, x = (_of_four_axes(a.expand(*lead, *a.shape[-2:])) for a in side_by_side)
    output, log_mass = _kernel().apply(k, v, x, scale, seen, in_blocks)
    some = None
    if isinstance(visible, Causal):
        some = None if visible.first else torch.arange(shape[-1]) > 0
    elif masked:
        some = torch.any(seen, dim=-1).expand(log_mass.shape).reshape(shape)
    return Attended(torch.reshape(output, (*shape, -1)), torch.reshape(log_mass, shape), some)


def _of_four_axes(x: Array) -> Array:
    """Return x (..., r, c) with two leading axes."""
    return x[(None,) * (4 - x.ndim)] if x.ndim <= 4 else x.reshape(math.prod(x.shape[:-3]), *x.shape[-3:])


def _once(mask: Array) -> Array:
    """Return a mask whose leading axes have length one where nothing changes along them."""
    return mask[tuple(slice(0, 1) if step == 0 else slice(None) for step in mask.stride()[:-2])]


def _parts(seen: Visible, x: Array, n: int) -> Iterator[tuple[slice, slice, Array | None, bool]]:
    """Yield blocks of queries with the pairs to go through, what is added to the logits, and whether it is a triangle.

    In a triangle query i of the block sees the pairs 0 .. i.
    """
    m = int(x.shape[-2])
    if seen is None:
        yield slice(0, m), slice(0, n), None, False
    elif isinstance(seen, Causal) and seen.first <= 1:
        yield slice(1 - seen.first, m), slice(0, n), None, True
    else:
        torch = sys.modules["torch"]
        items = 1 if isinstance(seen, Causal) else math.prod(seen.shape[:2])
        step = max(1, BIAS_NUMBERS // (items * n))
        for start in range(0, m, step):
            rows = slice(start, min(start + step, m))
            columns = slice(0, min(n, seen.first + rows.stop - 1) if isinstance(seen, Causal) else n)
            mask = mask_of(seen, rows, columns, torch, x.device)
            hidden = None if mask is None else _of_four_axes(torch.where(mask, x.new_zeros(()), -math.inf))
            yield rows, columns, hidden, False


@functools.cache
def _kernel() -> Any:
    """Return the kernel as a function that torch differentiates."""
    torch = sys.modules["torch"]
    forward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward

    class Fused(torch.autograd.Function):  # type: ignore[misc, name-defined]  # torch is not imported for types
        @staticmethod
        def forward(ctx: Any, k: Array, v: Array, x: Array, scale: float, seen: Visible, in_blocks: Blocks) -> Any:
            m, output, log_mass = int(x.shape[-2]), x[..., :0, :], x[..., 0]
            for rows, columns, hidden, triangle in _parts(seen, x, int(k.shape[-2])):
                found = forward(
                    x[..., rows, :],
                    k[..., columns, :],
                    v[..., columns, :],
                    0.0,
                    triangle,
                    attn_mask=hidden,
                    scale=scale,
                )
                if rows == slice(0, m):
                    output, log_mass = found
                    break
                if not output.shape[-2]:
                    output, log_mass = torch.zeros_like(x), x.new_zeros(x.shape[:-1])
                output[..., rows, :], log_mass[..., rows] = found
            ctx.mark_non_differentiable(log_mass)
            ctx.save_for_backward(k, v, x, output, log_mass)
            ctx.asked = scale, seen, in_blocks
            return output, log_mass

        @staticmethod
        def backward(ctx: Any, paid: Array, _: Array) -> Any:
            k, v, x, output, log_mass = ctx.saved_tensors
            scale, seen, in_blocks = ctx.asked
            if torch.is_grad_enabled():
                wanted = [a for a in (k, v, x) if a.requires_grad]
                found = iter(torch.autograd.grad(in_blocks(k, v, x, scale, seen), wanted, paid, create_graph=True))
                return (*(next(found) if a.requires_grad else None for a in (k, v, x)), None, None, None)
            paid = paid if paid.stride(-1) == 1 else paid.contiguous()
            grads = [torch.zeros_like(a) for a in (k, v, x)]
            for rows, columns, hidden, triangle in _parts(seen, x, int(k.shape[-2])):
                own, asked, pairs = (..., rows, slice(None)), (..., rows), (..., columns, slice(None))
                to_x, to_k, to_v = backward(
                    paid[own], x[own], k[pairs], v[pairs], output[own], log_mass[asked], 0.0, triangle,
                    attn_mask=hidden, scale=scale,
                )  # fmt: skip
                for whole, at, part in zip(grads, (pairs, pairs, own), (to_k, to_v, to_x), strict=True):
                    whole[at] += part
            return (*grads, None, None, None)

    return Fused
