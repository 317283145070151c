"""The article's table: capacity of every store at d_k = 64, printed, measured and exact."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from assocmem import theory
from assocmem.contract.store import Store
from assocmem.experiments.experiment import QUICK_PRECISION, Experiment, Outcome, Progress, Settings, article, parts
from assocmem.lab.capacity import DEFINITIONS, capacity
from assocmem.lab.search import PRECISION
from assocmem.maps.sharpness import Constant, LogN, Sharpness
from assocmem.stores.lookup import make_store
from assocmem.stores.softmax import SoftmaxAttention

D_K = 64
QUICK_LARGEST = 2**12  # where a quick run looks for a crossing that isn't there


@dataclass(frozen=True)
class Line:
    """One line of the table: its label, the article's name for it, how the store is made, f(x) in words."""

    label: str
    printed_as: str
    key: str
    formula: str
    settings: dict[str, Any] = field(default_factory=dict)
    policy: Sharpness | None = None

    def store(self) -> Store:
        """Return the store."""
        return SoftmaxAttention(self.policy) if self.policy else make_store(self.key, **self.settings)


LINES = (
    Line("outer product", "outer product", "outer-product", "V^T K x"),
    Line("optimal linear", "optimal linear", "optimal-linear", "V^T pinv(K^T) x"),
    Line("ReLU", "ReLU", "relu", "V^T ReLU(K x)"),
    Line("squared ReLU", "squared ReLU", "squared-relu", "V^T ReLU(K x)^2"),
    Line("SwiGLU, shared gate", "SwiGLU shared gate", "swiglu", "V^T (Swish(K x) * K x)"),
    Line("cubed ReLU", "cubed ReLU", "cubed-relu", "V^T ReLU(K x)^3"),
    *(
        Line(f"exp, {n} terms, beta 8", f"exp {n} terms, beta 8", "exp-series", f"V^T exp_{n}(8 K x)",
             {"terms": n, "beta": 8.0})
        for n in (2, 3, 4)
    ),
    Line("softmax, beta 2", "softmax, beta 2", "softmax", "V^T softmax(2 K x)", policy=Constant(2.0)),
    Line("softmax, beta 8", "softmax, beta 8", "softmax", "V^T softmax(8 K x)", policy=Constant(8.0)),
    Line("softmax, beta growing like log M", "softmax, beta growing like log M", "softmax",
         "V^T softmax(8 ln M / ln 1024 K x)", policy=LogN(1024, 8.0)),
)  # fmt: skip

WORDS = {
    "formula": "f(x), K and V the stored keys and values as rows",
    "article_name": "the store in the article's words",
    "article": "the article's capacity, null where it prints words or nothing",
    "gaussian": "capacity by the Gaussian approximation of similarities, null where there is none",
}


def _answer(settings: Settings, progress: Progress) -> Outcome:
    printed = {item["store"]: item["printed"] for item in article()["capacities"]}
    part = parts(progress, len(LINES))
    rows, looked = [], 0
    for i, line in enumerate(LINES):
        store = line.store()
        optimal = line.key == "optimal-linear"
        found = capacity(
            (line.label, store), D_K, seed=settings.seed, workers=settings.workers, progress=part(i),
            statistic="median" if optimal else "rms", precision=QUICK_PRECISION if settings.quick else PRECISION,
            largest=QUICK_LARGEST if settings.quick and line.policy is not None and line.policy.depends_on_n else None,
        )  # fmt: skip
        similarity = store.similarity(D_K, 1)
        approximate = None if similarity is None or line.policy not in (None, Constant(8.0)) else (
            theory.gaussian_capacity(similarity, D_K).value
        )  # fmt: skip
        number, row = printed.get(line.printed_as), found.row()
        if line.policy is not None and line.policy.depends_on_n:
            looked = int(row["largest_m"])
            far = theory.softmax_capacity(line.policy, D_K, largest=row["largest_m"])
            row |= {"theory": far.value, "theory_reason": far.reason}
        rows.append(
            row
            | {"experiment": "capacities", "formula": line.formula, "article_name": line.printed_as,
               "article": number if isinstance(number, int | float) else None,
               "gaussian": approximate}
        )  # fmt: skip
    return Outcome(
        rows,
        {"kind": "capacities", "order": [line.label for line in LINES]},
        "M counts the target. The optimal linear store's capacity is the crossing of the median; all others are of the "
        "root mean square. With beta growing like log M the ratio falls as M grows and does not reach 1 up to the "
        f"largest M looked at, {looked:,} (by theory it turns and reaches 1 near 1e26).",
        {"d_k": D_K},
        DEFINITIONS | WORDS,
    )


EXPERIMENT = Experiment(
    "capacities",
    "How many memories each store holds",
    "At how many memories does interference equal the signal?",
    _answer,
    slow=True,
)
