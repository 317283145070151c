"""Recall and scans of arrays on a CUDA device beside torch's fused attention, and what the device could do at most.

Nothing of it has a target: it says what a device gives. Where there is none, that is said and nothing is measured.

    python benchmarks/cuda.py [--tokens 4096] [--heads 8] [--width 64] [--repeats 20]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from assocmem.stores import make_store


def seconds(call: Callable[[], Any], repeats: int) -> float:
    """Return the median seconds of a call on the device, by its own clock."""
    import torch

    times = []
    for turn in range(repeats + 2):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        call()
        end.record()
        torch.cuda.synchronize()
        if turn >= 2:
            times.append(start.elapsed_time(end) / 1e3)
    return float(torch.tensor(times).median())


def limits(repeats: int) -> dict[str, float]:
    """Return what this device reaches on a large float32 product (FLOP/s) and on a copy (bytes/s)."""
    import torch

    a = torch.randn(8192, 8192, device="cuda")
    product = 2 * 8192**3 / seconds(lambda: a @ a, repeats)
    return {"flops": product, "bytes": 2 * a.numel() * 4 / seconds(lambda: a.clone(), repeats)}


def rows(tokens: int, heads: int, width: int, repeats: int) -> list[dict[str, Any]]:
    """Return a row for softmax recall and for every scan; AssertionError where recall differs from torch's."""
    import torch

    keys, values, queries = (torch.randn(heads, tokens, width, device="cuda") for _ in range(3))
    store = make_store("softmax", beta=width**-0.5)
    empty = store.empty(width, width, batch=(heads,), like=keys)
    held = store.write(empty, keys, values)
    most = limits(repeats)

    def torchs(**asked: Any) -> Any:
        return torch.nn.functional.scaled_dot_product_attention(queries[None], keys[None], values[None], **asked)[0]

    work, moved = 4 * heads * tokens**2 * width, 4 * 4 * heads * tokens * width
    table = []
    for what, ours, theirs, share in (
        ("recall", lambda: store.recall(held, queries), torchs, 1.0),
        ("causal scan", lambda: store.scan(empty, keys, values, queries)[1], lambda: torchs(is_causal=True), 0.5),
    ):
        gap = float((ours() - theirs()).abs().max())
        if not gap < 1e-2:  # the device may multiply float32 in fewer digits
            raise AssertionError(f"{what} differs from torch's by {gap:.3g}")
        mine, other = seconds(ours, repeats), seconds(theirs, repeats)
        table.append(
            {
                "what": what, "seconds": mine, "torch_seconds": other, "times_as_fast": other / mine,
                "share_of_flops": share * work / mine / most["flops"],
                "share_of_bandwidth": moved / mine / most["bytes"], "largest_difference": gap,
            }
        )  # fmt: skip
    for name in ("outer-product", "delta-net", "gated-delta-net", "mamba-2"):
        rule = make_store(name)
        start = rule.empty(width, width, batch=(heads,), like=keys)
        unit = keys / keys.norm(dim=-1, keepdim=True)
        mine = seconds(lambda rule=rule, start=start, unit=unit: rule.scan(start, unit, values, queries), repeats)  # type: ignore[misc]
        table.append({"what": f"scan of {name}", "seconds": mine, "share_of_bandwidth": moved / mine / most["bytes"]})
    return table


def main() -> None:
    """Print the rows, or why there are none."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, number in (("tokens", 4096), ("heads", 8), ("width", 64), ("repeats", 20)):
        parser.add_argument(f"--{name}", type=int, default=number)
    given = parser.parse_args()
    try:
        import torch
    except ImportError:
        print("PyTorch is not installed, so no CUDA device can be measured: pip install torch.")
        return
    if not torch.cuda.is_available():
        print("there is no CUDA device that PyTorch can use here, so nothing was measured.")
        return
    print(torch.cuda.get_device_name())
    for row in rows(given.tokens, given.heads, given.width, given.repeats):
        print(row)


if __name__ == "__main__":
    main()
