"""Three hundred random command lines: each ends in 0, 1, 2 or 130, and what is refused is refused in one sentence."""

from __future__ import annotations

import random

import numpy as np
import pytest

from assocmem import stores

pytestmark = pytest.mark.slow
SEED, LINES = 20_261_201, 300
WORDS = (  # noqa: SIM905  (three lines in place of thirty)
    "0 -1 1 2 7 1e3 nan inf -inf 1e400 99999999999999999999 true none x [1,2 ä a=b -- keys.npy keys.npy:a none.npz . "
    "softmax no:such json:JSONDecoder"
).split(" ")
FLAGS = (  # noqa: SIM905
    "--d-k --d-v --ratio --query-cosine --sampler --statistic --seed --workers --json --set --memories --keys --values "
    "--queries --targets --store --centre --whiten --normalise --beta --power --terms --decay --ridge --nonsense --help"
).split(" ")
COMMANDS = ["list", "show", "cite", "check", "capacity", "measure", "design", "reproduce", "explore", "nonsense"]


def line(rng: random.Random) -> list[str]:
    """Return a random command line that would take no more than seconds if it were right."""
    command = rng.choice(COMMANDS)
    words = [command]
    if command in ("show", "cite", "check", "capacity"):
        words.append(rng.choice([*stores.names(), *WORDS]))
    for _ in range(rng.randrange(4)):
        words += [rng.choice(FLAGS), rng.choice(WORDS)][: rng.choice([1, 2, 2])]
    if command == "capacity":
        words += ["--d-k", "4", "--max-memories", "8"]
    if command == "measure":
        words += ["--keys", "keys.npy", "--max-memories", "8"]
    if command == "reproduce":
        words += ["--only", "catalogue", "--quick", "--out", rng.choice(["out", "keys.npy", "x/ä", "keys.npy/out"])]
    if command == "explore":
        # A page takes half a minute: only targets that are refused before it is computed.
        words += [
            "--export",
            rng.choice(["page.txt", "none/such/page.html", "keys.npy", "keys.npy/page.html", "a" * 300]),
        ]
    return words


@pytest.mark.parametrize("part", range(10))
def test_random_command_lines_end_in_a_sentence(ask, tmp_path, monkeypatch, part):
    monkeypatch.chdir(tmp_path)
    np.save("keys.npy", np.random.default_rng(0).standard_normal((20, 4)))
    for i in range(part, LINES, 10):
        words = line(random.Random(f"{SEED}/{i}"))
        said = ask(*words)
        assert said.status in (0, 1, 2, 130), words
        assert "Traceback" not in said.err, words
        if said.status == 2 and len(words) > 1:
            assert said.err.splitlines()[-1].startswith("assocmem: "), (words, said.err)
            assert "ASSOCMEM_TRACEBACK" not in said.err, (words, said.err)
