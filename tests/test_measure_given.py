"""What `measure` says of real heads and layers: exact numbers against loops, sampled ones against brute force."""

import math

import numpy as np
import pytest

from assocmem import make_store
from assocmem.activations import Exp
from assocmem.contract.errors import InputError
from assocmem.contract.numbers import stream
from assocmem.lab.measure import measure
from assocmem.lab.opened import open_model
from assocmem.lab.plan import LabelledStore, Plan
from assocmem.lab.prepared import held
from assocmem.lab.rows import Rows
from assocmem.models.tracing import trace_text
from assocmem.ruler.estimate import summarise
from assocmem.stores.delta import DeltaNet
from assocmem.stores.mlp import MLP, GatedMLP
from assocmem.stores.softmax import SoftmaxAttention
from assocmem.theory import capacity
from trained import live_smollm2, smollm2

EXACT = 1e-9
TEXT = "The capital of France is Paris, and the capital of Italy is Rome; both lie on rivers."


def drawn(*name, shape):
    return stream(11, "measure", *name).standard_normal(shape)


def median(numbers):
    return sorted(numbers)[math.ceil(0.5 * len(numbers)) - 1]


def looped(q, k, beta, drop=()):
    """Ratios of causal queries that ask for their strongest key, among all that each sees, and how many others."""
    found = []
    for i, x in enumerate(q):
        logits = {j: beta * float(np.dot(k[j], x)) for j in range(i + 1) if j not in drop}
        if len(logits) > 1:
            t = max(logits, key=logits.get)
            found.append((sum(math.exp(2 * (s - logits[t])) for j, s in logits.items() if j != t), len(logits) - 1))
    return np.array(found)


class Unformed(SoftmaxAttention):
    """Softmax that does not tell its form: it must be sampled."""

    def form(self, d_k):
        return None


def check_heads(q, k, beta, m):
    found = measure(k, queries=q, targets="strongest", causal=True, drop=[0], stores=["softmax"], beta=beta,
                    memories=[m], workers=1)  # fmt: skip
    group = q.shape[1] // k.shape[1]
    for row in found.curve:
        loop = looped(q[row["layer"], row["head"]], k[row["layer"], row["head"] // group], beta, (0,))
        ratios = np.sqrt((m - 1) * loop[:, 0] / loop[:, 1])
        assert row["value"] == pytest.approx(median(ratios), rel=EXACT)
        assert row["rms"] == pytest.approx(math.sqrt(np.mean(ratios**2)), rel=EXACT)
        assert row["value"] != pytest.approx(median(ratios) * math.sqrt((m - 2) / (m - 1)), rel=1e-4)
    return found


def test_grouped_causal_heads_of_several_layers_in_one_call_equal_a_loop():
    q, k = drawn("q", shape=(2, 6, 12, 4)), drawn("k", shape=(2, 2, 12, 4))
    found = check_heads(q, k, 0.5, 8)
    assert [row["name"] for row in found.capacities] == [f"{layer}.{head}" for layer in range(2) for head in range(6)]
    assert found.over_heads()[0]["heads"] == 12
    assert len(found.over_heads()[0]["worst"].split(", ")) == 3


@pytest.mark.slow
@pytest.mark.xdist_group("smollm2")
def test_twelve_heads_and_three_mlps_of_smollm2_equal_a_loop_in_float64():
    trace = trace_text(live_smollm2(), TEXT)
    layers = [trace.layers[i] for i in (3, 10, 20)]
    q, k = (np.stack([getattr(x, name) for x in layers]).astype(float) for name in ("queries", "keys"))
    found = check_heads(q, k, layers[0].scaling, 12)
    assert len(found.capacities) == 27
    model = open_model(smollm2())
    for layer in (2, 7, 11):
        mlp = model.mlp(layer)
        check_mlp(mlp, mlp.norm.gain, slice(0, 200))


def check_mlp(mlp, gain, rows):
    """The median ratio of a layer's rows, asked by their own directions, against a loop over the weights."""
    layer = {"gates": None if mlp.gates is None else mlp.gates[rows],
             "biases": None if mlp.key_bias is None else mlp.key_bias[rows],
             "gate_biases": None if mlp.gate_bias is None else mlp.gate_bias[rows]}  # fmt: skip
    store = MLP(mlp.activation) if mlp.gates is None else GatedMLP(mlp.activation)
    found = measure(
        mlp.keys[rows], mlp.values[rows].T, transpose="values", gain=gain, stores=[store], workers=1, **layer
    )
    keys, values = mlp.keys[rows].astype(float) * gain, mlp.values[rows].astype(float)
    gates = None if mlp.gates is None else mlp.gates[rows].astype(float) * gain
    unit = [k / np.linalg.norm(k) + (0 if gates is None else g / np.linalg.norm(g))
            for k, g in zip(keys, keys if gates is None else gates, strict=True)]  # fmt: skip
    ratios = []
    for j, u in enumerate(unit):
        u = u / np.linalg.norm(u) * math.sqrt(len(u))
        s = keys @ u + (0 if layer["biases"] is None else layer["biases"])
        w = mlp.activation(s) if gates is None else s * mlp.activation(
            gates @ u + (0 if layer["gate_biases"] is None else layer["gate_biases"]))  # fmt: skip
        others = sum(w[i] * values[i] for i in range(len(w)) if i != j)
        ratios.append(np.linalg.norm(others) / (abs(w[j]) * np.linalg.norm(values[j])))
    assert found.curve[-1]["value"] == pytest.approx(median(ratios), rel=EXACT)


@pytest.mark.parametrize("name", ["llama", "gpt2", "bert"])
def test_rows_of_a_layer_are_read_with_gates_biases_and_gain(name, folder):
    check_mlp(open_model(folder(name)).mlp(1), np.linspace(0.5, 2, 32), slice(None))


def test_intervals_of_what_is_sampled_hold_also_where_tails_are_heavy():
    n, d, m, beta = 40, 8, 8, 1 / math.sqrt(8)
    one = LabelledStore(Unformed(beta), "u", "u")
    held_by_median, misleading = [], []
    for scale in (1.0, 2.0):
        keys = scale * drawn("tails", shape=(n, d))
        logits = beta * keys @ keys.T
        squares = np.exp(2 * (logits - np.diag(logits)[:, None])) * (1 - np.eye(n))
        rms = math.sqrt((m - 1) / (n - 1) * squares.sum(axis=1).mean())
        rng, middles = stream(11, "truth"), []
        for _ in range(4000):
            s = rng.permutation(n)[:m]
            middles.append(np.median(np.sqrt(squares[np.ix_(s, s)].sum(axis=1))))
        rows = Rows(keys, trials=24, asked=m)
        for seed in range(300):
            found = next(iter(rows.draw(Plan(rows, (one,), d, (m,), seed, d_v=2), 1, None))).numbers
            e, r = summarise(found, "median"), held(summarise(found, "rms"))
            held_by_median.append(e.low <= np.median(middles) <= e.high)
            misleading.append(r.low is not None and not r.low <= rms <= r.high)
    assert 0.92 <= np.mean(held_by_median[:300]) <= 0.98
    assert 0.92 <= np.mean(held_by_median[300:]) <= 0.98
    assert np.mean(misleading[:300]) <= 0.08
    assert np.mean(misleading[300:]) <= 0.05


def test_default_values_are_the_rms_over_values_for_every_store():
    keys = drawn("values", shape=(31, 8))
    keys /= np.linalg.norm(keys, axis=1, keepdims=True)
    found = measure(keys, stores=["softmax", ("sampled", Unformed(2.0)), ("exact", SoftmaxAttention(2.0)), "delta-net"],
                    memories=[31], workers=1)  # fmt: skip
    assert {row["estimator"] for row in found.curve} == {"weights"}
    sampled, exact = (next(row for row in found.curve if row["label"] == label) for label in ("sampled", "exact"))
    assert sampled["value"] == pytest.approx(exact["value"], rel=EXACT)  # all rows and all asked
    again = measure(keys, stores=["softmax"], seed=9, workers=1)
    assert again.capacities[0]["value"] == found.capacities[0]["value"]


def test_targets_do_not_depend_on_how_many_are_asked():
    keys, queries, targets = drawn("asked", shape=(20, 6)), drawn("asked q", shape=(9, 6)), np.arange(9)
    settings = {"queries": queries, "targets": targets, "stores": ["softmax", DeltaNet(0.1)], "normalise": True,
                "memories": [5], "workers": 1}  # fmt: skip
    few, many = (measure(keys, asked=asked, **settings).curve for asked in (1, 9))
    assert few == many
    rows = Rows(keys, queries=queries, targets=targets)
    met = [len(set(rows.subset(0, 5, trial, np.array([0]))[0]) & set(targets)) for trial in range(400)]
    assert np.mean(met) == pytest.approx(1 + 4 * 8 / 19, rel=0.1)  # one's own, and of the others their share


def test_preparations_leave_the_logits_of_real_queries_as_they_are():
    keys, queries = drawn("logits", shape=(60, 6)) + 2, drawn("logits q", shape=(60, 6)) + 1
    settings = {"queries": queries, "targets": "own", "stores": ["softmax"], "beta": 0.4, "workers": 1}
    kinds = ["raw", "centre", "whiten"]
    raw, centred, whitened = measure(keys, preparation=kinds, memories=[10], **settings).curve
    assert centred["value"] == pytest.approx(raw["value"], rel=1e-6)
    assert whitened["value"] == pytest.approx(raw["value"], rel=1e-6)
    own = measure(drawn("long", shape=(900, 6)) + 2, preparation=kinds, stores=["softmax"], workers=1).geometry
    squares = [g["norm_mean"] ** 2 + g["norm_std"] ** 2 for g in own]
    assert squares[1] == pytest.approx(squares[0], rel=0.25)
    assert squares[2] == pytest.approx(squares[0], rel=0.25)


def test_targets_and_masks_are_for_each_head():
    keys = drawn("heads", shape=(2, 10, 4))
    targets, mask = np.array([np.arange(10), np.arange(10)[::-1]]), drawn("mask", shape=(2, 10, 10)) > -1
    both = measure(keys, queries=keys, targets=targets, mask=mask, stores=["softmax"], memories=[4], workers=1).curve
    for head in range(2):
        alone = measure(keys[head], queries=keys[head], targets=targets[head], mask=mask[head], stores=["softmax"],
                        memories=[4], workers=1).curve[0]  # fmt: skip
        assert both[head]["value"] == alone["value"]
    assert both[0]["value"] != both[1]["value"]


def test_what_seems_to_contradict_itself_is_explained_and_no_number_is_absurd():
    keys = 30 * drawn("absurd", shape=(40, 8))
    row = measure(keys, stores=["softmax"], beta=1.0, statistic="rms", workers=1).capacities[0]
    assert "where the ratio is > 1e6: no other memory fits" in row["reason"]
    assert row["right_there"] > 0.5
    assert f"yet {row['right_there']:.0%} of choices" in row["note"]
    assert "one query holds" in row["note"]
    assert measure(keys, stores=["softmax"], beta=1.0, workers=1).capacities[0]["value"] is None


def test_values_in_columns_are_named_and_turned():
    keys, values = drawn("turn", shape=(20, 4)), drawn("turn v", shape=(20, 3))
    with pytest.raises(InputError, match=r"transpose='values', --transpose values"):
        measure(keys, values.T, stores=["relu"], workers=1)
    settings = {"stores": ["relu"], "workers": 1}
    assert measure(keys, values.T, transpose="values", **settings) == measure(keys, values, **settings)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"gates": np.ones((20, 4)), "preparation": "centre"}, "read as they are"),
        ({"gates": np.ones((20, 4)), "stores": ["softmax"]}, "a gate of their own; got softmax"),
        ({"gate_biases": np.ones(20)}, "`gate_biases` need `gates`"),
        ({"gain": np.ones(3)}, r"`gain` must be finite numbers of shape \(4,\)"),
        ({"transpose": "queries"}, "`transpose` must be among"),
        ({"names": ["a", "b"]}, "`names` must be 1 different ones"),
        ({"queries": np.ones((3, 4)), "targets": "own"}, "`targets` must name rows"),
        ({"statistic": "mode"}, "`statistic` must be one of"),
        ({"window": 3}, "beside causal=True"),
    ],
)
def test_settings_that_do_not_fit_are_refused(settings, words):
    with pytest.raises(InputError, match=words):
        measure(drawn("refused", shape=(20, 4)), workers=1, **settings)


def test_several_sharpnesses_are_stores_of_their_own():
    found = measure(drawn("betas", shape=(20, 4)), stores=["softmax", "relu"], beta=[1, 2.5], workers=1)
    assert [row["label"] for row in found.capacities] == ["softmax, beta 1", "softmax, beta 2.5", "relu"]


def test_the_commands_options_are_the_librarys(ask, tmp_path):
    q, k = drawn("cli q", shape=(1, 9, 12, 4)), drawn("cli", shape=(1, 3, 12, 4))
    np.save(tmp_path / "k.npy", k)
    np.save(tmp_path / "q.npy", q)
    words = ["measure", "--keys", tmp_path / "k.npy", "--queries", tmp_path / "q.npy", "--targets", "strongest",
             "--causal", "--window", 8, "--drop", 0, "--beta", "0.5,1", "--store", "softmax", "--statistic", "rms",
             "--memories", "4,8", "--trials", 3, "--asked", 2, "--fit-share", 0.25]  # fmt: skip
    found = measure(k, queries=q, targets="strongest", causal=True, window=8, drop=[0], beta=[0.5, 1.0],
                    stores=["softmax"], statistic="rms", memories=[4, 8], workers=1)  # fmt: skip
    data = ask(*words, "--json").json
    assert [row["value"] for row in data["curve"]] == [row["value"] for row in found.curve]
    assert data["over_heads"][0]["worst"] == found.over_heads()[0]["worst"]
    said = ask(*words).out
    assert "worst" in said
    assert said.count("softmax, beta 0.5") == 1


def test_the_commands_options_for_layers_masks_and_names_are_the_librarys(ask, tmp_path):
    """Each option by itself: what the command prints is what the library says, and not what it says without it."""
    n, d = 12, 6
    rows = {"keys": drawn("o k", shape=(2, n, d)), "values": drawn("o v", shape=(2, n, 5)),
            "gates": drawn("o g", shape=(2, n, d)), "biases": drawn("o b", shape=(2, n)),
            "gate_biases": drawn("o c", shape=(2, n)), "gain": np.linspace(0.5, 2, d),
            "mask": np.tril(np.ones((n, n), bool)), "queries": drawn("o q", shape=(2, n, d))}  # fmt: skip
    files = {name: tmp_path / f"{name}.npy" for name in rows}
    for name, x in rows.items():
        np.save(files[name], x)
        np.save(tmp_path / f"{name}.T.npy", np.swapaxes(x, -1, -2) if x.ndim > 1 else x)

    def found(store, *options, **settings):
        base = {"stores": [store], "memories": [4], "workers": 1}
        words = ["measure", "--keys", files["keys"], "--store", store, "--memories", 4]
        told = ask(*words, *options, "--json").json["curve"]
        with_it = measure(rows["keys"], **base, **settings).curve
        assert [row["value"] for row in told] == [row["value"] for row in with_it]
        return told, [row["value"] for row in measure(rows["keys"], **base).curve]

    asked = {"queries": rows["queries"], "targets": "own"}
    words = ("--queries", files["queries"], "--targets", "own")
    for store, options, settings in (
        ("softmax", (*words, "--mask", files["mask"]), {**asked, "mask": rows["mask"]}),
        ("swiglu", ("--gates", files["gates"]), {"gates": rows["gates"]}),
        ("swiglu", ("--gates", files["gates"], "--gate-biases", files["gate_biases"]),
         {"gates": rows["gates"], "gate_biases": rows["gate_biases"]}),
        ("gelu", ("--biases", files["biases"]), {"biases": rows["biases"]}),
        ("gelu", ("--gain", files["gain"]), {"gain": rows["gain"]}),
    ):  # fmt: skip
        told, without = found(store, *options, **settings)
        assert [row["value"] for row in told] != without, options
    plain = measure(rows["keys"], rows["values"], gates=rows["gates"], stores=["swiglu"], memories=[4], workers=1).curve
    turned = ["measure", "--store", "swiglu", "--memories", 4]
    for name in ("keys", "values", "gates"):
        turned += [f"--{name}", tmp_path / f"{name}.T.npy", "--transpose", name]
    assert [row["value"] for row in ask(*turned, "--json").json["curve"]] == [row["value"] for row in plain]
    named, _ = found("softmax", "--names", "left,right")
    assert [row["name"] for row in named] == ["left", "right"]
    for options, words in (
        (("--transpose", "queries"), "transpose"), (("--names", "one"), "names"), (("--mask", files["gain"]), "mask"),
        (("--gain", files["biases"]), "gain"), (("--gate-biases", files["biases"]), "need `--gates`"),
    ):  # fmt: skip
        told = ask("measure", "--keys", files["keys"], *options)
        assert told.status == 2, options
        assert words in told.err
        assert told.err.count("\n") == 1


def test_what_is_not_reached_is_extrapolated_with_an_interval_and_with_what_speaks_against_it():
    """On uniform keys theory says where it is reached; seeds fixed beforehand, one interval of 95 % widened twice."""
    rows = drawn("uniform", shape=(300, 24))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    (one,) = measure(rows, stores=["softmax"], beta=3.5, statistic="rms", workers=1).capacities
    truth = capacity(Exp(3.5), 24).value
    assert one["value"] is None
    assert "extrapolated to more rows of the same kind" in one["reason"]
    assert one["beyond_low"] < one["beyond"] < one["beyond_high"]
    assert 2 * one["beyond_low"] - one["beyond"] < truth < 2 * one["beyond_high"] - one["beyond"]
    near = np.repeat(rows[:30], 10, axis=0) + 0.3 * drawn("runs", shape=(300, 24)) / math.sqrt(24)
    (runs,) = measure(near, stores=["softmax"], beta=3.5, statistic="rms", threshold=50.0, workers=1).capacities
    assert "rows near each other interfere more" in runs["note"]
    assert "rows near each other" not in one["note"]
    (grown,) = measure(rows, stores=["softmax"], beta=3.5, statistic="mean", threshold=9.0, workers=1).capacities
    assert grown["beyond_low"] is None


def test_theory_says_what_the_mean_and_the_spectrum_of_keys_explain():
    """Normal keys: capacities by rms, that theory finds from the rows' mean and covariance, within 5 % of the rows'."""
    mean, deviations = np.full(32, 0.7), np.arange(1, 33.0) ** -0.5
    keys = mean * np.sqrt(np.mean(deviations**2)) + drawn("law", shape=(3000, 32)) * deviations
    for normalise, stores in ((True, ["outer-product", "squared-relu", "relu", "gelu"]), (False, ["relu", "gelu"])):
        found = measure(keys, stores=stores, normalise=normalise, statistic="rms", workers=1)
        said = {row["label"]: row.get("theory") for row in found.capacities}
        for row in found.capacities:
            if normalise or row["label"] == "relu":
                assert row["value"] == pytest.approx(said[row["label"]], rel=0.05)
                assert (
                    abs(row["value"] / capacity(make_store(row["label"]).form(32), 32).value - 1) > 0.3
                )  # uniform keys
        assert "by theory, normal ones with their mean and covariance would hold" in found.words[-1]
    assert said["gelu"] is None  # raw keys have no length that its logits could be read in
    others = drawn("queries", shape=(50, 32))
    asked = measure(keys, queries=others, targets="strongest", stores=["outer-product"], workers=1)
    assert asked.capacities[0].get("theory") is None
    assert measure(np.stack([keys[:200]] * 5), stores=["relu"], workers=1).capacities[0].get("theory") is None


def test_a_store_that_fails_has_no_capacity_and_a_law_that_fails_ends_the_run():
    keys = 4 * drawn("long", shape=(300, 16))
    with pytest.warns(UserWarning, match="DeltaNet"):
        found = measure(keys, stores=["delta-net"], workers=1).capacities[0]
    assert (found["value"], found["low"]) == (None, None)
    assert "DeltaNet diverged at pair" in found["reason"]
    with pytest.raises(InputError, match="the law of `strength` must stay in its range"):
        measure(keys, stores=["delta-net"], normalise=True, extras={"strength": 5}, workers=1)


def test_keys_at_the_edge_of_what_can_be_measured_are_told_of_in_words():
    keys = drawn("edge", shape=(64, 8))
    with pytest.raises(InputError, match="hide every row from every query"):
        measure(keys, drop=list(range(64)), workers=1)
    zero = np.vstack([keys, np.zeros(8)])
    words = measure(zero, stores=["outer-product"], workers=1).words[-1]
    assert "(these at most 2 by rms)" in words  # the zero row recalls nothing, so that the rms ratio is infinite
    tiny = measure(keys * 1e-200, stores=["outer-product"], workers=1).capacities[0]
    assert tiny["theory"] == pytest.approx(measure(keys, stores=["outer-product"], workers=1).capacities[0]["theory"])
