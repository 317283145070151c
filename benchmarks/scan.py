"""Causal form of DeltaNet, Gated DeltaNet and Mamba-2: the stores' `scan` beside two plain implementations.

`token_loop` is the recurrence in NumPy, one token after another for all heads at once. `torch_chunks` is the chunk
form as the papers' equations state it, in plain PyTorch on the CPU with all its threads: decays through the
exponential of masked sums, the delta rule's triangular systems by `solve_triangular`.

    python benchmarks/scan.py [--tokens 4096] [--heads 8] [--width 64] [--repeats 7]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from assocmem.contract.numbers import stream
from assocmem.stores import make_store

RULES = ("delta-net", "gated-delta-net", "mamba-2")


@dataclass(frozen=True)
class Streams:
    """Inputs of one scan, float32: keys (unit rows), values, queries (heads, n, width), strength, decay (heads, n)."""

    keys: Any
    values: Any
    queries: Any
    strength: Any
    decay: Any


def draw(tokens: int, heads: int, width: int, seed: int = 0) -> Streams:
    """Return random streams: strengths uniform in (0, 1), decays e^-x with x exponential of mean 0.05."""
    rng = stream(seed, "benchmark scan")
    keys, values, queries = (rng.standard_normal((heads, tokens, width)) for _ in range(3))
    keys /= np.linalg.norm(keys, axis=-1, keepdims=True)
    queries /= np.linalg.norm(queries, axis=-1, keepdims=True)
    strength = rng.random((heads, tokens))
    decay = np.exp(-rng.exponential(0.05, (heads, tokens)))
    return Streams(*(x.astype(np.float32) for x in (keys, values, queries, strength, decay)))


def token_loop(rule: str, x: Streams) -> Any:
    """Return the recalls (heads, n, width) of the recurrence, token by token over all heads."""
    rows = [np.ascontiguousarray(np.swapaxes(a, 0, 1))[:, :, None, :] for a in (x.keys, x.values, x.queries)]
    strength, decay = (np.ascontiguousarray(a.T)[:, :, None, None] for a in (x.strength, x.decay))
    heads, width = x.keys.shape[0], x.keys.shape[-1]
    state = np.zeros((heads, width, width), np.float32)
    written = np.empty_like(state)
    out = np.empty_like(rows[1])
    for t, (key, value, query) in enumerate(zip(*rows, strict=True)):
        if rule != "delta-net":
            state *= decay[t]
        if rule != "mamba-2":
            value = strength[t] * (value - key @ state)
        np.multiply(np.swapaxes(key, -1, -2), value, out=written)
        state += written
        np.matmul(query, state, out=out[t])
    return np.swapaxes(out[:, :, 0, :], 0, 1)


def torch_chunks(rule: str, x: Streams, chunk: int = 64) -> Any:
    """Return the same recalls from the papers' chunk equations in PyTorch; n must be a multiple of `chunk`."""
    import torch

    heads, n, width = x.keys.shape
    keys, values, queries = (a.view(heads, n // chunk, chunk, width) for a in (x.keys, x.values, x.queries))
    lower = torch.ones(chunk, chunk, dtype=torch.bool).tril()
    total = torch.zeros(heads, n // chunk, chunk)
    if rule != "delta-net":
        total = x.decay.log().view(heads, n // chunk, chunk).cumsum(-1)
    between = torch.where(lower, total[..., :, None] - total[..., None, :], -torch.inf).exp()
    entering = total.exp()[..., None]
    scores = (queries @ keys.mT) * between
    readers = queries * entering
    writers = (keys * between[..., -1, :, None]).mT
    kept = entering[:, :, -1:, :]
    if rule != "mamba-2":
        strength = x.strength.view(heads, n // chunk, chunk, 1)
        system = torch.eye(chunk) + (strength * (keys @ keys.mT) * between).tril(-1)
        probes = torch.linalg.solve_triangular(system, strength * keys * entering, upper=False, unitriangular=True)
        values = torch.linalg.solve_triangular(system, strength * values, upper=False, unitriangular=True)
    state = torch.zeros(heads, width, width)
    out = torch.empty(heads, n // chunk, chunk, width)
    for c in range(n // chunk):
        change = values[:, c] if rule == "mamba-2" else values[:, c] - probes[:, c] @ state
        out[:, c] = readers[:, c] @ state + scores[:, c] @ change
        state = kept[:, c] * state + writers[:, c] @ change
    return out.view(heads, n, width)


def scan(rule: str, x: Streams) -> Any:
    """Return the recalls of the store's own `scan`."""
    store = make_store(rule)
    extras = {"delta-net": ("strength",), "gated-delta-net": ("strength", "decay"), "mamba-2": ("decay",)}[rule]
    state = store.empty(x.keys.shape[-1], x.values.shape[-1], batch=(x.keys.shape[0],))
    return store.scan(state, x.keys, x.values, x.queries, **{name: getattr(x, name) for name in extras})[1]


def fastest(functions: dict[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """Return the shortest time of each function in seconds, all in turn in every repeat, so that noise hits all."""
    best = dict.fromkeys(functions, float("inf"))
    for _ in range(repeats):
        for name, function in functions.items():
            start = time.perf_counter()
            function()
            best[name] = min(best[name], time.perf_counter() - start)
    return best


def rows(tokens: int = 4096, heads: int = 8, width: int = 64, repeats: int = 7) -> list[dict[str, Any]]:
    """Return one dict per rule: seconds of the three implementations, their ratios, the largest difference.

    Raises AssertionError where the implementations differ by more than 1e-4: a fast wrong answer has no time.
    """
    import torch

    x = draw(tokens, heads, width)
    tensors = Streams(*(torch.from_numpy(a) for a in (x.keys, x.values, x.queries, x.strength, x.decay)))
    table = []
    for rule in RULES:
        plain, ours = token_loop(rule, x), scan(rule, x)
        theirs = torch_chunks(rule, tensors).numpy()
        difference = max(float(np.abs(plain - ours).max()), float(np.abs(plain - theirs).max()))
        if difference > 1e-4:
            raise AssertionError(f"the three forms of {rule} differ by {difference:.3g}")
        ways = {"scan": partial(scan, rule, x), "loop": partial(token_loop, rule, x)}
        best = fastest(ways | {"chunks": partial(torch_chunks, rule, tensors)}, repeats)
        table.append(
            {
                "benchmark": "scan",
                "store": rule,
                "tokens": tokens,
                "heads": heads,
                "width": width,
                "seconds": best["scan"],
                "token_loop_seconds": best["loop"],
                "torch_chunks_seconds": best["chunks"],
                "times_token_loop": best["loop"] / best["scan"],
                "times_torch_chunks": best["chunks"] / best["scan"],
                "torch_threads": torch.get_num_threads(),
                "largest_difference": difference,
            }
        )
    return table


def main() -> None:
    """Print the rows."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, default in (("tokens", 4096), ("heads", 8), ("width", 64), ("repeats", 7)):
        parser.add_argument(f"--{name}", type=int, default=default)
    for row in rows(**vars(parser.parse_args())):
        ours, loop, chunks = (1e3 * row[f"{name}seconds"] for name in ("", "token_loop_", "torch_chunks_"))
        print(
            f"{row['store']:>16}  scan {ours:6.1f} ms   token loop {loop:6.1f} ms ({row['times_token_loop']:.1f}x)   "
            f"torch chunks {chunks:6.1f} ms ({row['times_torch_chunks']:.1f}x)   "
            f"largest difference {row['largest_difference']:.1e}"
        )


if __name__ == "__main__":
    main()
