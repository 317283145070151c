"""Bits per character of a lossless coder whose predictor is a memory written while reading, beside zlib, bz2 and lzma.

    python benchmarks/lossless.py [--json] [--bytes 4096]

The text is the start of Genesis (King James version), as the package ships it. The predictor is a mixture of readers
of hashed n-grams (Engram's tables) of several lengths and of one linear store under the last byte, all empty at first;
what is decoded must equal the input, else there is no number. The others compress at their strongest settings; of a
short text their headers are a part, so bits without them are no fairer.
"""

from __future__ import annotations

import argparse
import bz2
import json
import lzma
import time
import zlib
from importlib import resources
from typing import Any

from assocmem import Memory
from assocmem.predictors import Mixture, Reader, decode, encode

LENGTHS = (2, 3, 5)
"""Longest n-gram of each table: tokens of context."""


def predictor() -> Mixture:
    """Return the mixture, which has read nothing."""
    tables = [
        Reader(Memory("engram", rows=1021, heads=1, longest=n, vocabulary=257), order=n, unseen=0.01) for n in LENGTHS
    ]
    return Mixture([Reader(Memory("outer-product"), order=1, width=64), *tables])


def rows(count: int = 4096) -> list[dict[str, Any]]:
    """Return a row a coder for the first `count` bytes of the text."""
    text = resources.files("assocmem.experiments").joinpath("genesis.txt").read_bytes()[:count]
    began = time.perf_counter()
    data = encode(text, predictor())
    middle = time.perf_counter()
    if bytes(decode(data, predictor())) != text:
        raise AssertionError("what was decoded is not the text")
    ended = time.perf_counter()
    sizes = {
        "memories": len(data), "zlib": len(zlib.compress(text, 9)), "bz2": len(bz2.compress(text, 9)),
        "lzma": len(lzma.compress(text, preset=9 | lzma.PRESET_EXTREME)),
    }  # fmt: skip
    found: list[dict[str, Any]] = [
        {"benchmark": "lossless", "coder": name, "bytes": len(text), "bits_per_character": 8 * size / len(text)}
        for name, size in sizes.items()
    ]
    found[0] |= {"encode_ms_per_byte": 1e3 * (middle - began) / len(text),
                 "decode_ms_per_byte": 1e3 * (ended - middle) / len(text)}  # fmt: skip
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--bytes", type=int, default=4096)
    given = parser.parse_args()
    table = rows(given.bytes)
    print(json.dumps(table) if given.json else "\n".join(map(str, table)))
