"""Predictors and the lossless coder: identities, round trips, and a small trained language model."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from assocmem import Memory, make_store
from assocmem.contract.errors import FileFormatError, InputError, NonFiniteError
from assocmem.predictors import KNNLM, Mixture, Reader, Uniform, decode, encode, next_token_states, read
from trained import needed, random_network

TEXT = b"the cat sat on the mat; the cat ate the rat; the rat sat on the mat. " * 4


def reader(order: int = 3, beta: float = 40.0) -> Reader:
    return Reader(Memory("softmax", beta=beta), order=order)


def mixture() -> Mixture:
    return Mixture([Uniform(), reader(0), reader(1), reader(3)])


class Fixed:
    """A predictor that never learns."""

    def __init__(self, p: Any) -> None:
        self.p, self.size = np.asarray(p, float), len(p)

    def distribution(self) -> Any:
        return self.p

    def observe(self, token: int) -> None:
        pass


@pytest.mark.parametrize("make", [Uniform, reader, mixture])
@pytest.mark.parametrize("text", [b"", b"\x00", b"\xff" * 40, TEXT])
def test_what_is_coded_comes_back_within_two_bits_of_what_was_predicted(make: Any, text: bytes) -> None:
    data = encode(text, make())
    assert decode(data, make()) == list(text)
    head = 1 if len(text) < 128 else 2
    assert len(data) - head <= math.ceil((read(make(), text).sum() + 2 + 0.01) / 8)


def test_the_coder_is_right_at_its_edges() -> None:
    """Very unlikely tokens, a single token, thousands of them, and probabilities that round to nothing."""
    rng = np.random.default_rng(0)
    p = np.concatenate([[1 - 1e-9], np.full(99, 1e-9 / 99)])
    for tokens in ([99, 0, 50] * 5, [0] * 5000, rng.integers(0, 100, 300).tolist()):
        data = encode(tokens, Fixed(p))
        assert decode(data, Fixed(p)) == tokens
    assert len(encode([0] * 5000, Fixed(p))) <= 4
    wide = rng.dirichlet(np.full(40000, 0.1))
    tokens = rng.choice(40000, 50, p=wide).tolist()
    data = encode(tokens, Fixed(wide))
    assert decode(data, Fixed(wide)) == tokens
    assert len(data) <= math.ceil((read(Fixed(wide + 2**-30), tokens).sum() + 3) / 8) + 1
    assert decode(encode([0] * 9, Fixed([1.0])), Fixed([1.0])) == [0] * 9


def test_another_predictor_does_not_decode() -> None:
    assert decode(encode(TEXT, reader(3)), reader(2)) != list(TEXT)


def test_a_reader_of_softmax_weighs_past_contexts_as_its_codes_overlap() -> None:
    """One token of context: p(y) is the share of e^(beta cos) at places where y followed, and equal parts."""
    made = Reader(Memory("softmax", beta=3.0), size=5, order=1, width=8, unseen=0.1)
    tokens = [0, 1, 2, 0, 3, 0]
    for token in tokens:
        made.observe(token)
    codes = made._codes[:, 0].astype(float)
    before = [5, *tokens[:-1]]
    weights = np.exp(3.0 * codes[before] @ codes[tokens[-1]])
    expected = np.array([weights[[t == y for t in tokens]].sum() for y in range(5)]) / weights.sum()
    np.testing.assert_allclose(made.distribution(), 0.9 * expected + 0.02, atol=1e-5)
    plain = np.bincount(tokens, minlength=5) / len(tokens)
    assert np.abs(made.distribution() - (0.9 * plain + 0.02)).max() > 0.01


def test_hashed_ngrams_count_what_followed_the_same_ngrams() -> None:
    """Tables without collisions: the mean over n-gram lengths of what followed; other lengths are not the same."""
    tokens = np.random.default_rng(2).integers(0, 4, 300).tolist()
    made = Reader(Memory("engram", rows=5000, heads=2, longest=3, vocabulary=5), size=4, order=3, unseen=0.1)
    for token in tokens:
        made.observe(token)

    def counted(lengths: tuple[int, ...]) -> Any:
        found = np.zeros(4)
        for length in lengths:
            for i in range(length, len(tokens)):
                found[tokens[i]] += tokens[i - length : i] == tokens[-length:]
        return 0.9 * found / found.sum() + 0.025

    np.testing.assert_allclose(made.distribution(), counted((2, 3)), atol=1e-6)
    assert np.abs(made.distribution() - counted((1, 2))).max() > 1e-3
    assert decode(encode(TEXT, hashed()), hashed()) == list(TEXT)
    assert read(hashed(), TEXT)[-70:].mean() < 1.0 < read(hashed(), TEXT)[:70].mean()
    with pytest.raises(InputError, match="order"):
        Reader(Memory("engram"), order=0)


def hashed() -> Reader:
    return Reader(Memory("engram", rows=512, heads=4, vocabulary=257), order=3)


def test_mixing_follows_the_gradient_of_what_came() -> None:
    """The step is d ln p / d w, checked by differences; with the sign turned the mixture gets worse."""
    parts = [Fixed([0.7, 0.2, 0.1]), Fixed([0.1, 0.1, 0.8])]
    made = Mixture(parts, rate=0.25, sets=1)
    before = made._weights[0].copy()
    made.distribution()
    made.observe(2)

    def log_p(w: Any) -> float:
        mixed = np.prod([p.p**x for p, x in zip(parts, w, strict=True)], axis=0)
        return float(np.log(mixed[2] / mixed.sum()))

    slope = [(log_p(before + 1e-6 * e) - log_p(before - 1e-6 * e)) / 2e-6 for e in np.eye(2)]
    np.testing.assert_allclose(made._weights[0] - before, 0.25 * np.array(slope), atol=1e-6)
    best = Mixture(parts, rate=0.25)
    assert read(best, [2] * 60)[-20:].mean() < 0.9 * read(Fixed([0.1, 0.1, 0.8]), [2])[0]


def test_reading_learns() -> None:
    bits = read(mixture(), TEXT)
    assert bits[0] == 8.0
    assert bits[-70:].mean() < 0.8 < 3 < bits[:70].mean()
    linear = read(Reader(Memory("delta-net"), order=3), TEXT)
    assert linear[-70:].mean() < linear[:70].mean()


def test_neighbours_speak_as_softmax_does() -> None:
    """All neighbours of unit keys: softmax attention at beta = 2 / temperature; one: the nearest key's token."""
    rng = np.random.default_rng(0)
    keys = rng.normal(size=(50, 6))
    keys /= np.linalg.norm(keys, axis=1, keepdims=True)
    tokens, asked = rng.integers(0, 7, 50), rng.normal(size=(9, 6))
    asked /= np.linalg.norm(asked, axis=1, keepdims=True)
    for temperature in (1.0, 0.5):
        store = make_store("softmax", beta=2.0 / temperature)
        state = store.write(store.empty(6, 7), keys, np.eye(7)[tokens])
        found = KNNLM(keys, tokens, 7, k=50, temperature=temperature).distribution(asked)
        np.testing.assert_allclose(found, store.recall(state, asked), atol=1e-14)
        other = KNNLM(keys, tokens, 7, k=49, temperature=temperature).distribution(asked)
        assert np.abs(other - found).max() > 1e-4
    nearest = KNNLM(keys + 1e4, tokens, 7, k=1).distribution(asked + 1e4)  # far from the origin, distances the same
    closest = ((keys[None] - asked[:, None]) ** 2).sum(-1).argmin(1)
    np.testing.assert_array_equal(nearest, np.eye(7)[tokens[closest]])


def test_mixing_with_the_model_is_bounded_by_either() -> None:
    rng = np.random.default_rng(1)
    store = KNNLM(rng.normal(size=(30, 4)), rng.integers(0, 5, 30), 5, k=8)
    asked, wanted, model = rng.normal(size=(20, 4)), rng.integers(0, 5, 20), rng.dirichlet(np.ones(5), 20)
    at = np.arange(20)
    np.testing.assert_allclose(store.mixed(asked, model, 0.0), model)
    np.testing.assert_allclose(store.mixed(asked, model, 1.0), store.distribution(asked))
    mixed = store.mixed(asked, model, 0.3)
    np.testing.assert_allclose(mixed.sum(1), 1)
    assert (-np.log(mixed[at, wanted]) <= -np.log(model[at, wanted]) - np.log(0.7) + 1e-12).all()
    alone, quarter = store.perplexity(asked, model, wanted, [0.0, 0.25])
    assert alone == pytest.approx(np.exp(-np.log(model[at, wanted]).mean()))
    assert quarter == pytest.approx(np.exp(-np.log(store.mixed(asked, model)[at, wanted]).mean()))
    assert KNNLM(np.zeros((1, 2)), [0], 2).perplexity(np.zeros((1, 2)), [[0.5, 0.5]], [1], [1.0])[0] == np.inf


def test_states_of_a_language_model_are_its_own() -> None:
    torch, network = needed("torch"), random_network("llama")
    tokens = np.random.default_rng(0).integers(0, 60, 30).tolist()
    states = next_token_states(network, tokens, window=12)
    assert states.tokens.tolist() == tokens[1:]
    seen = {}
    hook = network.model.layers[-1].mlp.register_forward_pre_hook(lambda _, given: seen.update(x=given[0]))
    with torch.no_grad():
        logits = network(torch.as_tensor([tokens[11:23]])).logits[0]
    hook.remove()
    np.testing.assert_allclose(states.keys[11:22], seen["x"][0, :-1], atol=1e-5)
    np.testing.assert_allclose(states.probabilities[11:22], torch.softmax(logits[:-1].double(), -1), atol=1e-6)
    # A text read twice: with the first reading as the datastore every second word is known.
    shares = [0.0, 0.5]
    store = KNNLM(states.keys, states.tokens, 60, k=4, temperature=0.01)
    alone, half = store.perplexity(states.keys, states.probabilities, states.tokens, shares)
    assert half < 2.01 < alone
    for wrong in (tokens[:1], []):
        with pytest.raises(InputError, match="tokens"):
            next_token_states(network, wrong)


@pytest.mark.parametrize(
    ("what", "call"),
    [
        ("token", lambda: read(Uniform(4), [4])), ("token", lambda: read(Uniform(4), [-1])),
        ("tokens", lambda: encode([256], Uniform())), ("size", lambda: Uniform(0)),
        ("memory", lambda: Reader("softmax")), ("order", lambda: reader(-1)),
        ("fade", lambda: Reader(Memory("softmax"), fade=0.0)), ("predictors", lambda: Mixture([])),
        ("predictors", lambda: Mixture([Uniform(2), Uniform(3)])), ("rate", lambda: Mixture([Uniform()], rate=2.0)),
        ("sets", lambda: Mixture([Uniform()], sets=0)), ("predictor", lambda: encode([0], Fixed([0.7, 0.7]))),
        ("tokens", lambda: KNNLM(np.eye(2), [0, 2], 2)), ("tokens", lambda: KNNLM(np.eye(2), [0.0, 1.0], 2)),
        ("keys", lambda: KNNLM(np.eye(2), [0], 2)), ("k", lambda: KNNLM(np.eye(2), [0, 1], 2, k=0)),
        ("temperature", lambda: KNNLM(np.eye(2), [0, 1], 2, temperature=0.0)),
        ("queries", lambda: KNNLM(np.eye(2), [0, 1], 2).distribution(np.eye(3))),
        ("share", lambda: KNNLM(np.eye(2), [0, 1], 2).mixed(np.eye(2), np.eye(2), 1.5)),
        ("model", lambda: KNNLM(np.eye(2), [0, 1], 2).mixed(np.eye(2), 2 * np.eye(2))),
    ],
)  # fmt: skip
def test_bad_input_is_one_sentence_that_names_it(what: str, call: Any) -> None:
    with pytest.raises(InputError, match=what):
        call()


def test_data_that_is_cut_short_is_refused() -> None:
    data = encode(TEXT, reader())
    for wrong in (b"", b"\xff", b"\xff" * 12, data[: len(data) // 2]):
        with pytest.raises(FileFormatError, match="data"):
            decode(wrong, reader())
    with pytest.raises(NonFiniteError, match="keys"):
        KNNLM([[np.nan, 0.0]], [0], 2)
