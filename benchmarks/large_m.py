"""One ratio at M = 10^9 by the similarities sampler, and a capacity near 10^10: seconds and memory.

python benchmarks/large_m.py
"""

from __future__ import annotations

import subprocess
import sys
import time
from typing import Any

from assocmem.lab.plan import Plan, all_labelled
from assocmem.lab.run import run
from assocmem.lab.similarities import Similarities
from assocmem.maps.activations import Exp
from assocmem.stores import make_store
from assocmem.theory import trial_deviation
from recall_softmax import peak_megabytes

MEMORIES, WIDTH, BETA = 10**9, 64, 14.0


def rows() -> list[dict[str, Any]]:
    """Return the ratio at 10^9 with its interval and theory, the capacity command at 10^10, and theory at 10^12."""
    plan = Plan(Similarities(), all_labelled([make_store("softmax", beta=BETA)]), WIDTH, (MEMORIES,))
    found: list[Any] = []
    start = time.perf_counter()
    peak = peak_megabytes(lambda: found.extend(run(plan)))
    seconds = time.perf_counter() - start
    row = found[0]
    command = ["capacity", "softmax", "--d-k", str(WIDTH), "--beta", str(BETA), "--max-memories", "1e10"]
    start = time.perf_counter()
    said = subprocess.run(
        [sys.executable, "-m", "assocmem", *command], capture_output=True, text=True, check=True
    ).stdout
    return [
        {
            "what": "ratio", "memories": MEMORIES, "seconds": seconds, "megabytes": peak, "value": row["value"],
            "low": row["low"], "high": row["high"], "theory": row["theory"],
        },
        {"what": "capacity", "seconds": time.perf_counter() - start, "said": said},
        {"what": "one trial at 10^12", "deviation": trial_deviation(Exp(BETA), WIDTH, 10**12)},
    ]  # fmt: skip


if __name__ == "__main__":
    for row in rows():
        print(row)
