"""What a type checker says of a user's script: names have types, and a setting that no store has is an error."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import assocmem

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("typing")]
SCRIPT = """
import assocmem
from assocmem import InputError, Memory, Store, capacity, make_store
from assocmem.sharpness import LogN

reveal_type(assocmem.Memory)  # type
reveal_type(assocmem.capacity("softmax", 64).value)  # float
reveal_type(assocmem.stores.SoftmaxAttention)  # type
found = assocmem.compare(["softmax", "relu"], d_k=[16, 32], beta=[4, 8], quick=True)
reveal_type(found)  # type
reveal_type(assocmem.check("softmax").ok)  # type
reveal_type(assocmem.Results.load("a.ndjson").frame())  # type
reveal_type(assocmem.curves(["relu"], 64, [16], seed=1).words)  # type
assocmem.compare(["softmax"], quantity="size")  # error: quantity
assocmem.design(64, 1e6, 1.0).sharpness  # error: sharpness
memory = Memory("softmax", beta=8.0)
memory = Memory("softmax", d_k=3, d_v=2, batch=(4,))
memory = Memory("softmax", sharpness=LogN(1024, 8.0))
memory = Memory("softmax", sharpness="log-n", reference=512)
memory = Memory(make_store("my_module:MyStore", gain=2))
memory = Memory("my_module:MyStore", d_k=3)
Memory("softmax", dk=3)  # error: dk
Memory("softmax", beta="sharp")  # error: beta
Memory("delta-net", strenght=0.5)  # error: strenght
Memory("softmax", sharpness="log")  # error: sharpness
memory.wirte([1.0], [2.0])  # error: wirte
capacity("softmax")  # error: d_k
assocmem.Memroy  # error: Memroy
assocmem.stores.SoftmaxAtention  # error: SoftmaxAtention
store: Store = make_store("softmax")
"""


def test_a_checker_knows_names_and_settings(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    source = Path(assocmem.__file__).parents[1]
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--no-error-summary",
        "--cache-dir",
        str(tmp_path),
        "script.py",
    ]
    environment = {"MYPYPATH": str(source), "PATH": ""}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600, check=False
    )
    said: dict[int, str] = {}
    for line, words in re.findall(r"^script.py:(\d+): (.*)$", done.stdout, re.M):
        said[int(line)] = said.get(int(line), "") + words
    wanted = {number for number, line in enumerate(SCRIPT.splitlines(), 1) if "  # " in line}
    assert set(said) == wanted, done.stdout + done.stderr
    assert "-> assocmem.memory.Memory" in said[6]
    assert "float | None" in said[7]
    assert "-> assocmem.stores.softmax.SoftmaxAttention" in said[8]
    for number, line in enumerate(SCRIPT.splitlines(), 1):
        if "  # error: " in line:
            assert "error: " in said[number], said[number]
            assert line.rpartition("error: ")[2] in said[number], said[number]
