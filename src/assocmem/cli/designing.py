"""`design`: what it takes to serve M memories at a ratio."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from assocmem.cli.terminal import (
    Json,
    Seed,
    Workers,
    count,
    parse,
    print_json,
    print_pairs,
    print_table,
    progress_bar,
    writable,
)
from assocmem.contract.errors import InputError
from assocmem.contract.numbers import is_number, number

if TYPE_CHECKING:
    from assocmem.contract.estimate import Prediction
    from assocmem.contract.results import Results
    from assocmem.theory import Design


def design(
    memories: Annotated[
        str, typer.Option(metavar="M", help="Memories that must be served, the target included: 200000, 2e5 or 200k.")
    ],
    keys: Annotated[
        str | None, typer.Option(metavar="FILE", help="Answer for these keys (.npy, .npz, .safetensors), by head.")
    ] = None,
    queries: Annotated[str | None, typer.Option(metavar="FILE", help="Queries; the stored keys by default.")] = None,
    targets: Annotated[
        str | None, typer.Option(metavar="FILE", help="For each query the row it asks for; or own, or strongest.")
    ] = None,
    values: Annotated[str | None, typer.Option(metavar="FILE", help="Values; random ones by default.")] = None,
    normalise: Annotated[bool, typer.Option("--normalise", help="Scale given keys to length 1.")] = False,
    reference: Annotated[
        float | None,
        typer.Option(help="Of given keys: L from which context rules sharpen; default: the keys there are."),
    ] = None,
    beta: Annotated[
        str | None, typer.Option(metavar="LIST", help="Sharpnesses to judge, such as 8,11,16; default: sqrt(d_k).")
    ] = None,
    d_k: Annotated[int | None, typer.Option(min=1, help="Key width, where no keys are given; default 64.")] = None,
    ratio: Annotated[float, typer.Option(help="Interference-to-signal ratio that is acceptable.")] = 1.0,
    cosine: Annotated[
        float | None, typer.Option("--query-cosine", help="Cosine between queries and uniform keys; default 1.")
    ] = None,
    d_v: Annotated[
        int | None, typer.Option(min=1, help="Value width, for the numbers held and the cost; default 64.")
    ] = None,
    seed: Seed = 0,
    workers: Workers = None,
    out: Annotated[Path | None, typer.Option(help="Of given keys: folder for all rows as CSV and NDJSON.")] = None,
    as_json: Json = False,
) -> None:
    """Say how sharp attention must be for M memories, on uniform keys or your own, and which other stores would do."""
    wanted = count("--memories", memories)
    betas = None if beta is None else [_positive("--beta", text) for text in beta.split(",")]
    only = {"--queries": queries, "--targets": targets, "--values": values, "--reference": reference, "--out": out}
    other = {"--d-k": d_k, "--query-cosine": cosine, "--d-v": d_v}
    for option, given in (only if keys is None else other).items():
        if given is not None:
            raise InputError(f"`{option}` {'goes with' if keys is None else 'is for uniform keys, not'} `--keys`.")
    if keys is None:
        _uniform(wanted, d_k or 64, ratio, 1.0 if cosine is None else cosine, d_v or 64, betas or [], as_json)
        return
    from assocmem.inputs import read_matrix, read_targets
    from assocmem.lab.answers import design as answer

    if out is not None:
        writable(out)
    array = read_matrix(keys, "keys")
    with progress_bar("working out", hidden=as_json) as report:
        found = answer(
            n_memories=wanted, ratio=ratio, keys=array, beta=betas, normalise=normalise, reference=reference, seed=seed,
            queries=None if queries is None else read_matrix(queries, "queries"),
            targets=targets if targets in (None, "own", "strongest") else read_targets(targets, array.shape[-2]),
            values=None if values is None else read_matrix(values, "values"), workers=workers, progress=report,
        )  # fmt: skip
    if out is not None:
        found.write(out)
    if as_json:
        facts = {"words": found.words, "summary": found.header["summary"], "rows": found.rows}
        print_json(facts, found.header["definitions"])
        return
    _print_given(found)
    if out is not None:
        print(f"All rows are in {out / 'design.csv'}.")


WANTED = {"sharpness": "sharpness needed", "capacity": "largest M", "ratio": "ratio at M"}


def _positive(option: str, text: str) -> float:
    value = parse(text.strip())
    if not (is_number(value) and value > 0):
        raise InputError(f"`{option}` must be numbers > 0 such as 8,11,16; got {text!r}.")
    return float(value)


def _print_given(found: Results) -> None:
    """Print the sentences on given keys, and the numbers: of one head, or summed up over several."""
    if len({row["head"] for row in found.rows}) == 1:
        print(found)
    else:
        for sentence in found.words:
            print(sentence)
        columns = ["", "rule", "sharpness", "of", "10 %", "median head", "90 %", "worst heads"]
        cells = [
            [WANTED[r["quantity"]] + (" *" if r["extrapolated"] else ""), r["rule"], number(r["beta"]), r["statistic"],
             *(number(r[name]) for name in ("p10", "median", "p90")), ", ".join(r["worst"])]
            for r in found.header["summary"]
        ]  # fmt: skip
        print()
        print_table(columns, cells, numeric=("sharpness", "10 %", "median head", "90 %"))
        if any(r["extrapolated"] for r in found.rows):
            print("* extrapolated beyond the rows there are.")
    print("rms and median are over queries; beta and sharpness are the factor on q.k times the mean lengths of both.")


def _uniform(
    wanted: float, d_k: int, ratio: float, cosine: float, d_v: int, betas: Sequence[float], as_json: bool
) -> None:
    """Answer for keys uniform on the sphere."""
    from assocmem.lab.requirements import requirements
    from assocmem.stores import entry
    from assocmem.theory import design as rule

    answer = rule(d_k, wanted, ratio, cosine)
    usual = usual_scale(answer)
    others = requirements(d_k, d_v, wanted, ratio, cosine)
    attention = next(row for row in others if any(s.name == "sharpness" for s in entry(row["store"]).settings))
    sharper = sharper_rows(answer, attention, betas)
    if as_json:
        facts = {
            "d_k": answer.d, "memories": answer.n_memories, "ratio": answer.ratio, "query_cosine": answer.cosine,
            "feasible": answer.feasible, "sharpness": answer.sharpness, "logit_scale": answer.logit_scale,
            "best_sharpness": answer.best_sharpness.value, "best_sharpness_reason": answer.best_sharpness.reason,
            "largest": answer.largest.value, "largest_reason": answer.largest.reason, "reached": answer.reached.value,
            "sentence": answer.sentence,
        }  # fmt: skip
        print_json(facts | usual | {"stores": others, "sharpness_policies": sharper}, DESIGN_WORDS)
        return
    print(f"{answer.sentence}\n{usual['usual_sentence']}")
    best, largest = answer.best_sharpness, answer.largest
    print_pairs(
        {
            "smallest sharpness": "none is enough" if answer.sharpness is None else number(answer.sharpness),
            "as a scale on q·k of vectors of length sqrt(d_k)": number(answer.logit_scale),
            "best sharpness there is": best.reason if best.value is None else number(best.value),
            "largest M that one serves": largest.reason if largest.value is None else number(largest.value),
            "usual sharpness, sqrt(d_k)": number(usual["usual_sharpness"]),
            "largest M the usual one serves": number(usual["usual_largest"]),
        }
    )
    words = {True: "yes", False: "no", None: "no theory"}
    rows = [row for o in others for row in ([o, *sharper] if o is attention else [o])]
    print_table(
        ["store", "serves M", "ratio there", "largest M", "numbers held", "multiply-adds a recall"],
        [[o["label"], words[o["feasible"]], *(number(o[name]) for name in ("ratio", "largest", "numbers_held")),
          o["cost"] or "–"] for o in rows],
        title=f"every store at d_k = {d_k}, d_v = {d_v}, M = {number(wanted)}",
        numeric=("ratio there", "largest M", "numbers held"),
    )  # fmt: skip
    other = "" if abs(cosine) == 1 else " (optimal-linear's is the rms interference over the mean signal)"
    print(f"Ratios are root mean squares over draws{other}. In the costs n is M, width the number of a key's features.")
    for words in dict.fromkeys(o["reason"] for o in rows if o["largest"] is None and o["reason"]):
        named = "; ".join(o["label"] for o in rows if o["largest"] is None and o["reason"] == words)
        print(f"{named}: {words}")


def usual_scale(answer: Design) -> dict[str, Any]:
    """Say what the usual scale 1/sqrt(d_k) serves at the wanted ratio and cosine, and what needs to change."""
    from assocmem.maps.activations import Exp
    from assocmem.theory import capacity, ratio

    usual = math.sqrt(answer.d)
    served = capacity(Exp(usual), answer.d, ratio=answer.ratio, cosine=answer.cosine)
    reached = ratio(Exp(usual), answer.d, answer.n_memories, cosine=answer.cosine)
    most = f"M = {number(served.value)}" if served.value is not None else served.reason
    if served.value is None and served.log_value is not None:
        most = f"M = e^{served.log_value:.6g}"
    words = f"The usual 1/sqrt(d_k) is a sharpness of sqrt(d_k) = {usual:.3g}: it serves up to {most} at this ratio"
    words += " and cosine, " if answer.cosine != 1 else ", "
    if _within(reached, answer.ratio):
        words += "so nothing needs to change."
    elif answer.sharpness is None:
        words += "and no other sharpness serves M."
    elif answer.sharpness > usual:
        words += f"so raise it by a factor of {answer.sharpness / usual:.3g}."
    else:
        words += f"so lower it: a sharpness of {number(answer.sharpness)} is enough."
    return {
        "usual_sharpness": usual, "usual_largest": served.value, "usual_ratio": reached.value, "usual_sentence": words,
    }  # fmt: skip


def sharper_rows(answer: Design, softmax: dict[str, Any], betas: Sequence[float] = ()) -> list[dict[str, Any]]:
    """Return rows for softmax at the needed and at given sharpnesses, and with policies that follow M from 1024."""
    from assocmem.maps.activations import Exp, as_sharpness
    from assocmem.theory import capacity, ratio

    rows = []
    if answer.sharpness is not None:
        needed = {"label": f"softmax, beta = {number(answer.sharpness)}", "feasible": True,
                  "ratio": answer.reached.value, "largest": answer.n_memories, "reason": ""}  # fmt: skip
        rows.append(softmax | needed)
    for beta in betas:
        found = ratio(Exp(beta), answer.d, answer.n_memories, cosine=answer.cosine)
        served = capacity(Exp(beta), answer.d, ratio=answer.ratio, cosine=answer.cosine)
        rows.append(
            softmax | {"label": f"softmax, beta = {number(beta)}", "feasible": _within(found, answer.ratio),
                       "ratio": found.value, "largest": served.value, "reason": served.reason}
        )  # fmt: skip
    for policy in ("log-n", "qwen", "yarn"):
        found = ratio(as_sharpness(policy), answer.d, answer.n_memories, cosine=answer.cosine)
        reason = found.reason or "the ratio may fall and rise with M, so there is no one largest M"
        rows.append(
            softmax | {"label": f"softmax, {policy} from 1024", "feasible": _within(found, answer.ratio),
                       "ratio": found.value, "largest": None, "reason": reason}
        )  # fmt: skip
    return rows


def _within(found: Prediction, ratio: float) -> bool:
    log = found.log_value if found.log_value is not None else (-math.inf if found.value == 0 else math.inf)
    return log <= math.log(ratio) + 1e-12


DESIGN_WORDS = {
    "sharpness": "smallest beta, multiplying similarities of unit keys, at which softmax attention serves M",
    "logit_scale": "beta / d_k: the factor on q.k when queries and keys have length sqrt(d_k)",
    "best_sharpness": "the beta of the lowest ratio there is at this query cosine; null where sharper is always better",
    "largest": "the largest M served at the wanted ratio, the target counted",
    "usual_sharpness": "sqrt(d_k), what 1/sqrt(d_k) is on queries and keys of length sqrt(d_k)",
    "usual_largest": "the largest M that the usual sharpness serves at the wanted ratio and cosine",
    "usual_ratio": "the ratio at M with the usual sharpness",
    "sharpness_policies": "softmax at the smallest sharpness that serves M, and with one that follows M; the reference "
    "length is 1024 memories",
    "ratio": "interference-to-signal ratio, rms, dimensionless",
    "numbers_held": "numbers in the store's state with M memories",
    "cost": "formula of the multiply-adds of one recall; n is the number of memories",
    "multiply_adds": "multiply-adds of one recall at M memories",
}
