"""`design` on given keys: the million from thousands of rows, against laws where a million is drawn or known."""

import json
import math

import numpy as np
import pytest

import assocmem
from assocmem.contract.errors import InputError
from assocmem.contract.numbers import stream
from assocmem.inputs import Clustered, EqualCosine
from assocmem.lab.extrapolation import capacity_of, estimate, growth, held_out, parts_for
from assocmem.ruler import GivenRows, quantile
from assocmem.theory import ratio as theory_ratio

MILLION = 1e6


def unit(rows):
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


def realistic(name, d=128, share=0.8):
    """Return a law, `draw(rng, n)`: key = mean + z, |mean| = share sqrt(d), z of deviations i^-1/2 on turned axes."""
    rng = stream(11, "realistic", name)
    axes, _ = np.linalg.qr(rng.standard_normal((d, d)))
    deviations = np.arange(1, d + 1) ** -0.5
    root = axes * deviations * math.sqrt(d / np.sum(deviations**2))
    mean = share * math.sqrt(d) * unit(rng.standard_normal(d))
    return lambda rng, n: unit(mean + rng.standard_normal((n, d)) @ root.T)


def of(table, quantity, rule="as it is", statistic="rms", head=0):
    return next(
        row for row in table.rows
        if (row["quantity"], row["rule"], row["statistic"], row["head"]) == (quantity, rule, statistic, head)
    )  # fmt: skip


def test_a_million_from_8192_realistic_keys():
    """Simulated for six draws of mean and axes: 16.5 to 16.9 for a million, 27,600 to 31,800 at 11.31 (median query
    35,700 to 40,400); 5 % and 15 % beside that."""
    keys = realistic("first")(stream(11, "rows"), 8192)
    found = assocmem.design(keys=keys, n_memories=MILLION, beta=11.31, rules=(), asked=2048)
    needed, served, median = (
        of(found, "sharpness", "needed"), of(found, "capacity"), of(found, "capacity", statistic="median")
    )  # fmt: skip
    assert 0.95 * 16.5 < needed["value"] < 1.05 * 16.9
    assert 0.85 * 27_600 < served["value"] < 1.15 * 31_800
    assert 0.85 * 35_700 < median["value"] < 1.15 * 40_400
    assert needed["extrapolated"]
    assert served["extrapolated"]
    assert needed["low"] < needed["value"] < needed["high"] < 1.05 * needed["low"]
    assert served["uniform"] > 1e4 * served["value"]  # what was said of such keys without looking at them
    # Normal keys with the same mean and covariance, by theory: what explains most of the four orders of magnitude.
    assert 0.6 < served["value"] / served["theory"] < 1
    assert needed["theory"] == pytest.approx(needed["value"], rel=0.05)
    assert served["theory_exact"] is False
    words = " ".join(found.words)
    assert "Normal keys with the same mean and covariance would approximately serve M = " in words
    assert "extrapolated" in words
    assert "8,192 given keys of width 128" in words
    assert "for 2,048 queries drawn among them" in words
    assert "Warning" not in words


def drawn_million(law, queries, beta):
    """Return each query's mean of a^2 over a million drawn keys."""
    rng, total = stream(12, "million"), 0.0
    for _ in range(20):
        keys = law(rng, 50_000).astype(np.float32)
        total = total + np.exp(2 * beta * (keys @ queries.T.astype(np.float32) - 1)).mean(axis=0, dtype=np.float64)
    return total / 20


def mixed(rng, n, d=24):
    """Equal cosine and a spectrum: a shared direction with 0.3 of the squared length, decaying deviations beside it."""
    rest = unit(rng.standard_normal((n, d - 1)) * np.arange(1, d) ** -0.5)
    return np.concatenate([np.full((n, 1), math.sqrt(0.3)), math.sqrt(0.7) * rest], axis=1)


CENTRES = unit(stream(12, "centres").standard_normal((40, 24)))


def clustered(rng, n):
    noise = rng.standard_normal((n, 24)) / math.sqrt(24)
    return unit(CENTRES[rng.integers(0, 40, n)] + 0.6 * noise)


@pytest.mark.parametrize("law", [mixed, clustered])
def test_a_million_from_a_thousand_keys(law):
    """Error rate: four standard errors, of the design's 1,024 queries and of the truth's 100."""
    beta, rows = 5.0, law(stream(12, "rows"), 1024)
    found = assocmem.design(keys=rows, n_memories=MILLION, beta=beta, rules=())
    squares = drawn_million(law, law(stream(12, "queries"), 100), beta)
    truth = math.sqrt((MILLION - 1) * squares.mean())
    said = of(found, "ratio")
    error = math.log(said["high"] / said["low"]) / (2 * 2.13)
    assert error < 0.06
    both = math.hypot(error, 0.05 * squares.std() / squares.mean())
    assert abs(math.log(said["value"] / truth)) < 4 * both
    assert abs(math.log(said["value"] ** 2 / truth)) > 4 * both  # a mean square taken for the ratio
    assert of(found, "capacity")["value"] == pytest.approx(1 + (MILLION - 1) / said["value"] ** 2, rel=1e-9)


def test_intervals_cover_what_they_say():
    """Equal cosine, whose mean square is known for any number. Where every query has the same mean square, as there,
    the jackknife of a mean over pairs takes its variance twice: 95 % intervals hold at least 95 % of 300 draws."""
    law, beta, inside = EqualCosine(0.3), 4.0, 0
    truth = theory_ratio(assocmem.activations.Exp(beta), 16, MILLION, law="equal-cosine", rho=0.3).log_value
    for trial in range(300):
        rows = GivenRows(law.draw(stream(13, "keys", trial), 96, 16), scaling=beta)
        part = rows.part_of(parts_for(96))
        folds = held_out(rows.folds(parts_for(96))[0], part)
        said = estimate(folds, lambda r: 0.5 * r.over_queries().log_mean_square(MILLION)[..., 0])
        inside += math.log(said.low) < truth < math.log(said.high)
    assert inside / 300 >= 0.95


def test_intervals_cover_where_queries_differ():
    """Normal keys with a mean and a spectrum, whose mean square is known: 92 to 98 % of 300 intervals hold it."""
    mean, variances = np.array([1.0, 0.5] + [0.0] * 10), 1.0 / np.arange(1, 13)
    scale, beta, inside = math.sqrt(float(np.sum(mean**2 + variances))), 2.0, 0
    truth = theory_ratio(assocmem.activations.Exp(beta), 12, MILLION, law="spectrum", eigenvalues=variances, mean=mean)
    for trial in range(300):
        drawn = mean + stream(13, "normal", trial).standard_normal((160, 12)) * np.sqrt(variances)
        rows = GivenRows(drawn / scale, scaling=beta)
        folds = held_out(rows.folds(16)[0], rows.part_of(16))
        said = estimate(folds, lambda r: 0.5 * r.over_queries().log_mean_square(MILLION)[..., 0])
        inside += math.log(said.low) < truth.log_value < math.log(said.high)
    assert 0.92 <= inside / 300 <= 0.98


def test_what_speaks_against_more_of_the_same():
    rng = stream(14, "clusters")
    centres = unit(rng.standard_normal((64, 16)))
    run_by_run = unit(np.repeat(centres, 8, axis=0) + 0.12 * rng.standard_normal((512, 16)))
    mixed_up = run_by_run[rng.permutation(512)]
    words = {
        name: " ".join(assocmem.design(keys=keys, n_memories=MILLION, beta=4.0, rules=()).words)
        for name, keys in {
            "mixed up": mixed_up,
            "run by run": run_by_run,
            "copied": np.concatenate([mixed_up, mixed_up[:64]]),
        }.items()
    }
    served, doubts = capacity_of(GivenRows(run_by_run, scaling=4.0), 3.0)
    assert served.extrapolated
    assert "rows near each other interfere more" in doubts[0]
    alike, none = capacity_of(GivenRows(mixed_up, scaling=4.0), 3.0)
    assert none == []
    assert alike.value == pytest.approx(served.value)
    within, none = capacity_of(GivenRows(run_by_run, scaling=4.0))
    assert none == []
    assert not within.extrapolated
    few = assocmem.design(keys=mixed_up, n_memories=100, beta=4.0, rules=()).words
    assert "Warning" not in " ".join(few)
    assert "pairs of rows carry the mean square" in words["mixed up"]  # at the sharpness that a million needs
    assert "rows near each other" not in words["mixed up"]
    assert "rows near each other interfere more" in words["run by run"]
    assert "64 of 576 rows equal an earlier one" in words["copied"]
    assert "rows near each other" not in words["copied"]


def test_rows_of_one_kind_are_not_called_two():
    """Error rate: SURE standard errors, none of 100 draws."""
    for trial in range(100):
        rows = GivenRows(Clustered(8, 0.7).draw(stream(15, trial), 128, 8), scaling=3.0)
        found = growth(rows.folds(16)[0], rows.part_of(16))
        assert found.words == ""
        assert abs(found.power - 1) < 0.2


def test_heads_are_summed_up_by_name():
    laws = [realistic(name, 16, share) for name, share in (("a", 0.2), ("b", 0.9), ("c", 2.0))]
    keys = np.stack([law(stream(16, i), 300) for i, law in enumerate(laws)])
    found = assocmem.design(keys=keys, n_memories=10_000, beta=[4, 8.0])
    alone = assocmem.design(keys=keys[2], n_memories=10_000, beta=[4, 8.0])
    for mine, row in zip(found.where(head=2).rows, alone.rows, strict=True):
        assert mine | {"head": 0, "name": ""} == row
    summary = found.header["summary"]
    needed = next(row for row in summary if row["quantity"] == "sharpness")
    values = [of(found, "sharpness", "needed", head=i)["value"] for i in range(3)]
    assert [int(name) for name in needed["worst"]] == [2, 1, 0] == np.argsort(-np.array(values)).tolist()
    assert needed["median"] == values[1]
    assert "worst off: head 2" in " ".join(found.words)
    rules = {(row["rule"], row["beta"]) for row in summary if row["quantity"] == "ratio"}
    assert {("as it is", 4.0), ("as it is", 8.0), ("ssmax", None)} < rules
    log_n = of(found, "ratio", "log-n")
    assert log_n["beta"] == pytest.approx(4 * math.log(10_000) / math.log(300))
    direct = GivenRows(keys[0], scaling=log_n["logit_scale"]).ratios()
    assert log_n["value"] == pytest.approx(direct.over_queries().ratio(10_000)[0], rel=1e-9)
    assert of(found, "ratio", "log-n", "median")["value"] == pytest.approx(
        quantile(direct.ratio(10_000), 0.5), rel=1e-9
    )
    ssmax = of(found, "ratio", "ssmax")
    at_reference = assocmem.design(keys=keys[0], n_memories=300, rules=())
    assert ssmax["beta"] == pytest.approx(
        of(at_reference, "sharpness", "needed")["value"] * math.log(10_000) / math.log(300), rel=1e-4
    )
    assert not of(at_reference, "sharpness", "needed")["extrapolated"]


def test_queries_values_and_lengths_of_ones_own():
    rng = stream(17, "own")
    keys, values = 3 * rng.standard_normal((200, 12)), rng.standard_normal((200, 5)) + 0.5
    targets = rng.integers(0, 200, 150)
    queries = keys[targets] + 0.3 * rng.standard_normal((150, 12))
    found = assocmem.design(
        keys=keys, queries=queries, targets=targets, values=values, n_memories=5000, beta=6.0, rules=(), normalise=True
    )
    keys, queries = 3 * unit(keys), 2 * unit(queries)  # lengths cancel in a sharpness
    row = of(found, "ratio")
    assert row["logit_scale"] == pytest.approx(6.0)
    own = assocmem.design(keys=keys, queries=queries, targets=targets, n_memories=5000, values=values, beta=6, rules=())
    assert of(own, "ratio")["logit_scale"] == pytest.approx(1.0)
    assert of(own, "ratio")["value"] == pytest.approx(row["value"])
    direct = GivenRows(keys, queries, values, target=targets).ratios().over_queries()
    assert row["value"] == pytest.approx(direct.ratio(5000)[0], rel=1e-9)
    needed = of(found, "sharpness", "needed")
    again = GivenRows(keys, queries, values, target=targets, scaling=needed["value"] / 6).ratios().over_queries()
    assert again.ratio(5000)[0] == pytest.approx(1.0, abs=1e-5)


def test_no_sharpness_parts_equal_keys():
    keys = np.repeat(unit(stream(18, "equal").standard_normal((40, 8))), 2, axis=0)
    found = assocmem.design(keys=keys, n_memories=MILLION, rules=("ssmax",))
    assert of(found, "sharpness", "needed")["value"] is None
    assert "No sharpness serves" in " ".join(found.words)
    assert of(found, "ratio")["value"] > 10
    easy = assocmem.design(keys=keys[::2], n_memories=2, rules=())
    assert of(easy, "sharpness", "needed")["value"] == 0


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, "`d`"),
        ({"d": 8, "keys": np.eye(8)}, "`d`"),
        ({"keys": np.eye(3)}, "`keys`"),
        ({"keys": np.eye(8), "queries": np.eye(8)}, "`queries` and `targets`"),
        ({"keys": np.eye(8), "beta": [4, -1]}, "`beta`"),
        ({"keys": np.eye(8), "rules": ["no"]}, "`rules`"),
        ({"keys": np.eye(8), "reference": 1}, "`reference`"),
        ({"keys": np.zeros((8, 4))}, "`keys`"),
        ({"d": 8, "beta": 4}, "`beta`"),
        ({"keys": np.eye(8), "n_memories": 1}, "`n_memories`"),
    ],
)
def test_what_design_refuses(settings, words):
    with pytest.raises(InputError) as refused:
        assocmem.design(**{"n_memories": 100} | settings)
    assert words in str(refused.value)


def test_heads_that_share_keys_are_judged_as_each_by_itself():
    """Two query heads on one head of keys, targets their strongest keys: as one call for each."""
    rng = stream(20, "grouped")
    keys, queries = rng.standard_normal((1, 60, 8)), rng.standard_normal((2, 30, 8))
    both = assocmem.design(keys=keys, queries=queries, targets="strongest", n_memories=50, rules=(), workers=1)
    for head in (0, 1):
        targets = np.argmax(queries[head] @ keys[0].T, axis=1)
        alone = assocmem.design(keys=keys[0], queries=queries[head], targets=targets, n_memories=50, rules=())
        for quantity, rule in (("sharpness", "needed"), ("capacity", "as it is")):
            value = of(alone, quantity, rule)["value"]
            assert of(both, quantity, rule, head=head)["value"] == pytest.approx(value, rel=1e-9)


def test_design_on_files(ask, tmp_path):
    keys = np.stack([realistic(name, 16)(stream(19, name), 200) for name in "ab"])
    np.save(tmp_path / "keys.npy", keys)
    words = ("design", "--keys", tmp_path / "keys.npy", "--memories", "100k", "--beta", "4,6")
    said = ask(*words)
    assert said.status == 0
    assert "sharpness needed *" in said.out
    assert "worst off: head" in said.out
    assert "extrapolated" in said.out
    data = ask(*words, "--json", "--out", tmp_path / "out").json
    assert {row["beta"] for row in data["rows"] if row["quantity"] == "capacity"} == {4.0, 6.0}
    assert data["definitions"]["extrapolated"]
    kept = assocmem.Results.load(tmp_path / "out" / "design.csv")
    assert json.dumps(kept.rows[0]["value"]) == json.dumps(data["rows"][0]["value"])
    np.save(tmp_path / "one.npy", keys[0])
    one = ask("design", "--keys", tmp_path / "one.npy", "--memories", "100k")
    assert "uniform keys of that width would need" in " ".join(one.out.split())
    for wrong in (["--d-k", 8], ["--query-cosine", 0.5], ["--beta", "4,x"], ["--queries", tmp_path / "one.npy"]):
        assert ask(*words[:5], *wrong).status == 2
    for wrong in (["--reference", 100], ["--values", tmp_path / "one.npy"]):
        refused = ask("design", "--memories", 100, *wrong)
        assert refused.status == 2
        assert wrong[0] in refused.err
    listed = ask("design", "--memories", "1e6", "--beta", "8,11", "--json").json["sharpness_policies"]
    assert [row["label"] for row in listed[1:3]] == ["softmax, beta = 8", "softmax, beta = 11"]


def test_a_design_for_heads_draws_the_sharpness_of_each():
    keys = np.stack([realistic("a", 16, 0.5)(stream(16, i), 200) for i in range(2)])
    drawn = assocmem.design(keys=keys, n_memories=1000, rules=(), workers=1).plot().to_dict()
    told = [row for rows in drawn["datasets"].values() for row in rows if row.get("quantity") == "sharpness"]
    assert {row["label"] for row in told} == {"given keys, head = 0", "given keys, head = 1"}
    assert all(row["value"] > 0 for row in told)


def test_rows_that_no_more_can_be_like_are_told_of():
    with np.errstate(all="raise"):
        even = " ".join(assocmem.design(keys=np.eye(16), n_memories=1000, rules=(), workers=1).words)
    assert "overlap less than independent rows of their width can" in even
    usual = assocmem.design(keys=stream(1, "keys").standard_normal((200, 16)), n_memories=1000, rules=(), workers=1)
    assert "overlap less than" not in " ".join(usual.words)
    equal = " ".join(assocmem.design(keys=np.ones((20, 8)), n_memories=1000, rules=(), workers=1).words)
    assert "No sharpness serves" in equal
    assert "for 100% of queries" in equal
    with pytest.raises(InputError, match="none asks for any"):
        assocmem.design(keys=np.eye(8), queries=np.eye(8), targets=-np.ones(8, int), n_memories=1000, workers=1)
