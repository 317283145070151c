"""How long `assocmem.compare` takes: six stores at four widths, in the quick form and whole.

    python benchmarks/compare.py [--json] [--quick]

Each form runs in a process of its own, its start counted.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

STORES = ("outer-product", "squared-relu", "softmax", "linear-attention", "delta-net", "gated-delta-net")
WIDTHS = "32,64,128,256"


def rows(quick: bool = False) -> list[dict[str, Any]]:
    """Return seconds and cells of the quick form, and unless `quick` of the whole one."""
    found = []
    for words in [["--quick"]] if quick else [["--quick"], []]:
        command = [sys.executable, "-m", "assocmem", "compare", *STORES, "--d-k", WIDTHS, "--json", *words]
        began = time.perf_counter()
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        seconds = time.perf_counter() - began
        found.append({"words": words, "seconds": seconds, "cells": len(json.loads(done.stdout)["rows"])})
    return found


def main(words: Sequence[str] | None = None) -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON instead of sentences")
    parser.add_argument("--quick", action="store_true", help="leave the whole form out")
    given = parser.parse_args(words)
    found = rows(quick=given.quick)
    if given.json:
        print(json.dumps({"benchmark": "compare", "load": list(os.getloadavg()), "rows": found}))
        return
    for row in found:
        print(f"{' '.join(['assocmem compare', *row['words']])}: {row['cells']} cells, {row['seconds']:.1f} s")


if __name__ == "__main__":
    main()
