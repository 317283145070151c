"""A user's script, read by mypy alone: names have types, and a setting that no store has is an error.

`mypy` fails where a type is not the one asserted (Any too), and where an error that is ignored here is none.
"""

from typing import assert_type

import polars as pl

import assocmem
from assocmem import Memory, Results, Store, capacity, make_store
from assocmem.sharpness import LogN, Sharpness

assert_type(assocmem.Memory("softmax"), Memory)
assert_type(assocmem.capacity("softmax", 64).value, float | None)
assert_type(assocmem.stores.SoftmaxAttention().sharpness, Sharpness)
found = assocmem.compare(["softmax", "relu"], d_k=[16, 32], beta=[4, 8], quick=True)
assert_type(found, Results)
assert_type(assocmem.check("softmax").ok, bool)
assert_type(assocmem.Results.load("a.ndjson").frame(), pl.DataFrame)
assert_type(assocmem.curves(["relu"], 64, [16], seed=1).words, tuple[str, ...])
assocmem.compare(["softmax"], quantity="size")  # type: ignore[arg-type]
_ = assocmem.design(64, 1e6, 1.0).sharpness  # type: ignore[attr-defined]
memory = Memory("softmax", beta=8.0)
memory = Memory("softmax", d_k=3, d_v=2, batch=(4,))
memory = Memory("softmax", sharpness=LogN(1024, 8.0))
memory = Memory("softmax", sharpness="log-n", reference=512)
memory = Memory(make_store("my_module:MyStore", gain=2))
memory = Memory("my_module:MyStore", d_k=3)
Memory("softmax", dk=3)  # type: ignore[call-arg]
Memory("softmax", beta="sharp")  # type: ignore[arg-type]
Memory("delta-net", strenght=0.5)  # type: ignore[call-arg]
Memory("softmax", sharpness="log")  # type: ignore[arg-type]
memory.wirte([1.0], [2.0])  # type: ignore[attr-defined]
capacity("softmax")  # type: ignore[call-arg]
_ = assocmem.Memroy  # type: ignore[attr-defined]
_ = assocmem.stores.SoftmaxAtention  # type: ignore[attr-defined]
store: Store = make_store("softmax")
