"""A real head: what the last word of a sentence asks of a trained model's attention, and what interferes.

The file beside this one holds keys, values and the last token's query of four heads of SmolLM2-135M-Instruct, as
`scripts/trace_heads.py` wrote them; weights, values and ratios are worked by the library's softmax store.
"""

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from assocmem.contract.state import Pairs
from assocmem.maps.activations import Constant
from assocmem.page.charts import figure, rounded
from assocmem.page.declare import Control, Endpoint, Option, Part, Section
from assocmem.ruler import by_vectors, by_weights, recall_weights
from assocmem.stores.softmax import SoftmaxAttention

KINDS = {
    "answers": "looks for what followed before",
    "looks back": "looks one token back",
    "rests": "rests on the first token",
    "spreads": "spreads over all",
}


@cache
def kept() -> tuple[dict[str, np.ndarray[Any, Any]], list[str], dict[str, dict[str, Any]], str]:
    """Return the arrays, the tokens, the heads by their ids, and the model's name."""
    from safetensors import safe_open

    with safe_open(Path(__file__).with_suffix(".safetensors"), framework="numpy") as file:
        arrays = {name: np.asarray(file.get_tensor(name), np.float64) for name in file.keys()}  # noqa: SIM118
        words = file.metadata()
    heads = {head["id"]: head for head in json.loads(words["heads"])}
    return arrays, json.loads(words["tokens"]), heads, words["model"]


def real_head(name: str, scale: float, context: int) -> dict[str, Any]:
    """Return the weights of the newest `context` tokens for the last token's query, and what comes back.

    name: of the head. scale: factor on the head's own logits. A token adds its weight times its value; the target is
    the token of the largest weight.
    """
    arrays, tokens, heads, model = kept()
    head = heads[name]
    keys, values, query = (arrays[f"{name}.{part}"] for part in ("keys", "values", "query"))
    first = max(0, len(tokens) - context)
    pairs = Pairs(keys[first:], values[first:])
    store = SoftmaxAttention(Constant(scale * head["scaling"]))
    weights = recall_weights(store, pairs, query[None])
    state = store.write(store.empty(keys.shape[1], values.shape[1]), pairs.keys, pairs.values)
    target = int(np.argmax(weights[0]))
    back = store.recall(state, query[None])[0]
    by_chance = float(by_weights(weights, np.array([target]))[0])
    real = float(by_vectors(back[None], pairs.values[[target]], weights[:, target])[0])
    logits = scale * head["scaling"] * pairs.keys @ query
    shown = [f"{first + i + 1} {token.strip() or token!r}" for i, token in enumerate(tokens[first:])]
    rows: list[dict[str, Any]] = [
        {"token": text, "place": i, "weight": weight, "target": i == target,
         "words": f"{figure(weight)} · {figure(logit)} · {figure(length)}"}
        for i, (text, weight, logit, length) in enumerate(zip(
            shown, rounded(weights[0], 4), rounded(logits, 2), rounded(np.linalg.norm(pairs.values, axis=1), 2),
            strict=True))
    ]  # fmt: skip
    others = np.argsort(-weights[0], kind="stable")
    loud = [i for i in others if i != target][:2]
    said = (
        f"“{tokens[-1].strip()}” asks, and finds “{tokens[first + target].strip()}” with weight "
        f"{figure(rows[target]['weight'])}"
    )
    interferes = " and ".join(f"“{tokens[first + i].strip()}” ({rows[i]['weight']:.2g})" for i in loud)
    text = (
        f"{said}. What comes back is the sum of all values, each times its weight; loudest beside it: {interferes}. "
        f"With these values interference is {figure(real)} times the signal, with random ones of one length it would "
        f"be {figure(by_chance)}. Layer {head['layer']}, head {head['head']} of {model}; {len(shown)} of "
        f"{len(tokens)} tokens are seen."
    )  # fmt: skip
    return {
        "rows": {"bars": [r for r in rows if not r["target"]], "target": [rows[target]], "words": rows},
        "note": f"A head that {KINDS[name]}.", "said": said + ".", "text": text,
        "ratio": real, "ratio_random": by_chance, "recalled": rounded(back, 4),
    }  # fmt: skip


HEADS = [Option(name.replace(" ", "-"), words, name) for name, words in KINDS.items()]
HEAD = Control("realhead", HEADS, "answers", "Head")
SCALE = Control("realscale", (0.25, 0.5, 1.0, 2.0, 4.0, 8.0), 1.0, "Factor on its logits", "{} times")
CONTEXT = Control("realcontext", (2, 4, 8, 12, 16, 19), 19, "Tokens that it sees", "the last {} tokens")
SECTION = Section(
    8.5,
    (Endpoint("real-head", real_head, (Part(HEAD), Part(SCALE), Part(CONTEXT))),),
    (SCALE, CONTEXT),
    charts={"real_head": ({"kind": "tokens", "x_title": "weight · logit of its key · length of its value"}, 380)},
    title="A real head",
    text="“The capital of Italy is Rome and the capital of Japan is Tokyo. The capital of Italy is”: SmolLM2, a "
    "trained model of 135 million numbers, has read this and is about to say the next word. Its last token asks; every "
    "token is a memory, with a key by which it is found and a value that it hands over. Here are four of its 270 "
    "heads, with their own numbers.",
    link="A real head",
)  # fmt: skip
