"""`design`: what it takes to serve M memories at a ratio."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from assocmem.cli import app
from assocmem.cli.output import JSON_HELP, number, print_json, print_pairs, print_table
from assocmem.cli.settings import at_least_one, positive, within_one

if TYPE_CHECKING:
    from assocmem.core.types import Prediction


@app.command()
def design(
    d_k: int = typer.Option(64, "--d-k", min=1, help="Key width."),
    memories: float = typer.Option(..., "--memories", help="Memories M that must be served, the target included."),
    ratio: float = typer.Option(1.0, "--ratio", help="Interference-to-signal ratio that is acceptable."),
    cosine: float = typer.Option(1.0, "--query-cosine", help="Cosine between queries and stored keys."),
    d_v: int = typer.Option(64, "--d-v", min=1, help="Value width, for the numbers held and the cost."),
    as_json: bool = typer.Option(False, "--json", help=JSON_HELP),
) -> None:
    """Say how sharp attention must be for M memories, and which other stores would do."""
    from assocmem.lab.required import requirements
    from assocmem.theory import design as rule

    at_least_one("--memories", memories)
    positive("--ratio", ratio)
    within_one("--query-cosine", cosine)
    answer = rule(d_k, memories, ratio, cosine)
    others = requirements(d_k, d_v, memories, ratio, cosine)
    if as_json:
        print_json(_facts(answer) | {"stores": others}, DESIGN_WORDS)
        return
    print(answer.sentence)
    print_pairs(
        {
            "smallest sharpness": "none is enough" if answer.sharpness is None else number(answer.sharpness),
            "as a scale on q·k of vectors of length sqrt(d_k)": number(answer.logit_scale),
            "best sharpness there is": _number_or_reason(answer.best_sharpness),
            "largest M that one serves": _number_or_reason(answer.largest),
        }
    )
    words = {True: "yes", False: "no", None: "no theory"}
    print_table(
        ["store", "serves M", "ratio there", "largest M", "numbers held", "multiply-adds a recall"],
        [
            [o["label"], words[o["feasible"]], number(o["ratio"]), number(o["largest"]), number(o["numbers_held"]),
             o["cost"] or "–"]
            for o in others
        ],
        title=f"every store at d_k = {d_k}, d_v = {d_v}, M = {number(memories)}",
        numeric=("ratio there", "largest M", "numbers held"),
    )  # fmt: skip


def _number_or_reason(found: Prediction) -> str:
    return found.reason if found.value is None else number(found.value)


def _facts(answer: Any) -> dict[str, Any]:
    return {
        "d_k": answer.d, "memories": answer.n_memories, "ratio": answer.ratio, "query_cosine": answer.cosine,
        "feasible": answer.feasible, "sharpness": answer.sharpness, "logit_scale": answer.logit_scale,
        "best_sharpness": answer.best_sharpness.value, "best_sharpness_reason": answer.best_sharpness.reason,
        "largest": answer.largest.value, "largest_reason": answer.largest.reason, "reached": answer.reached.value,
        "sentence": answer.sentence,
    }  # fmt: skip


DESIGN_WORDS = {
    "sharpness": "smallest beta, multiplying similarities of unit keys, at which softmax attention serves M",
    "logit_scale": "beta / d_k: the factor on q.k when queries and keys have length sqrt(d_k)",
    "best_sharpness": "the beta of the lowest ratio there is at this query cosine; null where sharper is always better",
    "largest": "the largest M served at the wanted ratio, the target counted",
    "ratio": "interference-to-signal ratio, rms, dimensionless",
    "numbers_held": "numbers in the store's state with M memories",
    "cost": "multiply-adds of one recall; n is the number of memories",
}
