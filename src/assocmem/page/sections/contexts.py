"""Long contexts: the ratio under four rules of sharpness, by theory alone."""

from typing import Any

from assocmem.contract.settings import settings_of
from assocmem.experiments.long_contexts import BETA, DASHES, FIXED, QWEN, REFERENCE, RULES, SU, YARN, policies
from assocmem.page.charts import CURVES, short
from assocmem.page.declare import Control, Endpoint, Part, Section
from assocmem.page.sections.bars import width
from assocmem.theory import ratio

LONG_COUNTS = tuple(2**k for k in range(4, 22))
BETAS = (0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 12.0, 14.0, 16.0, 20.0, 24.0, 32.0)
VAGUE = 0.8
"""Likeness of a vague query and its key."""
WORDS = {
    FIXED: ("stays as it is", "β_L"),
    SU: ("grows as the logarithm of M, below L too", "β_L · ln M / ln L"),
    QWEN: ("the same above L; below L it stays", "β_L · max(1, ln M / ln L)"),
    YARN: ("grows as the square of a logarithm above L; below L it stays", "β_L · (0.1 ln(M/L) + 1)² for M > L"),
}
"""What each rule does to β, in words and as a formula."""


def long_contexts(d_k: int, beta: float, reference: int) -> dict[str, Any]:
    """Return the rms ratio of a clean and of a vague query and the sharpness at every M from 16 to 2,097,152, by rule.

    A ratio too small for a float is null.
    """
    rules = {}
    for rule, chosen in policies(reference, beta).items():
        rules[rule] = {
            "ratio": [short(ratio(chosen, d_k, m).value or None, 4) for m in LONG_COUNTS],
            "vague": [short(ratio(chosen, d_k, m, cosine=VAGUE).value or None, 4) for m in LONG_COUNTS],
            "beta": [short(chosen(m, d_k), 4) for m in LONG_COUNTS],
        }
    return {"m": list(LONG_COUNTS), "rules": rules}


OF_RULES = [setting for rule in policies(REFERENCE, BETA).values() for setting in settings_of(type(rule))]
M = Control("longm", LONG_COUNTS, 2**20, "Context length M", "{} memories")
LENGTH = Control.of(
    "reference", [s for s in OF_RULES if s.name == "reference"], tuple(2**k for k in range(8, 14)), REFERENCE,
    "Reference length L", say="{} memories",
)  # fmt: skip
SHARPNESS = Control.of("longbeta", [s for s in OF_RULES if s.name == "beta"], BETAS, BETA, "β at L", say="sharpness {}")
WIDTH = width("longwidth")
VIEW = CURVES | {
    "x_title": "context length M",
    "x_domain": (16, 2**21),
    "x_values": tuple(10**k for k in range(2, 7)),
    "y_domain": (1e-6, 100),
    "y_values": tuple(10.0**k for k in range(-6, 3)),
    "order": list(RULES),
    "dashes": DASHES,
}
SECTION = Section(
    6,
    (Endpoint("contexts", long_contexts, (Part(WIDTH), Part(SHARPNESS), Part(LENGTH))),),
    (M, LENGTH, SHARPNESS, WIDTH),
    charts={"contexts": (VIEW, 330)},
    words={"largest": LONG_COUNTS[-1], "vague": VAGUE, "rules": WORDS},
)
