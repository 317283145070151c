"""Bad input on the command line: exit status 2, one sentence on stderr, nothing on stdout, nothing written."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import assocmem.cli
import assocmem.experiments.catalogue

BROKEN = '''
import numpy as np
from assocmem import Store, Traits

def boom(keys, values, queries):
    raise ZeroDivisionError("boom")

def narrow(keys, values, queries):
    return values[:, :1]

class Late(Store):
    """Works on small arrays and fails on larger ones."""
    traits = Traits(linear_in_values="shared", permutation_invariant=True, overwrite="adds", constant_size=True)

    def init(self, state):
        return {"W": state.zeros(state.d_v, state.d_k)}

    def put(self, state, keys, values):
        if keys.shape[-1] > 8:
            raise KeyError("no room")
        return {"W": state["W"] + values.mT @ keys}

    def get(self, state, queries, ask):
        return queries @ state["W"].mT
'''


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A current directory with all kinds of files that no command should take."""
    rng = np.random.default_rng(0)
    good = rng.standard_normal((200, 16))
    holed = good.copy()
    holed[7, 3] = np.nan
    arrays = {
        "good": good, "short": good[:150], "nan": holed, "one": good[:1], "zero": np.zeros((50, 8)),
        "same": np.ones((50, 8)), "targets": np.arange(200), "five": good.reshape(1, 2, 2, 50, 16),
    }  # fmt: skip
    for name, array in arrays.items():
        np.save(tmp_path / f"{name}.npy", array)
    np.save(tmp_path / "objects.npy", np.array([{}, 1], dtype=object), allow_pickle=True)
    (tmp_path / "empty.npy").touch()
    np.savez(tmp_path / "two.npz", a=good, b=good)
    (tmp_path / "notes.txt").write_text("not an array")
    (tmp_path / "broken_stores.py").write_text(BROKEN)
    (tmp_path / "unreadable_module.py").write_text("def (")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    for name in ("broken_stores", "unreadable_module"):
        sys.modules.pop(name, None)


CASES = [
    ("nonsense", "nonsense"),
    ("--nonsense", "--nonsense"),
    ("list extra", "extra"),
    # store names and settings
    ("capacity softmaks", "Did you mean softmax"),
    ("capacity outer_product", "outer-product"),
    ("show nope", "nope"),
    ("show", "STORE"),
    ("cite squared-rel", "squared-relu"),
    ("cite broken_stores:Late", "names no source"),
    ("check nope", "nope"),
    ("capacity outer-product --beta 3", "no setting 'beta'"),
    ("capacity softmax --set foo", "NAME=VALUE"),
    ("capacity softmax --set foo=1", "no setting 'foo'"),
    ("capacity softmax --set beta=[1,2", "JSON"),
    ("capacity softmax --beta -1e-3", "-0.001"),
    ("capacity softmax --beta soft", "`beta`"),
    ("capacity softmax --sharpness foo", "log-n"),
    ("capacity exp-series --terms 2.5", "`terms`"),
    # numbers
    ("capacity softmax --d-k 0", "--d-k"),
    ("capacity softmax --d-k -3", "--d-k"),
    ("capacity softmax --d-k 1e9", "--d-k"),
    ("capacity softmax --d-k 99999999999999999999", "`--d-k` must be at most 2^53"),
    ("capacity softmax --ratio 0", "--ratio"),
    ("capacity softmax --ratio -1", "--ratio"),
    ("capacity softmax --ratio nan", "--ratio"),
    ("capacity softmax --ratio inf", "--ratio"),
    ("capacity softmax --query-cosine 2", "--query-cosine"),
    ("capacity softmax --query-cosine nan", "--query-cosine"),
    ("capacity softmax --sampler dice", "`--sampler`"),
    ("capacity softmax --max-memories 1", "--max-memories"),
    ("capacity softmax --workers 0", "--workers"),
    ("capacity softmax --seed -1", "--seed"),
    ("capacity softmax --seed 1.5", "--seed"),
    ("capacity delta-net --sampler similarities", "keys sampler"),
    ("design", "--memories"),
    ("design --memories 0", "--memories"),
    ("design --memories -1", "--memories"),
    ("design --memories nan", "--memories"),
    ("design --memories 1e400", "--memories"),
    ("design --memories many", "--memories"),
    ("design --memories 1e6 --ratio 0", "--ratio"),
    ("design --memories 1e6 --ratio nan", "--ratio"),
    ("design --memories 1e6 --query-cosine 2", "--query-cosine"),
    ("design --memories 1e6 --d-k 0", "--d-k"),
    ("design --memories 1e6 --d-v 0", "--d-v"),
    # MODULE:CLASS
    ("capacity broken_stores:boom", "ZeroDivisionError: boom"),
    ("capacity broken_stores:narrow", "narrow"),
    ("capacity broken_stores:Late --d-k 16", "no room"),
    ("capacity unreadable_module:X", "SyntaxError"),
    ("check broken_stores:boom", "boom"),
    # files
    ("measure", "--keys"),
    ("measure --keys missing.npy", "missing.npy"),
    ("measure --keys empty.npy", "empty"),
    ("measure --keys objects.npy", "objects"),
    ("measure --keys notes.txt", ".npy, .npz or .safetensors"),
    ("measure --keys two.npz", "two.npz:a"),
    ("measure --keys nan.npy", "row 7"),
    ("measure --keys one.npy", "n >= 2"),
    ("measure --keys five.npy", "(n, d)"),
    ("measure --keys zero.npy", "zero in every column"),
    ("measure --keys same.npy --centre", "constant in every column"),
    ("measure --keys good.npy --values short.npy", "(150, 16)"),
    ("measure --keys good.npy --queries good.npy", "--targets"),
    ("measure --keys good.npy --targets targets.npy", "--queries"),
    ("measure --keys good.npy --store nope", "nope"),
    ("measure --keys good.npy --store softmax --store softmax", "softmax"),
    ("measure --keys good.npy --store outer-product --beta 3", "beta"),
    ("measure --keys good.npy --beta nan", "`beta`"),
    ("measure --keys good.npy --beta -2", "`beta`"),
    ("measure --keys good.npy --ratio 0", "--ratio"),
    ("measure --keys good.npy --max-memories 1", "--max-memories"),
    ("measure --keys good.npy --out notes.txt", "notes.txt is a file"),
    ("measure --keys good.npy --out notes.txt/sub", "cannot write"),
    # reproduce and explore
    ("reproduce --only nonsense", "nonsense"),
    ("reproduce --only opning", "Did you mean opening"),
    ("reproduce --quick --out notes.txt", "notes.txt is a file"),
    ("reproduce --quick --out notes.txt/sub", "cannot write"),
    ("reproduce --quick --out /proc/assocmem", "cannot write"),
    ("reproduce --workers 0", "--workers"),
    ("reproduce --seed -1", "--seed"),
    ("explore --export notes.txt/sub", "cannot write"),
    ("explore --port 99999", "--port"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "said"), CASES)
def test_bad_input_is_one_sentence(ask, folder, line, said):
    before = {path: path.stat().st_mtime_ns for path in folder.iterdir() if path.is_file()}
    found = ask(*line.split())
    assert (found.status, found.out) == (2, "")
    assert found.err.startswith("assocmem: ")
    assert found.err.endswith((".\n", "?\n")) or "Error: " in found.err, found.err
    assert found.err.count("\n") == 1, found.err
    assert said in found.err
    assert "Traceback" not in found.err
    after = {path: path.stat().st_mtime_ns for path in folder.iterdir() if path.is_file()}
    assert after == before, "a refused command must write nothing"


def test_whatever_fails_is_one_sentence_and_can_be_looked_into(ask, monkeypatch):
    def fail(*_names, **_more):
        raise RuntimeError("something that nobody\nthought of")

    monkeypatch.setattr(assocmem.experiments.catalogue, "chosen", fail)
    found = ask("reproduce", "--quick")
    assert (found.status, found.out) == (2, "")
    assert found.err.startswith("assocmem: RuntimeError: something that nobody thought of (ASSOCMEM_TRACEBACK=1")
    monkeypatch.setenv("ASSOCMEM_TRACEBACK", "1")
    with pytest.raises(RuntimeError):
        ask("reproduce", "--quick")


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (KeyboardInterrupt(), 130, "stopped"),
        (MemoryError("Unable to allocate 715. GiB"), 2, "not enough memory"),
    ],
)
def test_ctrl_c_and_no_memory_have_a_sentence_too(ask, monkeypatch, error, status, said):
    def fail(*_names, **_more):
        raise error

    monkeypatch.setattr(assocmem.experiments.catalogue, "chosen", fail)
    found = ask("reproduce", "--quick")
    assert (found.status, found.out) == (status, "")
    assert said in found.err
    assert found.err.count("\n") == 1


@pytest.mark.usefixtures("folder")
def test_a_warning_of_ours_is_one_note_whatever_its_numbers(ask):
    found = ask("measure", "--keys", "good.npy", "--store", "delta-net")
    assert found.status == 0
    assert found.err.startswith("assocmem: note: DeltaNet")
    assert found.err.count("\n") == 1, found.err
