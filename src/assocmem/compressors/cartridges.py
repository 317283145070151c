"""Cartridges: a short cache of keys and values, trained so that a network answers as with the whole text before it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from assocmem.contract.arrays import to_numpy
from assocmem.contract.errors import DivergedError, InputError
from assocmem.contract.numbers import is_number, is_whole
from assocmem.models.tracing import libraries


@dataclass(frozen=True, eq=False)
class Cartridge:
    """Trained keys and values of every layer, in place of a context.

    Attributes
    ----------
    keys, values : tuples of float32 arrays (h_k, p, d_k), (h_k, p, d_v)
        One of each a layer; keys as they meet the queries, positions 0 to p - 1.
    losses : tuple of float
        Mean cross-entropy to the teacher's words in nats, before every step and after the last one.
    teacher : float
        The same of the network with the whole context; no cartridge is below it where `top` takes in every word.
    """

    keys: tuple[Any, ...]
    values: tuple[Any, ...]
    losses: tuple[float, ...]
    teacher: float

    @property
    def tokens(self) -> int:
        """Rows a head of every layer."""
        return int(self.keys[0].shape[1])

    def cache(self, network: Any) -> Any:
        """Return a fresh cache for transformers' models; the text that follows begins at position p."""
        transformers, torch = libraries()
        like = next(network.parameters())
        pairs = [(torch.as_tensor(k).to(like)[None], torch.as_tensor(v).to(like)[None])
                 for k, v in zip(self.keys, self.values, strict=True)]  # fmt: skip
        return transformers.DynamicCache(pairs)


def self_study(
    network: Any, context: Sequence[int], prompts: Sequence[Sequence[int]], length: int = 32, seed: int = 0
) -> list[list[int]]:
    """Return what the network says about a context: each prompt with `length` tokens sampled behind it.

    Parameters
    ----------
    network : transformers' causal language model
    context, prompts : token numbers
        The text that a cartridge shall hold, and how conversations about it begin.
    length : int
        Tokens sampled a prompt, at temperature 1.
    seed : int

    Returns
    -------
    texts : list of lists of token numbers, without the context

    Raises
    ------
    InputError
        For an empty context or prompt.
    """
    _, torch = libraries()
    if not len(context) or not prompts or not all(len(p) for p in prompts):
        raise InputError("`context` and every one of `prompts` must hold a token.")
    draw, texts = torch.Generator().manual_seed(seed), []
    for prompt in prompts:
        text = list(map(int, prompt))
        with torch.no_grad():
            said = network(torch.as_tensor([[*context, *text]]), use_cache=True)
            for _ in range(length):
                chances = torch.softmax(said.logits[0, -1].float(), -1)
                text.append(int(torch.multinomial(chances, 1, generator=draw)))
                said = network(torch.as_tensor([text[-1:]]), cache=said.cache, use_cache=True)
        texts.append(text)
    return texts


def train_cartridge(
    network: Any, context: Sequence[int], texts: Sequence[Sequence[int]], *, tokens: int, steps: int = 100,
    rate: float = 1e-3, top: int = 20, freeze_first: bool = True, start: Sequence[tuple[Any, Any]] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Cartridge:  # fmt: skip
    """Train keys and values so that the network goes on with texts as it does behind the whole context.

    Parameters
    ----------
    network : transformers' causal language model
        Its weights stay as they are.
    context : token numbers (n,)
    texts : sequence of token numbers
        What may follow the context (`self_study` samples such texts); at least two tokens each.
    tokens : int
        Rows p that each head of each layer keeps, in [1, n].
    steps : int
        Adam steps, each over one text, in turn.
    rate : float
        Step size of Adam.
    top : int
        The teacher's likeliest words a place, whose probabilities are the targets.
    freeze_first : bool
        Whether the first row, an attention sink, stays as it is.
    start : sequence of pairs of arrays (h_k, p, d_k), (h_k, p, d_v), optional
        Where training starts, a pair a layer; by default from the context's first p tokens.
    progress : function of steps done and steps in all

    Returns
    -------
    cartridge : Cartridge

    Raises
    ------
    InputError
        For settings out of range and texts that are too short.
    DivergedError
        Where the loss is no longer finite.
    MissingExtraError
        Without torch and transformers (the extra `trace`).

    Notes
    -----
    The loss is the cross-entropy to the teacher's `top` words, renormalised; the network with the context is the
    teacher. Cost: a forward and a backward pass a step. Source: Eyuboglu et al. 2025, arXiv:2506.06266, section 3:
    context distillation on self-study; its repository's rate is 1e-4 on large batches.
    """
    transformers, torch = libraries()
    n = len(context)
    for name, number, least in (("tokens", tokens, 1), ("steps", steps, 0), ("top", top, 1)):
        if not is_whole(number, least):
            raise InputError(f"`{name}` must be a whole number >= {least}; got {number!r}.")
    if tokens > n:
        raise InputError(f"`tokens` must be at most the {n} tokens of the context; got {tokens}.")
    if not (is_number(rate) and rate > 0):
        raise InputError(f"`rate` must be a finite number > 0; got {rate!r}.")
    if not texts or any(len(text) < 2 for text in texts):
        raise InputError("`texts` must hold texts of at least two tokens each.")
    lessons = [_lesson(network, torch, context, text, top) for text in texts]
    teacher = float(sum(lesson.teacher for lesson in lessons) / len(lessons))
    if start is None:
        with torch.no_grad():
            cache = network(torch.as_tensor([[*context[:tokens]]]), use_cache=True).cache
        start = [(layer.keys[0], layer.values[0]) for layer in cache.layers]
    like = next(network.parameters())
    first = [tuple(torch.as_tensor(x).to(like)[..., :1, :].clone() for x in pair) for pair in start]
    rows = [tuple(torch.as_tensor(x).to(like).detach().clone().requires_grad_() for x in pair) for pair in start]
    if any(tuple(x.shape)[-2] != tokens for pair in rows for x in pair):
        raise InputError(f"`start` must have {tokens} rows a head, as `tokens` says.")

    def held() -> list[tuple[Any, ...]]:
        if not freeze_first:
            return rows
        return [tuple(torch.cat([f, x[..., 1:, :]], -2) for f, x in zip(*layer, strict=True))
                for layer in zip(first, rows, strict=True)]  # fmt: skip

    def loss(lesson: _Lesson) -> Any:
        cache = transformers.DynamicCache([(k[None], v[None]) for k, v in held()])
        logits = network(lesson.tokens, cache=cache).logits[0]
        return -(lesson.targets * torch.log_softmax(logits.float(), -1).gather(-1, lesson.words)).sum(-1).mean()

    def mean_loss() -> float:
        with torch.no_grad():
            return float(sum(float(loss(lesson)) for lesson in lessons) / len(lessons))

    frozen = [p for p in network.parameters() if p.requires_grad]
    adam = torch.optim.Adam([x for pair in rows for x in pair], lr=rate)
    losses = [mean_loss()]
    try:
        for parameter in frozen:
            parameter.requires_grad_(False)
        for step in range(steps):
            adam.zero_grad()
            now = loss(lessons[step % len(lessons)])
            if not bool(torch.isfinite(now)):
                raise DivergedError(f"training diverged at step {step}; give a smaller `rate`.", step=step)
            now.backward()
            adam.step()
            losses.append(float(now.detach()))
            if progress is not None:
                progress(step + 1, steps)
    finally:
        for parameter in frozen:
            parameter.requires_grad_(True)
    losses = [losses[0], *losses[2:], mean_loss()] if steps else losses
    with torch.no_grad():
        final = held()
    keys, values = ([to_numpy(pair[i].detach()).astype(np.float32) for pair in final] for i in (0, 1))
    return Cartridge(tuple(keys), tuple(values), tuple(losses), teacher)


@dataclass(frozen=True, eq=False)
class _Lesson:
    """A text, and at each of its tokens the teacher's likeliest next words with their probabilities."""

    tokens: Any
    words: Any
    targets: Any
    teacher: float


def _lesson(network: Any, torch: Any, context: Sequence[int], text: Sequence[int], top: int) -> _Lesson:
    tokens = torch.as_tensor([list(map(int, text))])
    with torch.no_grad():
        logits = network(torch.cat([torch.as_tensor([list(map(int, context))]), tokens], -1)).logits[0, len(context) :]
        best = torch.log_softmax(logits.float(), -1).topk(min(top, logits.shape[-1]), -1)
        targets = torch.softmax(best.values, -1)
        teacher = float(-(targets * best.values).sum(-1).mean())
    return _Lesson(tokens, best.indices, targets, teacher)
