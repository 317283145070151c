"""Independent named random streams from one seed.

A stream is named by words and whole numbers (``stream(7, "keys", trial)``). The same name gives the same
numbers in every process and on every machine, whatever else was drawn before, and different names give
independent streams (numpy's SeedSequence spawn keys over a hash of the name).
"""

from __future__ import annotations

import hashlib

import numpy as np

from assocmem.contract.errors import InputError


def stream(seed: int, *name: str | int) -> np.random.Generator:
    """Return the generator called `name` under `seed`.

    Parameters: `seed`, a whole number >= 0; `name`, any words and whole numbers.

    >>> bool((stream(1, "keys", 0).random(3) == stream(1, "keys", 0).random(3)).all())
    True
    >>> bool((stream(1, "keys", 0).random(3) == stream(1, "values", 0).random(3)).any())
    False
    """
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise InputError(f"`seed` must be a whole number >= 0; got {seed!r}.")
    text = "\x1f".join(f"{type(part).__name__}:{part}" for part in name)
    digest = hashlib.sha256(text.encode()).digest()
    words = tuple(int.from_bytes(digest[i : i + 4], "little") for i in range(0, 16, 4))
    return np.random.Generator(np.random.SFC64(np.random.SeedSequence(int(seed), spawn_key=words)))
