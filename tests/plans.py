"""Plans of the lab in one line, for tests: the sampler's settings and the plan's given together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import partial
from typing import Any

from assocmem.lab.keys import Keys
from assocmem.lab.plan import Plan, all_labelled
from assocmem.lab.precision import Rounding
from assocmem.lab.run import run
from assocmem.lab.similarities import Similarities


def plan_of(sampler: Callable[..., Any], stores: Any, d_k: int, memories: Any, **settings: Any) -> Plan:
    """Return a plan, its settings split between it and the sampler."""
    if sampler is Rounding:
        settings.setdefault("d_v", d_k)
    own = {f.name: settings.pop(f.name) for f in fields(sampler) if f.name in settings}
    return Plan(sampler(**own), all_labelled(stores), d_k, tuple(sorted({int(n) for n in memories})), **settings)


def curves_by(sampler: Callable[..., Any]) -> Callable[..., list[dict[str, Any]]]:
    """Return a function that runs such a plan, by default in this thread."""

    def curves(stores: Any, d_k: int, memories: Any, *, workers: Any = 1, progress: Any = None, **settings: Any) -> Any:
        return run(plan_of(sampler, stores, d_k, memories, **settings), workers=workers, progress=progress)

    return curves


key_plan = partial(plan_of, Keys)
key_curves, similarity_curves = curves_by(Keys), curves_by(Similarities)


def key_ratios(plan: Plan, workers: Any = 1) -> dict[int, Any]:
    """Return the ratios (trials, stores, cosines, targets) of a plan by keys, by M."""
    sampler = plan.sampler
    assert isinstance(sampler, Keys)
    return sampler.ratios(plan, workers)
