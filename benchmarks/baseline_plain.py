"""The plain NumPy script that `curves.py` is compared with: fresh keys and values for every store, M and trial.

    python benchmarks/baseline_plain.py

What one writes first: draw M unit keys and M Gaussian values, ask for the first, recall V^T σ(K x), and divide the
length of everything but the signal by the signal's. Its cost is linear in stores x memories x trials.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

WIDTH = 64
BETA = 8.0

SIGMAS: dict[str, Callable[[Any], Any]] = {
    "linear": lambda s: s,
    "relu": lambda s: np.maximum(s, 0),
    "squared-relu": lambda s: np.maximum(s, 0) ** 2,
    "swiglu": lambda s: s * s / (1 + np.exp(-s)),
    "cubed-relu": lambda s: np.maximum(s, 0) ** 3,
    "exp": lambda s: np.exp(BETA * (s - 1)),
}


def ratio(sigma: Callable[[Any], Any], n_memories: int, rng: np.random.Generator) -> float:
    """Return the interference-to-signal ratio of one recall of one memory among M."""
    keys = rng.standard_normal((n_memories, WIDTH))
    keys /= np.linalg.norm(keys, axis=1, keepdims=True)
    values = rng.standard_normal((n_memories, WIDTH))
    weights = sigma(keys @ keys[0])
    signal = weights[0] * values[0]
    recall = values.T @ weights
    return float(np.linalg.norm(recall - signal) / np.linalg.norm(signal))


def curves(memories: list[int], trials: int, seed: int = 0) -> dict[str, list[float]]:
    """Return the rms ratio of every store at every M."""
    rng = np.random.default_rng(seed)
    return {
        name: [float(np.sqrt(np.mean([ratio(sigma, n, rng) ** 2 for _ in range(trials)]))) for n in memories]
        for name, sigma in SIGMAS.items()
    }


def seconds_per_memory(n_memories: int, trials: int) -> float:
    """Return the seconds that the script needs for one memory of one store in one trial, at this M."""
    start = time.perf_counter()
    curves([n_memories], trials)
    return (time.perf_counter() - start) / (n_memories * trials * len(SIGMAS))


if __name__ == "__main__":
    for count in (2**10, 2**12, 2**14):
        print(f"M = {count:6d}: {1e6 * seconds_per_memory(count, 8):.2f} microseconds a memory, store and trial")
    print({name: [round(x, 3) for x in found] for name, found in curves([64, 1024], 20).items()})
