"""Sparse slots: how many of a table's rows are in use and shared as it fills, and what is still told apart."""

from typing import Any

from assocmem.experiments.shown import TABLES, Shown
from assocmem.experiments.sparse_slots import LOAD, RIGHT, SHARED, D, shares_of
from assocmem.page.charts import CURVES, figure, short
from assocmem.page.declare import Control, Endpoint, Option, Part, Section
from assocmem.page.sections.bars import PAGE_SEED

COUNTS = tuple(2**k for k in range(2, 12))
MEASURED = COUNTS[::2]
DRAWS, SLOTS = 16, 256
LINES = {LOAD: "slots in use", SHARED: "slots shared", RIGHT: "right recalls"}
STORE = Control(
    "table", [Option(one.id, one.label, one, {"title": one.about}) for one in TABLES], TABLES[0].id, "Table"
)
READ = Control("read", (1, 2, 4, 8, 16), 4, "Slots a pair is written to", "{} slots")


def sparse(shown: Shown, k: int) -> dict[str, Any]:
    """Return shares in use, shared and recalled right by the number of pairs, beside those of even addressing.

    Were every pair to take k of the n slots at random, 1 - (1 - k/n)^M of them would be in use, and of those that a
    pair takes 1 - (1 - k/n)^(M - 1) shared: the lines. Points are measured, with 95 % intervals over draws.
    """
    store = type(shown.store)(**{**shown.settings, "k": k})
    even = {LINES[LOAD]: 0, LINES[SHARED]: 1}
    lines = [
        {"label": label, "n_memories": m, "theory": short(max(1e-4, 1 - (1 - k / SLOTS) ** (m - less)))}
        for label, less in even.items()
        for m in COUNTS
    ]
    points, last = [], {}
    for m in MEASURED:
        for quantity, share in shares_of(store, m, PAGE_SEED, DRAWS):
            value, low, high = (None if x is None else short(x, 4) for x in (share.value, share.low, share.high))
            last[quantity, m] = value
            points.append({"label": LINES[quantity], "n_memories": m, "value": value, "low": low, "high": high,
                           "sampler": "keys", "n_trials": DRAWS})  # fmt: skip
    half = next((m for m in MEASURED if (last[RIGHT, m] or 0) < 0.5), None)
    until = f"fewer than half of them at M = {half:,}" if half else f"more than half of them up to M = {MEASURED[-1]:,}"
    m = MEASURED[2]
    said = (
        f"{shown.label}, {k} of {SLOTS} slots a pair: at M = {m} pairs {figure(last[LOAD, m])} of the slots are in "
        f"use, and {figure(last[SHARED, m])} of those that a pair takes are shared."
    )
    rest = (
        f"Told from all others are {until}. Lines: slots taken at random. Points: measured, {DRAWS} draws of random "
        f"keys, dₖ = {D}; fewer slots in use than the line says, and more of them shared, is addressing that is uneven."
    )
    return {
        "rows": {
            "theory": lines, "measured": points, "spans": points, "marker": [], "here": [],
            "labels": [],
        },
        "note": shown.about,
        "said": said,
        "text": f"{said} {rest}",
    }  # fmt: skip


VIEW = {name: value for name, value in CURVES.items() if not name.startswith("rule")} | {
    "x_domain": (COUNTS[0], COUNTS[-1]),
    "x_values": (10, 100, 1000),
    "y_title": "share",
    "y_log": False,
    "y_domain": (0, 1),
    "order": list(LINES.values()),
    "legend": True,
}
SECTION = Section(
    9.6,
    (Endpoint("sparse", sparse, (Part(STORE), Part(READ))),),
    (READ,),
    charts={"sparse": (VIEW, 300)},
    title="A table of slots fills up",
    text="A large table costs nothing to read where a key says which few of its slots to look at. Pairs that "
    "are written to the same slots mix there: how soon depends on how many slots each takes, and on how evenly.",
    link="Sparse slots",
)  # fmt: skip
