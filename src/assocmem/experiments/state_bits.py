"""Bits recalled per number of state: what each store gets out of the memory it takes."""

from assocmem.contract.results import Row
from assocmem.experiments.experiment import Experiment, Outcome, Run
from assocmem.experiments.shown import Shown, labelled
from assocmem.inputs import draw_pairs
from assocmem.lab.keys import Keys
from assocmem.lab.run import curves
from assocmem.ruler import bits_per_recall
from assocmem.theory import BITS_PER_WEIGHT

D_K = D_V = 64
OPTIMAL = Shown("optimal-linear")
STORES = (
    Shown("outer-product"), OPTIMAL, Shown("squared-relu"), Shown("softmax"),
)  # fmt: skip


def _answer(run: Run) -> Outcome:
    stores = labelled(STORES)
    counts = [2**k for k in range(4, run.fewer(13, 10))]
    sampler = Keys(trials=run.fewer(8, 4), most=run.fewer(64, 16))
    curve = curves(stores, D_K, counts, sampler, statistics=("rms", "median"), **run.shared)
    sizes = {
        (label, m): store.write(store.empty(D_K, D_V), pairs.keys, pairs.values).size
        for m in counts
        for pairs in [draw_pairs(run.seed, 0, m, D_K, D_V)]
        for label, store in stores
    }
    wanted = {one.label: "median" if one is OPTIMAL else "rms" for one in STORES}
    rows = [
        _row(row, sizes[row["label"], row["n_memories"]]) for row in curve if row["statistic"] == wanted[row["label"]]
    ]
    return Outcome(
        rows,
        {"kind": "curves", "x": "n_memories", "x_title": "memories M", "y_title": "bits recalled per number of state",
         "order": [one.label for one in STORES], "rule": float(BITS_PER_WEIGHT),
         "rule_text": "perceptron"},
        "Bits of one recall, d_v/2 log2(1 + 1/ratio^2) at the root mean square ratio (least squares: the median), "
        "times M, divided by the numbers held (counted from the arrays). A matrix is shared by all its memories: the "
        "more it holds, the more its numbers tell, up to a limit, though each recall gets worse. A store that keeps "
        "its pairs pays for every one of them and is worth it while recall is clean. At ratio 0 (least squares up to "
        "M = 64) bits are not defined. The line: the exact 2 random labels a weight that a perceptron can be "
        "taught (Cover 1965), each label a bit.",
        {"d_k": D_K, "d_v": D_V},
    )  # fmt: skip


def _row(row: Row, size: int) -> Row:
    """Return a row of ratios as one of bits a number: the more interference, the fewer."""

    def bits(ratio: float | None) -> float | None:
        value = None if ratio is None or ratio < 1e-9 else bits_per_recall(ratio, D_V).value
        return None if value is None else value * (row["n_memories"] / size)

    return {
        **row, "value": bits(row["value"]), "low": bits(row["high"]), "high": bits(row["low"]),
        "theory": bits(row["theory"]), "ratio": row["value"], "quantity": "bits per number", "state_numbers": size,
    }  # fmt: skip


EXPERIMENT = Experiment(
    "state-bits", 14, "What a number of state is worth",
    "How much information does each store give back for the numbers it holds?", _answer,
)  # fmt: skip
