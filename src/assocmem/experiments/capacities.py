"""The article's table: capacity of every store at d_k = 64, printed, measured and exact."""

from dataclasses import dataclass

from assocmem import theory
from assocmem.contract.form import KernelSum
from assocmem.contract.results import Row
from assocmem.experiments.experiment import Experiment, Outcome, Run, article
from assocmem.experiments.shown import Shown
from assocmem.lab.capacity import PRECISION, capacity
from assocmem.maps.activations import Constant, LogN, Sharpness

D_K = 64
QUICK_LARGEST = 2**12  # where a quick run looks for a crossing that isn't there


@dataclass(frozen=True)
class Line:
    """One line of the table: its store, f(x) in words, the article's name for it where that isn't the label."""

    shown: Shown
    formula: str
    printed_as: str = ""

    @property
    def policy(self) -> Sharpness | None:
        """The sharpness of softmax lines."""
        return self.shown.settings.get("sharpness")


def _softmax(label: str, formula: str, policy: Sharpness) -> Line:
    return Line(Shown("softmax", f"softmax, {label}", {"sharpness": policy}), f"V^T softmax({formula} K x)")


LINES = (
    Line(Shown("outer-product"), "V^T K x"),
    Line(Shown("optimal-linear"), "V^T pinv(K^T) x"),
    Line(Shown("relu"), "V^T ReLU(K x)"),
    Line(Shown("squared-relu"), "V^T ReLU(K x)^2"),
    Line(Shown("swiglu", "SwiGLU, shared gate"), "V^T (Swish(K x) * K x)", "SwiGLU shared gate"),
    Line(Shown("cubed-relu"), "V^T ReLU(K x)^3"),
    *(
        Line(Shown("exp-series", f"exp, {n} terms, beta 8", {"terms": n, "beta": 8.0}), f"V^T exp_{n}(8 K x)",
             f"exp {n} terms, beta 8")
        for n in (2, 3, 4)
    ),
    _softmax("beta 2", "2", Constant(2.0)),
    _softmax("beta 8", "8", Constant(8.0)),
    _softmax("beta growing like log M", "8 ln M / ln 1024", LogN(1024, 8.0)),
)  # fmt: skip


def _answer(run: Run) -> Outcome:
    rows = [_row(line, run.part(i, len(LINES))) for i, line in enumerate(LINES)]
    return Outcome(
        rows,
        {"kind": "capacities", "order": [line.shown.label for line in LINES]},
        "M counts the target. The optimal linear store's capacity is the crossing of the median; all others are of the "
        "root mean square. With beta growing like log M the ratio falls as M grows and does not reach 1 up to the "
        f"largest M looked at, {int(rows[-1]['largest_m']):,} (by theory it turns and reaches 1 near 1e26).",
        {"d_k": D_K},
    )


def _row(line: Line, run: Run) -> Row:
    store, policy = line.shown.store, line.policy
    form = store.form(D_K)
    grows = policy is not None and policy.depends_on_n
    found = capacity(
        (line.shown.label, store), D_K, **run.lab, statistic=theory.steady_statistic(form),
        precision=run.rough(PRECISION), largest=QUICK_LARGEST if run.quick and grows else None,
    )  # fmt: skip
    row = dict(found.row())
    if policy is not None and grows:
        far = theory.capacity(form, D_K, largest=row["largest_m"])
        row |= {"theory": far.value, "theory_reason": far.reason}
    sums = form if isinstance(form, KernelSum) and policy in (None, Constant(8.0)) else None
    name = line.printed_as or line.shown.label
    printed = {item["store"]: item["printed"] for item in article()["capacities"]}.get(name)
    return row | {
        "experiment": "capacities",
        "formula": line.formula,
        "article_name": name,
        "article": printed if isinstance(printed, int | float) else None,
        "gaussian": None if sums is None else theory.gaussian_capacity(sums, D_K).value,
    }


EXPERIMENT = Experiment(
    "capacities", 7, "How many memories each store holds",
    "At how many memories does interference equal the signal?", _answer, slow=True,
)  # fmt: skip
