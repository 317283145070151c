"""kNN-LM: a language model's next word mixed with the words that followed the nearest stored contexts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from assocmem.contract.errors import InputError
from assocmem.contract.numbers import is_number, is_whole
from assocmem.contract.slots import DenseSlots
from assocmem.models.tracing import libraries, mlp_inputs
from assocmem.predictors.predictor import Floats
from assocmem.ruler.ratio import checked_numbers


class KNNLM:
    """A datastore of contexts, vectors, with the token that followed each.

    Parameters
    ----------
    keys : array (n, d)
        Contexts.
    tokens : int array (n,)
        What followed, in [0, size).
    size : int
        Tokens that there are.
    k : int
        Nearest contexts that speak; all where there are fewer.
    temperature : float
        > 0; a neighbour at squared distance r weighs e^(-r / temperature).

    Raises
    ------
    InputError, NonFiniteError
        For shapes that do not fit, tokens out of range, and a row that holds NaN or infinity.

    Notes
    -----
    p(y) = share p_kNN(y) + (1 - share) p_LM(y), p_kNN(y) proportional to the weights of neighbours whose token is y. As
    -|q - k|^2 = 2 q.k - |k|^2 - |q|^2, these are the softmax weights of the key (k, -|k|^2) for the query (2 q, 1), and
    the search is that of the slots, exact. State: n (d + 2) numbers. Cost a query: n (d + 1) multiply-adds. Source:
    Khandelwal et al. 2020, arXiv:1911.00172, eq. 2 and 3; there k = 1024 and share = 0.25.

    Examples
    --------
    >>> KNNLM(np.eye(3), [2, 0, 0], size=4, k=2).distribution(np.eye(3)[:1]).round(3).tolist()
    [[0.119, 0.0, 0.881, 0.0]]
    """

    def __init__(self, keys: Any, tokens: Any, size: int, *, k: int = 1024, temperature: float = 1.0) -> None:
        rows = np.asarray(checked_numbers(keys, "keys", 2), np.float64)
        self.tokens, self.size = _checked_tokens(tokens, size), int(size)
        if rows.ndim != 2 or len(rows) == 0 or self.tokens.shape != rows.shape[:1]:
            raise InputError(
                f"`keys` must be (n, d), n >= 1, with a token each; got {rows.shape} and {len(self.tokens)}."
            )
        if not is_whole(k):
            raise InputError(f"`k` must be a whole number >= 1; got {k!r}.")
        if not (is_number(temperature) and temperature > 0):
            raise InputError(f"`temperature` must be a finite number > 0; got {temperature!r}.")
        self.k, self.temperature = k, float(temperature)
        self._middle = rows.mean(axis=0)  # distances are the same around it, and lose fewer digits
        rows = rows - self._middle
        self.slots = DenseSlots({"keys": np.concatenate([rows, -np.sum(rows**2, axis=-1, keepdims=True)], axis=-1)})

    def distribution(self, queries: Any) -> Floats:
        """Return p_kNN for contexts (m, d): (m, size), rows that sum to 1."""
        asked = np.asarray(checked_numbers(queries, "queries", 2), np.float64)
        if asked.ndim != 2 or asked.shape[1] != len(self._middle):
            raise InputError(f"`queries` must be (m, {len(self._middle)}); got {asked.shape}.")
        asked = np.concatenate([2 * (asked - self._middle), np.ones((len(asked), 1))], axis=-1)
        ids, closeness = self.slots.search(asked, min(self.k, self.slots.count))
        weights = np.exp((closeness - closeness[:, :1]) / self.temperature)
        weights /= weights.sum(axis=-1, keepdims=True)
        found = np.zeros((len(asked), self.size))
        np.add.at(found, (np.arange(len(asked))[:, None], self.tokens[ids]), weights)
        return found

    def mixed(self, queries: Any, model: Any, share: float = 0.25) -> Floats:
        """Return share p_kNN + (1 - share) p_LM, (m, size), for the model's probabilities p_LM (m, size)."""
        if not (is_number(share) and 0 <= share <= 1):
            raise InputError(f"`share` must be a number in [0, 1]; got {share!r}.")
        own = np.asarray(checked_numbers(model, "model", 2), np.float64)
        found = self.distribution(queries)
        if own.shape != found.shape or own.min() < 0 or np.abs(own.sum(axis=-1) - 1).max() > 1e-4:
            raise InputError(f"`model` must be probabilities {found.shape}, rows that sum to 1; got {own.shape}.")
        return np.asarray(share * found + (1 - share) * own)

    def perplexity(self, queries: Any, model: Any, tokens: Any, shares: Sequence[float]) -> Floats:
        """Return e^(mean -ln p) over what really followed, tokens (m,), for each share (len(shares),).

        It is infinite where a share of 1 leaves a token that no neighbour was followed by.
        """
        wanted = _checked_tokens(tokens, self.size)
        at = np.arange(len(wanted))
        with np.errstate(divide="ignore"):
            logs = [np.log(self.mixed(queries, model, share)[at, wanted]) for share in shares]
        return np.asarray(np.exp(-np.mean(logs, axis=-1)))


@dataclass(frozen=True, eq=False)
class States:
    """What a language model made of a text: a context before every token but the first, and its own prediction.

    Attributes
    ----------
    keys : float32 array (n - 1, d)
        What the last MLP reads, after its norm.
    probabilities : float64 array (n - 1, size)
    tokens : int array (n - 1,)
        What really followed.
    """

    keys: Any
    probabilities: Floats
    tokens: Any


def next_token_states(network: Any, tokens: Sequence[int], *, window: int = 512) -> States:
    """Return contexts and predictions of transformers' causal language model over a text.

    Parameters
    ----------
    network : PreTrainedModel with a language-model head
    tokens : sequence of int
        At least two.
    window : int
        Tokens that are read at once; each window begins afresh, so its first tokens have little context.

    Returns
    -------
    states : States

    Raises
    ------
    InputError
        For fewer than two tokens, or a network whose last MLP is not known.
    MissingExtraError
        Without the extra `trace`.

    Notes
    -----
    The key is the input of the last MLP (Khandelwal et al. 2020, section 5). Memory: n times the vocabulary.
    """
    _, torch = libraries()
    ids = [int(token) for token in tokens]
    if len(ids) < 2 or not is_whole(window, 2):
        raise InputError(f"`tokens` must be two or more, `window` two or more; got {len(ids)} and {window!r}.")
    keys, chances, after = [], [], []
    last = network.config.get_text_config().num_hidden_layers - 1
    for start in range(0, len(ids) - 1, window - 1):
        part = ids[start : start + window]
        with mlp_inputs(network, [last]) as inputs, torch.no_grad():
            logits = network(torch.as_tensor([part])).logits[0, :-1]
        keys.append(inputs[last][:-1])
        chances.append(torch.softmax(logits.double(), -1).numpy())
        after.extend(part[1:])
    return States(np.concatenate(keys), np.concatenate(chances), np.array(after))


def _checked_tokens(tokens: Any, size: int) -> Any:
    ids = np.asarray(tokens)
    if (
        not is_whole(size)
        or ids.ndim != 1
        or ids.dtype.kind not in "iu"
        or (ids.size and not 0 <= ids.min() <= ids.max() < size)
    ):
        raise InputError(f"`tokens` must be whole numbers (n,) in [0, {size}); got {ids.dtype} {ids.shape}.")
    return ids
