"""The energy of a modern Hopfield network over a plane, with the paths of recalls on it."""

import numpy as np

from assocmem.contract.recall import Outcome as Ended
from assocmem.contract.results import Row
from assocmem.experiments.experiment import Experiment, Outcome, Run
from assocmem.experiments.shown import Shown

BETA = 8.0
STORED = 0.9 * np.array([[np.cos(a), np.sin(a)] for a in np.radians([20.0, 50.0, 140.0, 205.0, 290.0])])
QUERIES = {"near one": (-0.35, 0.6), "between two": (0.9, 0.1), "near none": (0.08, -0.12)}
SHOWN = Shown("modern-hopfield", settings={"beta": BETA})
EDGE = 1.2


def _answer(run: Run) -> Outcome:
    side = run.fewer(41, 13)
    line = np.linspace(-EDGE, EDGE, side)
    grid = np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2)
    store = SHOWN.store
    state = store.write(store.empty(2, 2), STORED, STORED)
    plane = store.ask(state, grid, want="trace", steps=1).trace
    starts = np.array(list(QUERIES.values()))
    whole = store.ask(state, starts, want="trace").trace
    assert plane is not None  # wanted
    assert whole is not None  # wanted
    taken = np.asarray(whole.steps)
    rows: list[Row] = [
        {"what": "energy", "x": float(x), "y": float(y), "energy": float(e)}
        for (x, y), e in zip(grid, np.asarray(plane.energy)[:, 0], strict=True)
    ]
    rows += [{"what": "stored", "x": float(x), "y": float(y)} for x, y in STORED]
    # With values = keys a recall of t steps is where the query is after them.
    paths = [starts, *(np.asarray(store.recall(state, starts, steps=t)) for t in range(1, int(taken.max()) + 1))]
    for i, label in enumerate(QUERIES):
        rows += [
            {"what": "path", "label": label, "step": t, "x": float(paths[t][i, 0]), "y": float(paths[t][i, 1]),
             "energy": float(np.asarray(whole.energy)[i, t])}
            for t in range(int(taken[i]) + 1)
        ]  # fmt: skip
    rows = [{"experiment": run.experiment, "store": SHOWN.key, **row} for row in rows]
    rested = int(np.sum(np.asarray(whole.outcome) == Ended.FIXED_POINT))
    falls = "; ".join(
        f"{label}, {taken[i]} steps, energy {whole.energy[i, 0]:.3f} to {whole.energy[i, -1]:.3f}"
        for i, label in enumerate(QUERIES)
    )
    return Outcome(
        rows,
        {"kind": "landscape", "spacing": float(line[1] - line[0]), "order": list(QUERIES)},
        f"Five stored points of a plane (diamonds) and the energy at beta = {BETA:g}; dark is low. Each step of recall "
        f"is one of softmax attention, and none climbs: {falls} ({rested} of {len(QUERIES)} at rest). Two points that "
        "are alike share one valley, so a query there ends between them.",
        {"beta": BETA},
        {
            "what": "energy of the plane, a stored point, or a point on the path of a recall",
            "x": "coordinate", "y": "coordinate",
            "energy": "-ln(mean of e^(beta k.x)) / beta + |x|^2/2 + max |k|^2 / 2",
            "label": "where the query began", "step": "steps of the recall taken",
        },
    )  # fmt: skip


EXPERIMENT = Experiment(
    "energy", 28, "Recall runs downhill", "What does iterated recall do, seen as a landscape?", _answer,
)  # fmt: skip
