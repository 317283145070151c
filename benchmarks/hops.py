"""How many of our modules, functions and calls a question passes through, counted with `sys.setprofile`.

    python benchmarks/hops.py [--json]

`assocmem capacity softmax --d-k 64`, and `Memory("delta-net")` with two pairs written and one recalled. Each runs once
before it is counted, so that what runs at import is not. What our threads do is counted; what Python generates (a
dataclass's methods) is left out.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import sys
import threading
from collections import Counter
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np

from assocmem import Memory
from assocmem.__main__ import main as command


def capacity() -> None:
    """Run the command, its answer not shown."""
    sys.argv = ["assocmem", "capacity", "softmax", "--d-k", "64"]
    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
        command()


def memory() -> None:
    """Write two pairs and recall one."""
    rows = np.eye(8)
    memory = Memory("delta-net")
    memory.write(rows[:1], rows[3:4])
    memory.write(rows[1:2], rows[4:5])
    memory.recall(rows[:1])


def counted(question: Callable[[], None]) -> dict[str, Any]:
    """Return modules, functions and calls of ours that a question passes through when it is asked again."""
    calls: Counter[tuple[str, str]] = Counter()

    def profile(frame: FrameType, event: str, _arg: Any) -> None:
        code, module = frame.f_code, frame.f_globals.get("__name__", "")
        if event == "call" and module.startswith("assocmem") and not code.co_filename.startswith("<"):
            calls[module, code.co_qualname if hasattr(code, "co_qualname") else code.co_name] += 1

    question()
    threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        question()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    modules = list(dict.fromkeys(module for module, _ in calls))
    return {"modules": len(modules), "functions": len(calls), "calls": sum(calls.values()), "through": modules}


def rows() -> list[dict[str, Any]]:
    """Return the counts of both questions."""
    return [{"question": question.__name__, **counted(question)} for question in (capacity, memory)]


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object a question instead of sentences")
    args = parser.parse_args()
    for row in rows():
        if args.json:
            print(json.dumps(row))
            continue
        print(f"{row['question']}: {row['modules']} modules, {row['functions']} functions, {row['calls']} calls")
        print("  " + " ".join(name.removeprefix("assocmem.") for name in row["through"]))


if __name__ == "__main__":
    main()
