"""Laws, pairs and probes: each law's own property, in numbers that another law would not give."""

import numpy as np
import pytest

from assocmem.contract.errors import InputError, UnknownNameError
from assocmem.contract.numbers import stream
from assocmem.inputs import (
    Clustered,
    EqualCosine,
    Gaussian,
    Law,
    Normalised,
    Signs,
    Spectrum,
    Sphere,
    at_cosine,
    draw_pairs,
    key_law,
    law_names,
    noisy,
    stored,
    unit_rows,
    unseen,
    value_law,
)

SETTINGS = {
    "equal-cosine": {"rho": 0.3},
    "spectrum": {"eigenvalues": (4.0, 2.0, 1.0, 1.0, 0.5, 0.0, 1.0, 0.5)},
    "clustered": {"clusters": 3, "spread": 0.4},
}
ALL_LAWS = [key_law(name, **SETTINGS.get(name, {})) for name in law_names()]
LAWS_BY_NAME = pytest.mark.parametrize("law", ALL_LAWS, ids=law_names())


def rng(name="test"):
    return stream(5, name)


def off_diagonal(rows):
    cosines = rows @ rows.T
    return cosines[~np.eye(len(rows), dtype=bool)]


@LAWS_BY_NAME
def test_a_law_gives_float64_rows_of_length_one_or_of_mean_square_one(law):
    rows = law.draw(rng(), 8, 8)
    assert rows.shape == (8, 8)
    assert rows.dtype == np.float64
    assert np.isfinite(rows).all()
    if law.unit:
        np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, rtol=1e-14)
    else:
        many = law.draw(rng(), 20_000, 8)
        assert np.mean(np.sum(many**2, axis=1)) == pytest.approx(1, abs=0.03)
        assert np.std(np.linalg.norm(many, axis=1)) > 0.1


@LAWS_BY_NAME
def test_the_same_stream_gives_the_same_rows_and_another_gives_others(law):
    np.testing.assert_array_equal(law.draw(rng("a"), 5, 8), law.draw(rng("a"), 5, 8))
    assert not np.array_equal(law.draw(rng("a"), 5, 8), law.draw(rng("b"), 5, 8))


@LAWS_BY_NAME
def test_no_rows_are_a_defined_draw(law):
    assert law.draw(rng(), 0, 8).shape == (0, 8)


@LAWS_BY_NAME
@pytest.mark.parametrize(("n", "d"), [(-1, 8), (3, 0), (2.5, 8), (True, 8), (3, "8")])
def test_impossible_sizes_are_refused(law, n, d):
    with pytest.raises(InputError, match="whole number"):
        law.draw(rng(), n, d)


def test_sphere_similarities_have_the_moments_of_the_sphere():
    rows = Sphere().draw(rng(), 1500, 16)
    cosines = off_diagonal(rows)
    assert np.mean(cosines) == pytest.approx(0, abs=0.003)
    assert np.mean(cosines**2) == pytest.approx(1 / 16, rel=0.02)
    assert np.mean(cosines**4) == pytest.approx(3 / (16 * 18), rel=0.04)


def test_one_dimensional_unit_vectors_are_both_signs():
    assert set(Sphere().draw(rng(), 50, 1).ravel()) == {-1.0, 1.0}


def test_orthonormal_rows_are_orthonormal_and_random():
    law = key_law("orthonormal")
    rows = law.draw(rng(), 7, 8)
    np.testing.assert_allclose(rows @ rows.T, np.eye(7), atol=1e-14)
    draws = np.stack([law.draw(stream(0, "haar", i), 2, 2) for i in range(400)])
    assert np.mean(np.linalg.det(draws) > 0) == pytest.approx(0.5, abs=0.1)
    assert np.mean(draws[:, 0, 0]) == pytest.approx(0, abs=0.12)


def test_more_orthonormal_rows_than_dimensions_are_refused():
    with pytest.raises(InputError, match="only d = 8 orthonormal rows"):
        key_law("orthonormal").draw(rng(), 9, 8)


def test_signs_are_exactly_two_numbers():
    rows = Signs().draw(rng(), 200, 16)
    assert set(np.unique(rows)) == {-0.25, 0.25}
    assert np.mean(rows) == pytest.approx(0, abs=0.02)


@pytest.mark.parametrize("rho", [0.0, 0.25, 0.9])
def test_equal_cosine_keys_have_that_cosine_in_expectation(rho):
    rows = EqualCosine(rho).draw(rng(), 1200, 32)
    cosines = off_diagonal(rows)
    assert np.mean(cosines) == pytest.approx(rho, abs=0.003)
    assert np.std(cosines) == pytest.approx((1 - rho) / np.sqrt(31), rel=0.02)


def test_equal_cosine_keys_have_exactly_the_root_of_it_with_their_mean_direction():
    generator = rng()
    rows = EqualCosine(0.36).draw(generator, 6, 5)
    mean = unit_rows(rng(), 1, 5)[0]  # the first draw of the same stream
    np.testing.assert_allclose(rows @ mean, 0.6, rtol=1e-14)


def test_equal_cosine_one_makes_all_keys_equal():
    rows = EqualCosine(1.0).draw(rng(), 4, 3)
    np.testing.assert_array_equal(rows, np.tile(rows[0], (4, 1)))


def test_spectrum_has_the_given_eigenvalues():
    law = key_law("spectrum", **SETTINGS["spectrum"])
    rows = law.draw(rng(), 40_000, 8)
    wanted = np.array(law.eigenvalues) / sum(law.eigenvalues)
    np.testing.assert_allclose(np.mean(rows**2, axis=0), wanted, rtol=0.04, atol=1e-12)
    assert Spectrum.power(4, 2.0).eigenvalues == (1.0, 1 / 4, 1 / 9, 1 / 16)


def test_spectrum_needs_its_own_width():
    with pytest.raises(InputError, match="has 8 eigenvalues, so d must be that; got 7"):
        key_law("spectrum", **SETTINGS["spectrum"]).draw(rng(), 3, 7)


@pytest.mark.parametrize("bad", [(), (0.0, 0.0), (1.0, -1.0), (1.0, float("nan")), (1.0, float("inf")), "ab", 3])
def test_bad_eigenvalues_are_refused(bad):
    with pytest.raises(InputError, match="eigenvalues"):
        Spectrum(bad)


def test_clusters_hold_keys_of_the_stated_cosine():
    law = Clustered(3, 0.4)
    rows = law.draw(rng(), 600, 48)
    centres = unit_rows(rng(), 3, 48)  # the first draw of the same stream
    nearest = np.max(rows @ centres.T, axis=1)
    np.testing.assert_allclose(nearest, np.sqrt(1 - 0.4**2), rtol=1e-13)
    label = np.argmax(rows @ centres.T, axis=1)
    assert set(label) == {0, 1, 2}
    same = off_diagonal(rows[label == 0])
    assert np.mean(same) == pytest.approx(1 - 0.4**2, abs=0.003)


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda: EqualCosine(-0.1), "rho"),
        (lambda: EqualCosine(float("nan")), "rho"),
        (lambda: Clustered(0, 0.5), "clusters"),
        (lambda: Clustered(2, 1.5), "spread"),
    ],
)
def test_settings_out_of_range_are_refused(make, word):
    with pytest.raises(InputError, match=f"`{word}`"):
        make()


def test_normalised_rows_keep_their_direction():
    plain, scaled = Gaussian().draw(rng(), 5, 8), Normalised(Gaussian()).draw(rng(), 5, 8)
    np.testing.assert_allclose(scaled, plain / np.linalg.norm(plain, axis=1, keepdims=True), rtol=1e-14)
    assert key_law("gaussian", normalise=True) == Normalised(Gaussian())
    assert key_law("sphere", normalise=True) == Sphere()


def test_names_resolve_and_unknown_ones_offer_the_nearest():
    assert isinstance(key_law(), Sphere)
    assert isinstance(value_law(), Gaussian)
    law = Sphere()
    assert key_law(law) is law
    with pytest.raises(UnknownNameError, match="Did you mean sphere"):
        key_law("spher")
    with pytest.raises(InputError, match="takes rho; got none"):
        key_law("equal-cosine")
    with pytest.raises(InputError, match="takes no settings; got rho"):
        key_law("sphere", rho=0.5)
    with pytest.raises(InputError, match="already made"):
        key_law(law, rho=0.5)


def test_every_law_says_what_it_is_and_no_two_alike():
    assert len({law.words for law in ALL_LAWS}) == len(ALL_LAWS)
    assert all(isinstance(law, Law) and law.words for law in ALL_LAWS)


def test_pairs_depend_on_seed_and_trial_only():
    first = draw_pairs(3, 1, 6, 8, 5)
    again = draw_pairs(3, 1, 6, 8, 5)
    np.testing.assert_array_equal(first.keys, again.keys)
    np.testing.assert_array_equal(first.values, again.values)
    for other in (draw_pairs(4, 1, 6, 8, 5), draw_pairs(3, 2, 6, 8, 5)):
        assert not np.array_equal(first.keys, other.keys)
        assert not np.array_equal(first.values, other.values)


def test_keys_do_not_depend_on_the_values_law_or_width():
    wide = draw_pairs(3, 1, 6, 8, 50, values="signs")
    np.testing.assert_array_equal(wide.keys, draw_pairs(3, 1, 6, 8, 5).keys)
    assert wide.law == "keys uniform on the unit sphere; values random signs +-1/sqrt(d)"


def test_keys_and_values_of_one_law_are_different_numbers():
    pairs = draw_pairs(3, 1, 6, 8, 8, values="sphere")
    assert abs(pairs.keys - pairs.values).min() > 0
    assert abs(np.sum(pairs.keys * pairs.values)) < 3


def test_pairs_come_in_the_dtype_asked_for():
    pairs = draw_pairs(0, 0, 4, 8, 8, dtype="float32")
    assert pairs.keys.dtype == pairs.values.dtype == np.float32
    np.testing.assert_array_equal(pairs.keys, draw_pairs(0, 0, 4, 8, 8).keys.astype(np.float32))
    for bad in ("int64", "no such type"):
        with pytest.raises(InputError, match="dtype"):
            draw_pairs(0, 0, 4, 8, 8, dtype=bad)


@pytest.mark.parametrize("cosine", [-1.0, -0.3, 0.0, 0.6, 0.999999, 1.0])
@pytest.mark.parametrize("d", [2, 3, 64])
def test_noisy_queries_have_exactly_the_cosine_and_their_key_s_length(cosine, d):
    keys = unit_rows(rng(), 20, d) * np.linspace(0.1, 30, 20)[:, None]
    probe = noisy(keys, cosine, rng=rng("noise"))
    lengths = np.linalg.norm(keys, axis=1)
    np.testing.assert_allclose(np.linalg.norm(probe.queries, axis=1), lengths, rtol=1e-14)
    got = np.sum(probe.queries * keys, axis=1) / lengths**2
    np.testing.assert_allclose(got, cosine, atol=1e-14)
    assert probe.kind == "noisy"
    assert probe.cosine == cosine


def test_noise_is_uniform_among_the_orthogonal_directions():
    key = np.array([[1.0, 0.0, 0.0]])
    turned = at_cosine(rng(), np.repeat(key, 4000, axis=0), 0.0)
    np.testing.assert_allclose(turned[:, 0], 0, atol=1e-15)
    angles = np.arctan2(turned[:, 2], turned[:, 1])
    counts = np.histogram(angles, bins=8, range=(-np.pi, np.pi))[0]
    assert abs(counts - 500).max() < 4.5 * np.sqrt(500)


def test_noise_from_the_stream_that_drew_the_keys_is_still_orthogonal():
    keys = unit_rows(rng(), 6, 4)
    queries = noisy(keys, 0.6, rng=rng()).queries
    np.testing.assert_allclose(np.sum(queries * keys, axis=1), 0.6, atol=1e-14)
    np.testing.assert_allclose(np.linalg.norm(queries, axis=1), 1, rtol=1e-14)


def test_noise_is_drawn_anew_for_every_query():
    probe = noisy(np.eye(4), 0.5, rng=rng(), targets=[1, 1])
    assert not np.allclose(probe.queries[0], probe.queries[1])


def test_cosine_one_gives_the_keys_themselves():
    keys = unit_rows(rng(), 5, 7)
    np.testing.assert_array_equal(noisy(keys, 1.0, rng=rng()).queries, keys)


@pytest.mark.parametrize("cosine", [1.1, -2, float("nan"), "x", None])
def test_bad_cosines_are_refused(cosine):
    with pytest.raises(InputError, match="`cosine`"):
        noisy(np.eye(3), cosine, rng=rng())


def test_zero_keys_and_one_dimension_have_no_noisy_query():
    keys = np.eye(3)
    keys[1] = 0
    with pytest.raises(InputError, match="row 1 is zero"):
        noisy(keys, 0.5, rng=rng())
    with pytest.raises(InputError, match="at least 2 dimensions"):
        noisy(np.ones((2, 1)), 0.5, rng=rng())


def test_stored_queries_are_the_keys_that_were_named():
    keys = unit_rows(rng(), 6, 4)
    whole = stored(keys)
    np.testing.assert_array_equal(whole.queries, keys)
    assert whole.targets.tolist() == list(range(6))
    some = stored(keys, targets=[4, 4, 0])
    np.testing.assert_array_equal(some.queries, keys[[4, 4, 0]])
    chosen = stored(keys, count=4, rng=rng())
    assert len(set(chosen.targets.tolist())) == 4
    np.testing.assert_array_equal(chosen.queries, keys[chosen.targets])


def test_probes_take_batched_keys_and_torch_arrays():
    keys = unit_rows(rng(), 6, 4).reshape(2, 3, 4)
    assert stored(keys, targets=[2, 0]).queries.shape == (2, 2, 4)
    np.testing.assert_allclose(np.sum(noisy(keys, 0.5, rng=rng()).queries * keys, axis=-1), 0.5, atol=1e-14)
    torch = pytest.importorskip("torch")
    np.testing.assert_array_equal(stored(torch.from_numpy(keys)).queries, keys)


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"targets": [6]}, "lie in"),
        ({"targets": [-1]}, "lie in"),
        ({"targets": [0.5]}, "whole numbers"),
        ({"targets": [[0]]}, "whole numbers"),
        ({"count": 7, "rng": np.random.default_rng(0)}, "`count`"),
        ({"count": 2}, "`rng`"),
        ({"count": 2, "targets": [0]}, "not both"),
    ],
)
def test_impossible_probes_are_refused(settings, word):
    with pytest.raises(InputError, match=word):
        stored(np.eye(6), **settings)


def test_unseen_queries_are_new_and_ask_for_nothing():
    probe = unseen(rng("unseen"), 5, 8)
    assert probe.queries.shape == (5, 8)
    assert probe.targets is None
    assert probe.cosine is None
    np.testing.assert_allclose(np.linalg.norm(probe.queries, axis=1), 1, rtol=1e-14)
