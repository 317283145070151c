"""Geometry of keys against brute force over all pairs, and preparations that are fitted on other rows."""

import math

import numpy as np
import pytest

from assocmem.contract.arrays import rounding_unit
from assocmem.contract.errors import InputError, NonFiniteError
from assocmem.contract.numbers import stream
from assocmem.inputs import key_law, unit_rows
from assocmem.ruler import Preparation, key_geometry


def brute(rows):
    """Cosines of all ordered pairs of different rows, a zero row's being 0."""
    found = []
    for i, a in enumerate(rows):
        for j, b in enumerate(rows):
            if i != j:
                scale = np.linalg.norm(a) * np.linalg.norm(b)
                found.append(a @ b / scale if scale else 0.0)
    return np.array(found)


@pytest.mark.parametrize(("n", "d"), [(40, 6), (6, 40), (10, 10), (2, 3)])
def test_geometry_is_brute_force(n, d):
    rows = stream(0, "g", n).standard_normal((n, d)) + 0.7
    rows[1] = 0
    if n > 6:
        rows[4] = rows[2]
    found = key_geometry(rows)
    cosines = brute(rows)
    assert found.effective_dimension == pytest.approx(1 / np.mean(cosines**2)) if np.any(cosines) else True
    assert found.mean_cosine == pytest.approx(np.mean(cosines), abs=1e-14)
    second, covariance = rows.T @ rows, np.cov(rows.T)
    eigen, centred = np.linalg.eigvalsh(second), np.linalg.eigvalsh(covariance)
    assert found.participation_ratio == pytest.approx(eigen.sum() ** 2 / np.sum(eigen**2))
    assert found.participation_ratio_centred == pytest.approx(centred.sum() ** 2 / np.sum(centred**2))
    mean = rows.mean(axis=0)
    assert found.shared_mean_share == pytest.approx(mean @ mean / np.mean(np.sum(rows**2, axis=1)))
    lengths = np.linalg.norm(rows, axis=1)
    assert (found.norm_mean, found.norm_std) == (pytest.approx(lengths.mean()), pytest.approx(lengths.std()))
    assert (found.norm_min, found.norm_max) == (0.0, pytest.approx(lengths.max()))
    assert (found.n, found.d, found.zero_rows, found.duplicates) == (n, d, 1, int(n > 6))


def test_geometry_in_blocks_equals_in_one_piece(monkeypatch):
    rows = stream(0, "blocks").standard_normal((50, 4)).astype(np.float32)
    whole = key_geometry(rows)
    monkeypatch.setattr("assocmem.ruler.geometry._BLOCK", 40)
    parts = key_geometry(rows)
    assert parts.effective_dimension == pytest.approx(whole.effective_dimension, rel=1e-12)
    assert parts.participation_ratio_centred == pytest.approx(whole.participation_ratio_centred, rel=1e-12)
    assert parts.norm_std == pytest.approx(whole.norm_std, rel=1e-12)


def test_uniform_keys_use_every_direction_and_shared_means_leave_few():
    assert key_geometry(unit_rows(stream(0, "u"), 3000, 32)).effective_dimension == pytest.approx(32, rel=0.02)
    alike = key_geometry(key_law("equal-cosine", rho=0.5).draw(stream(0, "e"), 3000, 32))
    assert alike.effective_dimension == pytest.approx(1 / (0.25 + 0.25 / 31), rel=0.02)
    assert alike.shared_mean_share == pytest.approx(0.5, abs=0.01)
    flat = key_law("spectrum", eigenvalues=(1.0,) * 4 + (0.0,) * 28).draw(stream(0, "s"), 3000, 32)
    assert key_geometry(flat).participation_ratio == pytest.approx(4, rel=0.02)
    assert key_geometry(flat).constant_columns == 28


@pytest.mark.parametrize("scale", [1e-150, 1e150])
def test_geometry_does_not_depend_on_the_scale(scale):
    rows = stream(0, "scale").standard_normal((20, 5))
    plain, scaled = key_geometry(rows), key_geometry(rows * scale)
    assert scaled.effective_dimension == pytest.approx(plain.effective_dimension)
    assert scaled.participation_ratio == pytest.approx(plain.participation_ratio)
    assert scaled.shared_mean_share == pytest.approx(plain.shared_mean_share)
    assert scaled.norm_mean == pytest.approx(plain.norm_mean * scale)


def test_geometry_of_special_keys_has_reasons_instead_of_nan():
    orthogonal = key_geometry(np.eye(3))
    assert orthogonal.effective_dimension is None
    assert "orthogonal" in orthogonal.reason
    single = key_geometry(np.ones((1, 4)))
    assert single.effective_dimension is None
    assert "no pairs" in single.reason
    assert single.participation_ratio_centred is None
    nothing = key_geometry(np.zeros((3, 4)))
    assert (nothing.participation_ratio, nothing.shared_mean_share) == (None, None)
    assert "all keys are zero" in nothing.reason
    same = key_geometry(np.tile([0.1, 0.2, 0.3], (5, 1)))
    assert same.effective_dimension == pytest.approx(1)
    assert same.participation_ratio_centred is None
    assert same.duplicates == 4
    assert same.shared_mean_share == pytest.approx(1)
    for found in (orthogonal, single, nothing, same):
        assert not any(isinstance(x, float) and not math.isfinite(x) for x in vars(found).values())


def test_zeros_of_both_signs_are_one_key():
    assert key_geometry(np.array([[0.0, 1.0], [-0.0, 1.0], [1.0, 0.0]])).duplicates == 1


def test_geometry_takes_integers_float32_and_torch():
    rows = stream(0, "int").integers(-3, 4, (20, 5))
    truth = key_geometry(rows.astype(float))
    assert key_geometry(rows) == truth
    assert key_geometry(rows.astype(np.float32)).effective_dimension == pytest.approx(truth.effective_dimension)
    torch = pytest.importorskip("torch")
    assert key_geometry(torch.from_numpy(rows)) == truth


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_what_is_rounding_follows_the_dtype_in_which_the_keys_came(dtype):
    torch = pytest.importorskip("torch")
    axes, unit = np.linalg.qr(stream(0, "axes").standard_normal((32, 32)))[0], rounding_unit(dtype)
    give = lambda x: torch.from_numpy(x).to(getattr(torch, dtype))  # noqa: E731
    assert key_geometry(give(axes)).effective_dimension is None
    noise = stream(0, "noise").standard_normal((50, 32))
    assert key_geometry(give(axes[:1] * (1 + 0.3 * unit * noise))).participation_ratio_centred is None
    told = key_geometry(give(axes).double(), came=dtype)
    assert told.effective_dimension is None
    if dtype != "float64":
        assert key_geometry(give(axes).double()).effective_dimension > 1e3  # its rounding, taken for overlaps
    apart = key_geometry(give(axes[:1] * (1 + 30 * unit * noise)))
    assert apart.participation_ratio_centred > 5
    assert key_geometry(give(noise)).effective_dimension == pytest.approx(key_geometry(noise).effective_dimension, 0.01)


@pytest.mark.parametrize("bad", [np.ones(4), np.ones((2, 3, 4)), np.ones((0, 4)), np.ones((4, 0))])
def test_geometry_wants_a_matrix(bad):
    with pytest.raises(InputError, match="`keys`"):
        key_geometry(bad)
    with pytest.raises(NonFiniteError, match="row 1"):
        key_geometry(np.array([[1.0, 2.0], [np.inf, 0.0]]))


# ---------------------------------------------------------------- preparations

MIX = np.diag([3.0, 1.0, 0.2, 1.0, 1.0]) @ np.linalg.qr(stream(0, "mix").standard_normal((5, 5)))[0]


def mixed(name, n):
    return stream(0, name).standard_normal((n, 5)) @ MIX + [5.0, 0, 0, 0, -2]


def test_raw_leaves_rows_alone():
    rows = mixed("raw", 10)
    fitted = Preparation.fit(rows)
    np.testing.assert_array_equal(fitted.apply(rows), rows)
    assert (fitted.rank, fitted.dropped, fitted.words) == (5, 0, "raw")


def test_centring_subtracts_the_mean_of_the_fitted_rows():
    fit_on, rows = mixed("fit", 50), mixed("rows", 10)
    fitted = Preparation.fit(fit_on, "centred")
    np.testing.assert_allclose(fitted.apply(rows), rows - fit_on.mean(axis=0), rtol=1e-13)
    assert "fitted on 50 other rows" in fitted.words


def test_whitening_makes_the_fitted_rows_white_and_others_nearly():
    fit_on, rows = mixed("fit", 5000), mixed("rows", 5000)
    fitted = Preparation.fit(fit_on, "whitened")
    inside = fitted.apply(fit_on)
    np.testing.assert_allclose(np.cov(inside.T), np.eye(5) / 5, atol=1e-12)
    outside = np.cov(fitted.apply(rows).T)
    assert 1e-4 < abs(outside - np.eye(5) / 5).max() < 0.02
    assert np.mean(np.sum(inside**2, axis=1)) == pytest.approx(1, rel=1e-3)
    raw, white = key_geometry(rows).effective_dimension, key_geometry(fitted.apply(rows)).effective_dimension
    assert raw < 2
    assert white > 4.8


def test_whitening_changes_directions_not_their_linear_content():
    rows = mixed("rows", 30)
    prepared = Preparation.fit(mixed("fit", 400), "whitened").apply(rows)
    design = np.column_stack([prepared, np.ones(30)])
    residual = rows - design @ np.linalg.lstsq(design, rows, rcond=None)[0]
    assert abs(residual).max() < 1e-12


def test_columns_and_directions_without_variance_are_dropped_and_counted():
    rows = np.column_stack([mixed("fit", 200), np.zeros(200), np.full(200, 7.0)])
    rows = np.column_stack([rows, rows[:, 0] - 2 * rows[:, 1]])  # a direction that others span
    fitted = Preparation.fit(rows, "whitened")
    assert (fitted.d, fitted.dropped, fitted.directions_dropped, fitted.rank) == (8, 2, 1, 5)
    assert fitted.apply(rows).shape == (200, 5)
    assert Preparation.fit(rows, "centred").rank == 6
    raw = Preparation.fit(rows, "raw")
    assert (raw.dropped, raw.rank) == (1, 7)
    np.testing.assert_array_equal(raw.apply(rows), np.delete(rows, 5, axis=1))


def test_raw_rows_do_not_lose_a_column_unnoticed():
    rows = np.array([[1.0, 0.0], [2.0, 0.0]])
    with pytest.raises(InputError, match="column 1 was zero in every fitted row"):
        Preparation.fit(rows).apply(np.array([[1.0, 3.0]]))


@pytest.mark.parametrize(("n", "d", "rank"), [(100, 2, 2), (200_000, 2, 1)])
def test_more_rows_leave_more_rounding_in_a_direction(n, d, rank):
    rows = stream(0, "many", n).standard_normal((n, d)) * [1, 1e-6]  # its share of the variance: 1e-12, above d eps
    assert Preparation.fit(rows, "whitened").rank == rank


def test_a_stated_tolerance_and_shrinkage_are_used():
    fit_on = mixed("fit", 300)
    variances = np.sort(np.linalg.eigvalsh(np.cov(fit_on.T)))[::-1]
    limit = math.sqrt(variances[3] * variances[4]) / variances[0]
    assert Preparation.fit(fit_on, "whitened", tolerance=limit).rank == 4
    shrunk = Preparation.fit(fit_on, "whitened", shrinkage=0.5)
    got = np.sort(np.linalg.eigvalsh(np.cov(shrunk.apply(fit_on).T)))
    mixed_variances = 0.5 * variances + 0.5 * variances.mean()
    np.testing.assert_allclose(got, np.sort(variances / mixed_variances) / 5, rtol=1e-10)
    whole = Preparation.fit(fit_on, "whitened", shrinkage=1.0)
    np.testing.assert_allclose(
        key_geometry(whole.apply(fit_on)).participation_ratio,
        key_geometry(fit_on - fit_on.mean(axis=0)).participation_ratio,
    )
    assert (shrunk.shrinkage, shrunk.n_fitted) == (0.5, 300)


def test_too_few_rows_for_whitening_are_noted():
    fitted = Preparation.fit(mixed("fit", 4), "whitened")
    assert fitted.rank == 3
    assert fitted.note == "4 rows fix at most 3 of 5 directions; fit on more rows"
    assert Preparation.fit(mixed("fit", 60), "whitened").note == ""


def test_normalised_rows_have_length_one_and_zero_rows_are_named():
    fitted = Preparation.fit(mixed("fit", 50), "centred", normalise=True)
    np.testing.assert_allclose(np.linalg.norm(fitted.apply(mixed("rows", 9)), axis=1), 1, rtol=1e-14)
    assert "length one" in fitted.words
    rows = np.stack([np.ones(5), fitted.mean])
    with pytest.raises(InputError, match="row 1 has length zero"):
        fitted.apply(rows)


@pytest.mark.parametrize(
    ("rows", "settings", "word"),
    [
        (np.ones(4), {}, "2 axes"),
        (np.ones((1, 4)), {"kind": "centred"}, "n >= 2"),
        (np.ones((3, 4)), {"kind": "whitened"}, "constant in every column"),
        (np.zeros((3, 4)), {}, "zero in every column"),
        (np.eye(4), {"kind": "bleached"}, "`kind`"),
        (np.eye(4), {"shrinkage": 1.5}, "`shrinkage`"),
        (np.eye(4), {"tolerance": -1.0}, "`tolerance`"),
        (np.array([[1.0], [np.nan]]), {}, "row 1"),
    ],
)
def test_bad_preparations_are_refused(rows, settings, word):
    with pytest.raises(InputError, match=word):
        Preparation.fit(rows, **settings)


def test_rows_of_another_width_are_refused():
    with pytest.raises(InputError, match="width 4"):
        Preparation.fit(np.eye(4)).apply(np.eye(3))
