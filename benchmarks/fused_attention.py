"""Softmax recall, masked recall and causal scan of torch arrays beside torch's own fused attention.

Both sides get the same tensors (8 heads, d = 64, float32) and must give the same numbers, forward and backward. They
take turns (A B A B) and medians are compared; `busy` starts two processes that keep cores busy meanwhile, as on a
machine that others use.

    python benchmarks/fused_attention.py [--tokens 512 2048 4096] [--repeats 7]
"""

from __future__ import annotations

import argparse
import multiprocessing
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from assocmem.stores import make_store
from recall_softmax import in_turns

HEADS, WIDTH = 8, 64
TOKENS = (512, 2048, 4096)


def _spin() -> None:
    x = np.ones((256, 256))
    while True:
        x = x @ x / 256


@contextmanager
def busy(count: int = 2) -> Iterator[None]:
    """Keep `count` processes busy inside."""
    others = [multiprocessing.get_context("spawn").Process(target=_spin, daemon=True) for _ in range(count)]
    for other in others:
        other.start()
    try:
        yield
    finally:
        for other in others:
            other.terminate()
            other.join()


def calls(tokens: int) -> Iterator[tuple[str, Callable[[], Any], Callable[[], Any]]]:
    """Yield what is asked, our call and torch's, forward and with the derivatives of all three inputs."""
    import torch

    generator = torch.Generator().manual_seed(tokens)
    keys, values, queries = (torch.randn(HEADS, tokens, WIDTH, generator=generator) for _ in range(3))
    mask = torch.rand(tokens, tokens, generator=generator) < 0.5
    store = make_store("softmax", beta=WIDTH**-0.5)
    empty = store.empty(WIDTH, WIDTH, batch=(HEADS,), like=keys)
    held = store.write(empty, keys, values)

    def torchs(k: Any, v: Any, x: Any, **asked: Any) -> Any:
        return torch.nn.functional.scaled_dot_product_attention(x[None], k[None], v[None], **asked)[0]

    def derived(call: Callable[..., Any]) -> tuple[Any, ...]:
        rows = [a.detach().requires_grad_() for a in (keys, values, queries)]
        found: tuple[Any, ...] = torch.autograd.grad(call(*rows).sum(), rows)
        return found

    ways: list[tuple[str, Callable[..., Any], Callable[..., Any], Callable[[], Any]]] = [
        (
            "recall", lambda k, v, x: store.recall(store.write(empty, k, v), x), torchs,
            lambda: store.recall(held, queries),
        ),
        (
            "masked recall", lambda k, v, x: store.recall(store.write(empty, k, v), x, mask=mask),
            partial(torchs, attn_mask=mask), lambda: store.recall(held, queries, mask=mask),
        ),
        (
            "causal scan", lambda k, v, x: store.scan(empty, k, v, x)[1], partial(torchs, is_causal=True),
            lambda: store.scan(empty, keys, values, queries)[1],
        ),
    ]  # fmt: skip
    for name, whole, other, ours in ways:
        yield name, ours, partial(other, keys, values, queries)
        yield f"{name}, forward and backward", partial(derived, whole), partial(derived, other)


def rows(tokens: tuple[int, ...] = TOKENS, repeats: int = 7, under_load: bool = True) -> list[dict[str, Any]]:
    """Return one row for each call and length: median seconds of both sides, on this machine as it is and under load.

    Raises AssertionError where the two differ by more than 1e-4.
    """
    table = []
    for n in tokens:
        for what, ours, theirs in calls(n):
            both = [x if isinstance(x, tuple) else (x,) for x in (ours(), theirs())]
            gap = max(float((a - b).abs().max()) for a, b in zip(*both, strict=True))
            if not gap < 1e-4:
                raise AssertionError(f"{what} of {n} tokens: the two sides differ by {gap:.3g}")
            row: dict[str, Any] = {"benchmark": "fused_attention", "what": what, "tokens": n, "largest_difference": gap}
            mine, other = (float(np.median(times)) for times in in_turns((ours, theirs), repeats))
            row |= {"seconds": mine, "torch_seconds": other, "times_as_fast": other / mine}
            if under_load:
                with busy():
                    mine, other = (float(np.median(times)) for times in in_turns((ours, theirs), repeats))
                row["times_as_fast_busy"] = other / mine
            table.append(row)
    return table


def main() -> None:
    """Print the rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, nargs="+", default=list(TOKENS))
    parser.add_argument("--repeats", type=int, default=7)
    given = parser.parse_args()
    for row in rows(tuple(given.tokens), given.repeats):
        print(
            f"T = {row['tokens']:>5} {row['what']:<36} {1e3 * row['seconds']:>8.1f} ms "
            f"{1e3 * row['torch_seconds']:>8.1f} ms {row['times_as_fast']:>5.2f} "
            f"{row['times_as_fast_busy']:>5.2f} under load"
        )


if __name__ == "__main__":
    main()
