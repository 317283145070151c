"""The glyphs: distinct, drawable, shuffled, and stored without their common mean."""

from importlib import resources

import numpy as np
import pytest

from assocmem.contract.errors import InputError
from assocmem.inputs import glyph_pairs
from assocmem.inputs.glyphs import glyphs
from assocmem.ruler import key_geometry
from assocmem.stores.outer import OuterProduct


def test_there_are_1024_different_characters_and_pictures():
    chars, images = glyphs()
    assert len(chars) == len(set(chars)) == 1024
    assert images.shape == (1024, 16, 16)
    assert set(np.unique(images)) == {0.0, 1.0}
    flat = images.reshape(1024, -1)
    differing = flat.sum(axis=1)[:, None] + flat.sum(axis=1) - 2 * flat @ flat.T
    np.fill_diagonal(differing, 256)
    assert differing.min() >= 10
    assert flat.sum(axis=1).min() >= 20


def test_letters_look_like_themselves():
    chars, images = glyphs()
    picture = images[chars.index("T")]
    ink = np.argwhere(picture)
    top, bottom = ink[:, 0].min(), ink[:, 0].max()
    assert picture[top].sum() >= 10  # the bar
    assert picture[bottom].sum() <= 3  # the foot of the stem
    assert set("ABCDEFGHKMNOPQRSTUVWXYZ23456789").issubset(chars)


def test_the_order_is_shuffled():
    chars, _ = glyphs()
    codes = np.array([ord(char) for char in chars])
    ranks = np.argsort(np.argsort(codes))
    assert abs(np.corrcoef(ranks, np.arange(1024))[0, 1]) < 0.1
    assert np.mean(abs(np.diff(ranks)) == 1) < 0.02


def test_a_caller_cannot_change_the_glyphs_of_the_next():
    glyphs().images[:] = 7
    glyphs().chars.clear()
    assert glyphs().images.max() == 1
    assert len(glyphs().chars) == 1024


def test_the_mean_is_taken_out_and_put_back():
    font = glyphs()
    np.testing.assert_allclose(font.values.mean(axis=0), 0, atol=1e-15)
    np.testing.assert_allclose(font.picture(font.values), font.images, atol=1e-14)
    assert key_geometry(font.images.reshape(1024, -1)).shared_mean_share > 0.3
    assert key_geometry(font.values).shared_mean_share < 1e-20
    with pytest.raises(InputError, match="256"):
        font.picture(np.zeros((2, 255)))


def test_without_its_mean_the_letter_is_what_a_crowded_store_recalls_best():
    # Raw pixels drown in the common mean: the recall of any letter resembles the mean more than itself.
    font, m = glyphs(), 300
    pairs = glyph_pairs(0, 0, m, 64)
    store = OuterProduct()
    for values, common in ((font.images.reshape(1024, -1)[:m], True), (pairs.values, False)):
        state = store.write(store.empty(64, 256), pairs.keys, values)
        recalls = store.recall(state, pairs.keys)
        shared = values.mean(axis=0)
        with_mean = np.abs(recalls @ shared) / np.linalg.norm(recalls, axis=1) / np.linalg.norm(shared)
        assert (np.median(with_mean) > 0.4) == common


def test_pairs_follow_the_fixed_order_and_begin_again():
    font = glyphs()
    pairs = glyph_pairs(1, 0, 1030, 8)
    np.testing.assert_array_equal(pairs.values[:1024], font.values)
    np.testing.assert_array_equal(pairs.values[1024:], font.values[:6])
    assert pairs.keys.shape == (1030, 8)
    assert not np.array_equal(pairs.keys[:6], pairs.keys[1024:])


def test_a_wanted_character_comes_first_and_only_once():
    font = glyphs()
    pairs = glyph_pairs(1, 0, 1024, 8, first="R")
    np.testing.assert_array_equal(pairs.values[0], font.values[font.chars.index("R")])
    assert np.unique(pairs.values, axis=0).shape[0] == 1024
    with pytest.raises(InputError, match="'字' is not"):
        glyph_pairs(1, 0, 4, 8, first="字")


def test_the_licence_lies_beside_the_data():
    text = (resources.files("assocmem.inputs") / "data" / "LICENSE-DejaVu.txt").read_text()
    assert "Bitstream" in text
    assert "Permission is hereby granted, free of charge" in text
