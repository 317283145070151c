"""Long contexts: the ratio under four rules of sharpness, by theory alone."""

from typing import Any

from assocmem.contract.settings import settings_of
from assocmem.experiments.long_contexts import BETA, REFERENCE, RULES, policies
from assocmem.page.charts import CURVES, short
from assocmem.page.declare import Control, Endpoint, Part, Section
from assocmem.page.sections.bars import BETAS, width
from assocmem.theory import ratio

LONG_COUNTS = tuple(2**k for k in range(4, 22))


def long_contexts(d_k: int, beta: float, reference: int) -> dict[str, Any]:
    """Return the rms ratio and the sharpness of the four rules at every M from 16 to 2,097,152, lists by rule.

    A ratio too small for a float is null.
    """
    rules = {}
    for rule, chosen in policies(reference, beta).items():
        ratios = [ratio(chosen, d_k, m).value for m in LONG_COUNTS]
        rules[rule] = {
            "ratio": [short(r or None, 4) for r in ratios],
            "beta": [short(chosen(m, d_k), 4) for m in LONG_COUNTS],
        }
    return {"m": list(LONG_COUNTS), "rules": rules}


OF_RULES = [setting for rule in policies(REFERENCE, BETA).values() for setting in settings_of(type(rule))]
LENGTH = Control.of(
    "reference", [s for s in OF_RULES if s.name == "reference"], tuple(2**k for k in range(8, 14)), REFERENCE,
    "Reference length L", say="{} memories",
)  # fmt: skip
SHARPNESS = Control.of("longbeta", [s for s in OF_RULES if s.name == "beta"], BETAS, BETA, "β at L", say="sharpness {}")
WIDTH = width("longwidth")
VIEW = CURVES | {
    "x_domain": (16, 2**21),
    "x_values": tuple(10**k for k in range(2, 7)),
    "y_domain": (1e-6, 100),
    "y_values": tuple(10.0**k for k in range(-6, 3)),
    "order": list(RULES),
}
SECTION = Section(
    6,
    (Endpoint("contexts", long_contexts, (Part(WIDTH), Part(SHARPNESS), Part(LENGTH))),),
    (LENGTH, SHARPNESS, WIDTH),
    charts={"contexts": (VIEW, 330)},
    words={"largest": LONG_COUNTS[-1]},
)
