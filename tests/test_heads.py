"""Heads and MLPs of trained networks as memories, against independent loops in float64 and against the stores."""

import math
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import polars as pl
import pytest

import assocmem
from assocmem.contract.errors import FileFormatError, InputError, NonFiniteError
from assocmem.contract.numbers import stream
from assocmem.lab.heads import COLUMNS, Spread, heads_of_trace, measure_attention
from assocmem.lab.longer_texts import CONTEXT_COLUMNS
from assocmem.lab.mlps import COLUMNS as MLP_COLUMNS
from assocmem.lab.mlps import copying_share, measure_mlp, mlp_words, own_directions, strongest_rows
from assocmem.lab.opened import open_model
from assocmem.models.tracing import LiveModel, trace_text
from assocmem.ruler import quantile
from assocmem.theory import design
from trained import live_smollm2, minilm, needed, random_network, smollm2

SENTENCE = "The capital of France is Paris, and the capital of Italy is Rome; both lie on rivers."
EXACT = 1e-9


def drawn(*name, shape):
    return stream(3, "heads", *name).standard_normal(shape)


def looped(layer, head, drop, scale=1.0):
    """Squared ratio of each query of a traced head among all keys that it sees, and their number, in a float64 loop."""
    q = layer.queries[head].astype(float)
    k = layer.keys[head // (len(layer.queries) // len(layer.keys))].astype(float)
    squares, others = [], []
    for i, x in enumerate(q):
        seen = [j for j in range(len(k)) if j not in drop and (layer.seen is None or layer.seen[i, j])]
        logits = {j: layer.scaling * float(np.dot(k[j], x)) for j in seen}
        if layer.softcap:
            logits = {j: layer.softcap * math.tanh(s / layer.softcap) for j, s in logits.items()}
        if len(seen) < 2:
            continue
        target = max(logits, key=logits.get)
        squares.append(sum(math.exp(2 * scale * (s - logits[target])) for j, s in logits.items() if j != target))
        others.append(len(seen) - 1)
    return np.array(squares), np.array(others)


def by_quantile(numbers, q):
    return sorted(numbers)[max(0, math.ceil(q * len(numbers)) - 1)]


def check_row(row, squares, others):
    capacities = 1 + others / squares
    assert row["asked"] == len(squares)
    assert row["ratio"] == pytest.approx(by_quantile(np.sqrt(squares), 0.5), rel=EXACT)
    assert row["ratio_p90"] == pytest.approx(by_quantile(np.sqrt(squares), 0.9), rel=EXACT)
    assert row["ratio_rms"] == pytest.approx(math.sqrt(np.mean(squares)), rel=EXACT)
    assert row["heaviest"] == pytest.approx(squares.max() / squares.sum(), rel=EXACT)
    assert row["past_capacity"] == pytest.approx(np.mean(squares > 1), rel=EXACT)
    for name, q in (("capacity", 0.5), ("capacity_p10", 0.1), ("capacity_p90", 0.9)):
        assert row[name] == pytest.approx(by_quantile(capacities, q), rel=EXACT)


def test_twelve_heads_of_minilm_equal_a_loop_in_float64():
    needed("transformers")
    heads = open_model(minilm()).trace(SENTENCE, layers=[3])
    trace = open_model(minilm()).captured(SENTENCE)
    assert heads.notes[0] == "a query asks for its strongest key; no key is left out"
    for head in range(12):
        check_row(heads.results().rows[head], *looped(trace.layers[3], head, ()))
        weights = np.exp(trace.layers[3].scaling * trace.layers[3].queries[head] @ trace.layers[3].keys[head].T)
        mass = weights[:, 0] / weights.sum(axis=1)
        assert heads.results().rows[head]["sink_mass"] == pytest.approx(by_quantile(mass, 0.5), rel=1e-4)


@pytest.mark.parametrize("name", ["llama", "gemma2", "mistral"])
def test_heads_of_causal_networks_equal_a_loop_in_float64(name):
    trace = trace_text(LiveModel(random_network(name)), np.arange(3, 33))
    heads = heads_of_trace(trace)
    assert heads.notes[0] == "a query asks for its strongest key; left out: key 0"
    assert heads.table().shape == (12, len(COLUMNS))
    for row in heads.results().rows:
        check_row(row, *looped(trace.layers[row["layer"]], row["head"], (0,)))
    one = heads.head(1, 3)
    squares, others = looped(trace.layers[1], 3, (0,), scale=1.5)
    truth = np.sqrt(99 / others * squares)
    assert one.ratio(m=100, scale=1.5).median == pytest.approx(by_quantile(truth, 0.5), rel=EXACT)
    assert one.capacity(scale=1.5).p10 == pytest.approx(by_quantile(1 + others / squares, 0.1), rel=EXACT)


@pytest.mark.slow
@pytest.mark.xdist_group("smollm2")
def test_twelve_heads_of_smollm2_equal_a_loop_in_float64():
    trace = trace_text(live_smollm2(), SENTENCE)
    model = open_model(smollm2())
    heads = heads_of_trace(trace)
    assert heads.table().height == 270
    for row in heads.results().rows[5::23][:12]:
        check_row(row, *looped(trace.layers[row["layer"]], row["head"], (0,)))
    found = heads.contexts([4096], reference=8192).where(layer=10, head=4)
    assert found.where(rule="yarn").rows[0]["factor"] == 1.0
    assert found.where(rule="log-n").rows[0]["factor"] == pytest.approx(math.log(4096) / math.log(8192))
    assert copying_share(model.attention(10), 4, model.embedding, asked=20) <= 1


def test_captured_arrays_are_measured_in_two_three_or_four_axes():
    q, k, v = drawn("q", shape=(2, 6, 20, 8)), drawn("k", shape=(2, 3, 20, 8)), drawn("v", shape=(2, 3, 20, 5))
    whole = measure_attention(q, k, v, tokens=[f"t{i}" for i in range(20)])
    for layer, head in ((0, 0), (1, 5)):
        layers = measure_attention(q[layer], k[layer], v[layer]).results().rows[head]
        alone = measure_attention(q[layer, head], k[layer, head // 2], v[layer, head // 2]).results().rows[0]
        row = whole.results().where(layer=layer, head=head).rows[0]
        assert {**row, "layer": 0} == layers
        assert {**row, "layer": 0, "head": 0, "key_head": 0} == alone
    assert whole.notes[1] == "interference of the values given"
    assert "interference over random values" in measure_attention(q, k).notes[1]
    torch = pytest.importorskip("torch")
    assert (
        measure_attention(torch.asarray(q), torch.asarray(k), torch.asarray(v)).results().rows == whole.results().rows
    )


def test_masks_and_targets_are_for_all_or_for_each_head():
    q, k = drawn("mask q", shape=(2, 4, 12, 8)), drawn("mask k", shape=(2, 4, 12, 8))
    masks = stream(3, "masks").random((2, 4, 12, 12)) < 0.7
    targets = stream(3, "targets").integers(0, 12, (2, 4, 12))
    each = measure_attention(q, k, mask=masks, target=targets, causal=False)
    for layer, head in ((0, 1), (1, 3)):
        alone = measure_attention(
            q[layer, head], k[layer, head], mask=masks[layer, head], target=targets[layer, head], causal=False
        )
        assert each.head(layer, head).ratio() == alone.head(0, 0).ratio() == each.head(layer, head).ratio(scale=1.0)
    assert each.notes[0] == "a query asks for the key that was named for it; no key is left out"
    with pytest.raises(InputError, match="`mask` must have the shape"):
        measure_attention(q, k, mask=masks[:, :3])


def test_the_next_tokens_key_is_where_it_last_stood():
    tokens = ["a", "b", "a", "c", "a", "b"]
    q, k = drawn("next q", shape=(6, 4)), drawn("next k", shape=(6, 4))
    causal = measure_attention(q, k, tokens=tokens, target="next", drop=())
    # before "a" comes again at 2 and 4, and "b" at 5; "c" never stood before
    assert causal.head(0, 0).targets().tolist() == [-1, 0, -1, 2, 1, -1]
    both = measure_attention(q, k, tokens=tokens, target="next", causal=False)
    assert both.head(0, 0).targets().tolist() == [1, 2, 3, 4, 5, -1]
    with pytest.raises(InputError, match="needs the tokens"):
        measure_attention(q, k, target="next")


def test_collisions_name_what_asks_and_what_it_meets():
    tokens = [f"t{i}" for i in range(9)]
    heads = measure_attention(drawn("c q", shape=(9, 4)), drawn("c k", shape=(9, 4)), tokens=tokens, causal=False)
    found = heads.head(0, 0).collisions(7)
    assert found.shape == (7, 8)
    assert found["weight"].is_sorted(descending=True)
    row = found.row(0, named=True)
    logits = drawn("c k", shape=(9, 4)) @ drawn("c q", shape=(9, 4))[row["query"]] / 2
    a = np.exp(logits - logits[row["asks"]])
    assert row["asks"] == int(np.argmax(logits))
    assert row["weight"] == pytest.approx(a[row["meets"]], rel=EXACT)
    assert row["share"] == pytest.approx(a[row["meets"]] ** 2 / (np.sum(a**2) - 1), rel=EXACT)
    assert (row["query_token"], row["meets_token"]) == (f"t{row['query']}", f"t{row['meets']}")
    assert heads.head(0, 0).collisions(1000).height == 72


def test_rules_for_longer_texts_scale_logits_by_their_formulas():
    q, k = drawn("ctx q", shape=(3, 40, 16)) * 2, drawn("ctx k", shape=(3, 40, 16))
    heads = measure_attention(q, k)
    table = heads.contexts([64, 4096], reference=512)
    assert set(table.columns) == set(CONTEXT_COLUMNS)
    assert len(table.rows) == 3 * 2 * 6
    factors = {(row["rule"], row["n_memories"]): row["factor"] for row in table.where(head=1).rows}
    log = math.log(512)
    assert factors["as it is", 64] == factors["qwen", 64] == factors["yarn", 64] == 1.0
    assert factors["log-n", 64] == pytest.approx(math.log(64) / log)
    assert factors["qwen", 4096] == factors["log-n", 4096] == pytest.approx(math.log(4096) / log)
    assert factors["yarn", 4096] == pytest.approx((0.1 * math.log(8) + 1) ** 2)
    at_reference = heads.head(0, 1).factor(512).median
    assert factors["ssmax", 4096] == pytest.approx(at_reference * math.log(4096) / log)
    for row in table.where(head=1).rows:
        if row["rule"] != "needed":
            again = heads.head(0, 1).ratio(m=row["n_memories"], scale=row["factor"]).median
            assert row["ratio"] == pytest.approx(again, rel=EXACT)
        assert row["random_keys"] == pytest.approx(design(16, row["n_memories"], 1.0).sharpness / 4)
    needed_factor = factors["needed", 4096]
    assert heads.head(0, 1).ratio(m=4096, scale=needed_factor).median == pytest.approx(1.0, rel=1e-6)


def test_a_head_that_no_factor_serves_has_none():
    heads = measure_attention(drawn("own q", shape=(30, 4)), drawn("own k", shape=(30, 4)), target="own")
    row = heads.contexts([100000]).where(rule="needed").rows[0]
    assert (row["factor"], row["ratio"]) == (None, None)
    assert heads.head(0, 0).factor(1e5).median == math.inf


def test_a_map_is_a_chart_of_one_column():
    heads = measure_attention(drawn("map q", shape=(2, 3, 20, 8)), drawn("map k", shape=(2, 3, 20, 8)))
    spec = heads.map("capacity").to_dict()
    assert spec["encoding"]["color"]["field"] == "capacity"
    assert spec["encoding"]["y"]["field"] == "layer"
    with pytest.raises(InputError, match="must be a column of the table; got 'loudness'"):
        heads.map("loudness")


def test_reports_are_sentences_also_where_nothing_can_be_asked():
    heads = measure_attention(drawn("words q", shape=(20, 8)), drawn("words k", shape=(20, 8)))
    words = heads.head(0, 0).report()
    assert "Layer 0, head 0 (key store 0): 18 queries on 19 keys" in words
    assert "capacity" in words.lower()
    nothing = measure_attention(np.ones((2, 4)), np.ones((2, 4)))
    assert nothing.head(0, 0).report() == "Layer 0, head 0: no query has a target and sees other keys."
    assert nothing.results().rows[0]["ratio"] is None


def test_rows_are_kept_layer_by_layer():
    heads = measure_attention(drawn("kept q", shape=(4, 2, 20, 8)), drawn("kept k", shape=(4, 2, 20, 8)))
    steps = []

    def stop(done, total):
        steps.append((done, total))
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        heads.results(workers=1, progress=stop)
    assert steps == [(1, 4), (2, 4)]
    assert [row["layer"] for row in heads.kept().rows] == [0, 0, 1, 1]
    assert len(heads.results(workers=2).rows) == 8


def test_quantiles_are_numbers_of_queries_and_leave_out_those_without():
    assert quantile(np.array([[3.0, np.nan, 1.0, 2.0], [np.inf, 1.0, 5.0, 0.0]]), 0.5).tolist() == [2.0, 1.0]
    assert Spread.of(np.array([np.nan, 4.0])) == Spread(4.0, 4.0, 4.0)
    assert math.isnan(Spread.of(np.array([np.nan])).median)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"q": np.ones(3)}, "`q` must have the axes"),
        ({"k": np.ones((2, 1, 4, 3))}, "must have the same layers"),
        ({"tokens": ["a"]}, "`tokens` must be 4, one for every key"),
        ({"target": np.zeros(3, int)}, "`target` must be 4 whole numbers"),
        ({"drop": [9]}, "`drop` must hold positions"),
    ],
)
def test_arrays_that_do_not_fit_are_refused_in_a_sentence(settings, words):
    with pytest.raises(InputError, match=words):
        measure_attention(**{"q": np.ones((4, 3)), "k": np.ones((4, 3)), **settings})


def test_heads_and_layers_out_of_range_are_refused():
    heads = measure_attention(drawn("range", shape=(2, 3, 9, 4)), drawn("range k", shape=(2, 3, 9, 4)))
    with pytest.raises(InputError, match="`layer` must be one of 0, 1"):
        heads.head(2, 0)
    for head in (-1, 3, 0.0):
        with pytest.raises(InputError, match=r"`head` must lie in \[0, 3\)"):
            heads.head(0, head)
    with pytest.raises(InputError, match="`count` must be a whole number"):
        heads.head(0, 0).collisions(0)
    with pytest.raises(InputError, match="`reference` must be a number of keys >= 2"):
        heads.contexts([4096], reference=1)
    with pytest.raises(InputError, match="`n_memories` must be a number >= 2"):
        heads.contexts([1])
    with pytest.raises(NonFiniteError, match="must be finite"):
        measure_attention(np.full((3, 2), np.nan), np.ones((3, 2)))


# ---------------------------------------------------------------------- MLPs


@pytest.mark.parametrize("name", ["llama", "gpt2", "bert", "gemma2", "vit"])
def test_an_mlp_is_a_memory_that_recalls_what_the_layer_computes(name, folder):
    model = open_model(folder(name))
    mlp, x = model.mlp(1), drawn("mlp", shape=(5, 32)).astype(np.float32)
    recalled = model.memory(1).recall(mlp.queries(x)) + (0 if mlp.value_bias is None else mlp.value_bias)
    assert recalled == pytest.approx(mlp(x), rel=1e-4, abs=1e-4)
    assert len(model.memory(1)) == len(mlp.keys)


@pytest.mark.parametrize("name", ["llama", "gpt2", "bert"])
def test_three_mlp_layers_equal_a_loop_in_float64(name, folder):
    model = open_model(folder(name))
    for layer in range(3):
        mlp = model.mlp(layer)
        row, n = measure_mlp(mlp), len(mlp.keys)
        x = own_directions(mlp)
        keys, values = mlp.keys.astype(float), mlp.values.astype(float)
        s = x @ keys.T + (0 if mlp.key_bias is None else mlp.key_bias)
        if mlp.gates is None:
            weights = mlp.activation(s)
        else:
            weights = (
                mlp.activation(x @ mlp.gates.T.astype(float) + (0 if mlp.gate_bias is None else mlp.gate_bias)) * s
            )
        ratios, by_values, right = [], [], []
        for j in range(n):
            others = [i for i in range(n) if i != j]
            ratios.append(math.sqrt(sum(weights[j, i] ** 2 for i in others)) / abs(weights[j, j]))
            interference = sum(weights[j, i] * values[i] for i in others)
            by_values.append(np.linalg.norm(interference) / (abs(weights[j, j]) * np.linalg.norm(values[j])))
            right.append(abs(weights[j, j]) == np.abs(weights[j]).max())
        assert row["ratio"] == pytest.approx(by_quantile(ratios, 0.5), rel=1e-6)
        assert row["ratio_values"] == pytest.approx(by_quantile(by_values, 0.5), rel=1e-6)
        assert row["recalled"] == pytest.approx(np.mean(right))
        assert set(row) == set(MLP_COLUMNS)


def test_what_an_mlp_does_on_a_text_is_counted(folder):
    mlp = open_model(folder("llama")).mlp(0)
    x = drawn("text", shape=(7, 32))
    row = measure_mlp(mlp, x, asked=10)
    gates = x @ mlp.gates.T + mlp.gate_bias
    assert row["asked"] == 10
    assert row["active"] == pytest.approx(np.mean(gates > 0))
    energy = np.sort((mlp.weights(x) * np.linalg.norm(mlp.values, axis=1)) ** 2, axis=1)[:, ::-1]
    counts = [next(i + 1 for i in range(48) if e[: i + 1].sum() >= 0.9 * e.sum()) for e in energy]
    assert row["rows_90"] == np.median(counts)
    assert "rows act" in mlp_words(row)
    assert "rows act" not in mlp_words(measure_mlp(mlp))
    with pytest.raises(InputError, match="`asked` must be a whole number"):
        measure_mlp(mlp, asked=0)


def test_the_strongest_rows_say_what_triggers_them(folder):
    model = open_model(folder("llama"))
    mlp, x, tokens = model.mlp(0), drawn("text", shape=(7, 32)), list("abcdefg")
    found = strongest_rows(mlp, x, tokens, model.embedding, 4)
    shares = [row["share"] for row in found]
    assert shares == sorted(shares, reverse=True)
    first = found[0]
    place = int(np.argmax(np.abs(mlp.weights(x)[:, first["row"]])))
    assert first["triggers"][0] == "".join(tokens[max(0, place - 2) : place + 1])
    assert len(first["says"]) == 5
    assert strongest_rows(mlp, x, tokens, None, 1)[0]["says"] == []


def test_a_head_that_copies_is_told_from_one_that_does_not(folder):
    from dataclasses import replace

    model = open_model(folder("gpt2"))
    embedding, attention = model.embedding, model.attention(0)
    rows = embedding.rows / np.linalg.norm(embedding.rows, axis=1, keepdims=True)
    embedding = replace(embedding, rows=rows, unembedding=rows)
    d = rows.shape[1]
    copying = replace(attention, norm=None, W_V=np.eye(d)[None], W_O=np.eye(d)[None], W_Q=attention.W_Q[:1],
                      W_K=attention.W_K[:1])  # fmt: skip
    assert copying_share(copying, 0, embedding) == 1.0
    assert copying_share(replace(copying, W_O=-copying.W_O), 0, embedding) == 0.0
    assert copying_share(attention, 2, embedding) < 0.3
    with pytest.raises(InputError, match=r"`head` must lie in \[0, 4\)"):
        copying_share(attention, 4, embedding)


def test_a_model_is_opened_from_the_top_of_the_package(folder):
    model = assocmem.open_model(folder("llama"))
    assert (model.n_layers, model.note) == (3, "")
    heads = model.trace(np.arange(3, 20), layers=[1, 2])
    assert heads.table()["layer"].unique().sort().to_list() == [1, 2]
    assert heads.reference == 64
    assert model.live is model.live
    assert heads.table().equals(assocmem.open_model(folder("llama")).trace(np.arange(3, 20), layers=[1, 2]).table())
    with pytest.raises(InputError, match=r"`layers` must lie in \[0, 3\)"):
        model.trace(np.arange(3, 20), layers=[3])
    with pytest.raises(FileFormatError, match="there is no file or folder"):
        assocmem.open_model("nowhere")
    assert isinstance(heads.table(), pl.DataFrame)


def test_values_of_the_heads_give_the_ratio_of_vectors(folder):
    model = open_model(folder("qwen2"))
    trace = model.captured(np.arange(3, 20))
    with_values = heads_of_trace(trace, values=True).head(1, 2)
    layer = trace.layers[1]
    q, k, v = layer.queries[2].astype(float), layer.keys[1].astype(float), layer.values[1].astype(float)
    a = np.exp(layer.scaling * k[1:17] @ q[16])
    t = int(np.argmax(a))
    interference = sum(a[i] * v[1 + i] for i in range(16) if i != t)
    truth = np.linalg.norm(interference) / (a[t] * np.linalg.norm(v[1 + t]))
    assert with_values.ratios().ratio()[16] == pytest.approx(truth, rel=EXACT)


def test_heads_are_measured_by_any_executor_and_print_what_they_hold():
    q, k = np.random.default_rng(3).standard_normal((2, 2, 2, 30, 8))
    with ProcessPoolExecutor(1) as pool:
        found = measure_attention(q, k).results(workers=pool)
    assert found.rows == measure_attention(q, k).results(workers=1).rows
    assert len(found) == 4
    assert "capacity" in str(found)
