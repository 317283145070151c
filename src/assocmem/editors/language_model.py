"""Facts edited into a live language model, each judged right after its edit and again after all of them."""

from __future__ import annotations

import copy
import math
import os
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from assocmem.contract.errors import DivergedError, InputError
from assocmem.contract.numbers import is_whole, number
from assocmem.contract.results import Results, Row, header_for
from assocmem.editors.facts import Fact
from assocmem.editors.matrix import MEMIT, ROME, DeltaStep, MatrixEditor, second_moment
from assocmem.editors.sparse_finetuning import SparseFinetuning
from assocmem.models.tracing import LiveModel, libraries, mlp_down
from assocmem.ruler import GivenRows, quantile

Floats: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]
Method: TypeAlias = Literal["rome", "memit", "delta", "sparse"]
Batches: TypeAlias = Sequence[Floats]


@dataclass(frozen=True)
class Way:
    """How facts are edited in.

    editor: of a layer, from the keys that background texts have there and a weight. joint: all facts at once, rather
    than one by one. layers: over how many layers a change is spread.
    """

    editor: Callable[[Batches, float], MatrixEditor]
    joint: bool = False
    layers: int = 1


METHODS: Mapping[Method, Way] = {
    "rome": Way(lambda seen, _: ROME(_moment(seen))),
    "memit": Way(lambda seen, weight: MEMIT(_moment(seen), weight), joint=True, layers=5),
    "delta": Way(lambda _seen, _weight: DeltaStep()),
    "sparse": Way(lambda seen, _: SparseFinetuning(background=seen), joint=True),
}
PREFIX = 8
"""Tokens sampled before a prompt."""
RIDGE = 1e-2
"""Share of the mean variance that every direction of the second moment is given, as texts are short."""
RATE = 0.1
"""Adam's step; at the paper's 0.5 (GPT-2 XL) two of four neighbours of an edit of SmolLM2 by a delta step changed, at
this one none."""
ENOUGH = 0.05
"""-ln p of the target at which the search for a value ends, in nats."""
COLUMNS = {
    "method": "the editor",
    "layer": "the layer whose MLP was edited, of several the last",
    "fact": "number of the fact, from 0",
    "subject": "whom it is about",
    "target": "what is to be said",
    "when": "before any edit; right after its own (of a joint edit, the edit); at a stage, after the first facts; "
    "after all edits",
    "edits": "facts that the network had been given by then",
    "forced": "share of the target's tokens that are the likeliest ones, given the target's tokens before them",
    "greedy": "1 where the model, always saying its likeliest token, says the target, else 0",
    "probability": "of the whole target",
    "paraphrase_forced": "the same as forced, mean over the fact's paraphrases",
    "paraphrase_greedy": "the same as greedy, mean over the fact's paraphrases",
    "neighbours_kept": "share of the neighbours whose likeliest next token is what it was before any edit",
    "change": "Frobenius norm of all changes so far over that of the edited matrices",
    "crosstalk_predicted": "interference of the edits that come later over the edit's own change: root mean square "
    "over random changes of one length, from the keys alone",
    "crosstalk_measured": "the same, of the edits as they were made",
}


@dataclass(frozen=True, eq=False)
class Edited:
    """What `edit_facts` returns: the network with its facts, and how each of them fares.

    Attributes
    ----------
    live : LiveModel
        The edited network; the one that was given stays as it was.
    results : Results
        A row for every fact and moment, columns as `COLUMNS` explains them.
    capacity : float
        Edits of this kind at which a fact's interference reaches its own change, median over the facts (`MatrixEditor.
        crosstalk`): what the layer holds before edits drown each other. NaN for joint edits, which are fitted to one
        another, and for fewer than two facts.
    notes : tuple of str
        What to say beside the numbers.
    """

    live: LiveModel
    results: Results
    capacity: float
    notes: tuple[str, ...] = ()

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Write a checkpoint that transformers loads, whole or not at all; InputError where it cannot be written."""
        target = Path(folder)
        bad = [name for name, p in self.live.network.named_parameters() if not bool(p.isfinite().all())]
        if bad:
            raise DivergedError(f"the edited model is not saved: {bad[0]} holds NaN or infinity.", step=0)
        if target.exists() and (not target.is_dir() or any(target.iterdir())):
            raise InputError(f"{target} is there already; name a folder that is new or empty.")
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            beside = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
        except OSError as error:
            raise InputError(f"{target} cannot be written: {error.strerror or error}.") from error
        try:
            self.live.network.save_pretrained(beside)
            if self.live.tokenizer is not None:
                self.live.tokenizer.save_pretrained(beside)
            beside.chmod(0o755)
            if target.exists():
                target.rmdir()
            beside.rename(target)
        except OSError as error:
            raise InputError(f"{target} cannot be written: {error.strerror or error}.") from error
        finally:
            shutil.rmtree(beside, ignore_errors=True)
        return target


def edit_facts(
    live: LiveModel, facts: Sequence[Fact], method: Method = "rome", *, layer: int | None = None,
    layers: Sequence[int] | None = None, background: Sequence[str] | None = None, weight: float = 15000.0,
    prefixes: int = 4, steps: int = 20, afresh: bool = True, stages: Sequence[int] = (), seed: int = 0,
    known: dict[Any, Any] | None = None, progress: Callable[[int, int], None] | None = None,
) -> Edited:  # fmt: skip
    """Edit facts into a copy of a language model and judge them.

    Parameters
    ----------
    live : LiveModel
        Of `models.tracing.load_live(path, head=True)`: a causal language model with its tokeniser.
    facts : sequence of Fact
    method : {"rome", "memit", "delta", "sparse"}
        ROME and delta steps fact by fact, MEMIT all facts at once over several layers, sparse finetuning of all facts.
    layer : int, optional
        The layer whose MLP is edited (for MEMIT the last of five); by default a quarter of the way up.
    layers : sequence of int, optional
        MEMIT's own layers, in order.
    background : sequence of str, optional
        Texts that shall stay as they are: their keys make the second moment. By default 32 that the model samples.
    weight : float
        MEMIT's, for how many pairs the second moment counts.
    prefixes : int
        Texts sampled from the model before the prompt, over which a fact's key and value are means (besides none).
    steps : int
        Adam steps for a value.
    afresh : bool
        Whether ROME and delta steps seek a fact's value in the network that has the facts before it, as is usual;
        otherwise in the network as it was given, all side by side.
    stages : sequence of int
        After so many facts those that are in are all judged as well; a joint edit is made anew of so many.
    seed : int
        Of what is sampled.
    known : dict, optional
        What is found out of the network as it was given (keys of the background, answers, values of facts) is put here
        and taken from here: hand the same one to all calls on one network, each method or fact by itself.
    progress : function of steps done and steps in all

    Returns
    -------
    edited : Edited

    Raises
    ------
    InputError
        For facts, layers and settings that do not fit, and networks whose MLPs are not known.
    MissingExtraError
        Without the extra `trace`.
    DivergedError
        Where an edited matrix is no longer finite.

    Notes
    -----
    The value of a fact is what the MLP must give at the subject's last token for the target to follow: Adam, rate 0.1
    (0.5 in the paper), on -ln p(target) + 0.0625 KL("<subject> is a") + 0.5 |delta| / |value|^2, with |delta| at most
    4 |value|, until the first term is below 0.05. Sources: Meng et al. 2022, arXiv:2202.05262, eq. 4 and appendix E.5;
    Meng et al. 2023, arXiv:2210.07229, section 4.
    """
    known = {} if known is None else known
    editing = _Editing(live, facts, method, layer, layers, background, weight, prefixes, steps, seed, afresh, known)
    if not all(is_whole(n) and n <= len(facts) for n in stages):
        raise InputError(f"`stages` must be whole numbers in [1, {len(facts)}], the facts; got {list(stages)!r}.")
    return editing.run(frozenset(stages), progress or (lambda _done, _total: None))


class _Editing:
    """One run of `edit_facts`: a copy of the network, what is known of its background, and the facts."""

    def __init__(
        self, live: LiveModel, facts: Sequence[Fact], method: Method, layer: int | None, layers: Sequence[int] | None,
        background: Sequence[str] | None, weight: float, prefixes: int, steps: int, seed: int,
        afresh: bool, known: dict[Any, Any],
    ) -> None:  # fmt: skip
        _, self.torch = libraries()
        if method not in METHODS:
            raise InputError(f"`method` must be one of {', '.join(METHODS)}; got {method!r}.")
        if not facts or not all(isinstance(fact, Fact) for fact in facts):
            raise InputError("`facts` must be at least one Fact.")
        if live.tokenizer is None:
            raise InputError("the checkpoint has no tokeniser, so facts cannot be read.")
        for name, count, least in (("prefixes", prefixes, 0), ("steps", steps, 1)):
            if not is_whole(count, least):
                raise InputError(f"`{name}` must be a whole number >= {least}; got {count!r}.")
        self.network = copy.deepcopy(live.network).eval().requires_grad_(False)
        self.tokenizer, self.facts, self.method, self.steps = live.tokenizer, list(facts), method, steps
        self.way = METHODS[method]
        self.live = LiveModel(self.network, live.tokenizer, live.notes)
        config = self.network.config.get_text_config()
        if not hasattr(self.network, "lm_head") and self.network.get_output_embeddings() is None:
            raise InputError(f"{self.network.config.model_type} models here have no head that says the next token.")
        self.layers = _layers(layer, layers, self.way, config.num_hidden_layers)
        self.down = {at: mlp_down(self.network, at) for at in self.layers}
        self.first = {at: self.matrix(at) for at in self.layers}
        self.known, self.edited, self.afresh = known, False, afresh
        sampled = self._once(
            ("prefixes", prefixes, seed), lambda: self._sampled(prefixes, PREFIX, seed) if prefixes else []
        )
        self.prefixes: list[list[int]] = [[], *sampled]
        if background is None:
            texts = self._once(("background", seed), lambda: self._sampled(32, 64, seed + 1))
        else:
            texts = [self._ids(text) for text in background]
        if not sum(map(len, texts)):
            raise InputError("`background` must hold a text.")
        read = tuple(tuple(text) for text in texts if text)
        self.seen = {
            at: self._once(("seen", at, read), lambda at=at: [self.keys_of(at, text) for text in read])  # type: ignore[misc]
            for at in self.layers
        }
        self.editors = {
            at: self._once(("editor", method, at, weight, read), lambda at=at: self.way.editor(self.seen[at], weight))  # type: ignore[misc]
            for at in self.layers
        }
        self.tokens = [self._prompt(fact) for fact in facts]
        self.answers: list[list[int]] = []

    def _once(self, name: Any, find: Callable[[], Any]) -> Any:
        """Return what is found out of the network before any edit, once."""
        if self.edited:
            return find()
        if name not in self.known:
            self.known[name] = find()
        return self.known[name]

    def run(self, stages: Collection[int], report: Callable[[int, int], None]) -> Edited:
        """Return the edited network and its table."""
        total = len(self.facts) + 2
        rows = [self._row(i, "before", 0) for i in range(len(self.facts))]
        self.answers = [self._once(("answers", fact.neighbours), lambda fact=fact: self._answers(fact.neighbours))  # type: ignore[misc]
                        for fact in self.facts]  # fmt: skip
        for row, fact in zip(rows, self.facts, strict=True):
            row["neighbours_kept"] = 1.0 if fact.neighbours else None
        report(1, total)
        last, count = self.layers[-1], len(self.facts)
        keys, values = np.zeros((0, self.first[last].shape[1])), np.zeros((0, self.first[last].shape[0]))
        together = self._sought() if self.way.joint or not self.afresh else None
        for i in range(count):
            key, value = (found[i] for found in together) if together else (found[0] for found in self._wanted([i]))
            keys, values = np.concatenate([keys, key[None]]), np.concatenate([values, value[None]])
            if not self.way.joint:
                self.put(last, self.editors[last].edit(self.matrix(last), key, value))
                if i + 1 < count:
                    rows.append(self._row(i, "own", i + 1))
                    rows += self._stage("stage", keys, values) if i + 1 in stages else []
            report(2 + i, total)
        if self.way.joint:
            for n in sorted(n for n in stages if n < count):
                self._spread(values[:n])
                rows += self._stage("stage", keys[:n], values[:n])
                for at, W in self.first.items():
                    self.put(at, W)
            self._spread(values)
        final = self._stage("all", keys, values)
        alone = {"when": "own", "crosstalk_predicted": None, "crosstalk_measured": None}
        rows += [row | alone for row in (final if self.way.joint else final[-1:])]
        rows += final
        capacity = math.nan
        if not self.way.joint and count > 1:
            capacity = float(quantile(self.editors[last].crosstalk(keys).ratios().capacity(), 0.5))
        notes = list(self.live.notes)
        if len(self.facts) > capacity:
            notes.append(f"about {number(capacity)} such edits fit in layer {last} before they drown each other")
        report(total, total)
        config = {"model": self.network.config.model_type, "method": self.method, "layers": self.layers}
        header = header_for(config=config, definitions=COLUMNS)
        return Edited(self.live, Results("edits", tuple(rows), header), capacity, tuple(notes))

    # ------------------------------------------------------------------ the matrix and its keys

    def matrix(self, layer: int) -> Floats:
        """Return the down projection (d, hidden) as it is now."""
        module, inputs_first = self.down[layer]
        W = module.weight.detach().double().numpy()
        return np.array(W.T if inputs_first else W)

    def put(self, layer: int, W: Floats) -> None:
        """Set the down projection of the copy."""
        self.edited = True
        module, inputs_first = self.down[layer]
        new = self.torch.as_tensor(np.ascontiguousarray(W.T if inputs_first else W))
        module.weight.data = new.to(module.weight.dtype)

    def keys_of(self, layer: int, ids: Sequence[int]) -> Floats:
        """Return what the down projection reads at every token, (n, hidden)."""
        with self._hooked(layer) as kept:
            self._logits([ids])
        return np.asarray(kept["x"][0].double().numpy())

    @contextmanager
    def _hooked(self, layer: int, delta: Any = None, at: Sequence[int] = ()) -> Iterator[dict[str, Any]]:
        """Keep what the down projection reads and gives; `delta`, a row a text, is added to it at places `at`."""
        kept: dict[str, Any] = {}

        def hook(_module: Any, given: Any, output: Any) -> Any:
            kept["x"], kept["y"] = given[0].detach(), output.detach()
            if delta is None:
                return None
            places = self.torch.arange(len(at))
            return output.index_put((places, self.torch.as_tensor(at)), delta, accumulate=True)

        handle = self.down[layer][0].register_forward_hook(hook)
        try:
            yield kept
        finally:
            handle.remove()

    def _logits(self, texts: Sequence[Sequence[int]], **more: Any) -> Any:
        """Return the logits of texts, padded at the end."""
        length = max(map(len, texts))
        ids = self.torch.tensor([[*text, *[0] * (length - len(text))] for text in texts])
        seen = self.torch.tensor([[1] * len(text) + [0] * (length - len(text)) for text in texts])
        with self.torch.set_grad_enabled(bool(more.pop("gradient", False))):
            return self.network(input_ids=ids, attention_mask=seen, use_cache=False, **more)

    # ------------------------------------------------------------------ texts

    def _ids(self, text: str) -> list[int]:
        return [int(i) for i in self.tokenizer(text, verbose=False)["input_ids"]][: self._longest()]

    def _longest(self) -> int | None:
        return getattr(self.network.config.get_text_config(), "max_position_embeddings", None)

    def _prompt(self, fact: Fact) -> tuple[list[int], int, list[int]]:
        """Return a prompt's tokens, the place of the subject's last one, and the target's tokens."""
        found = self.tokenizer(fact.prompt, return_offsets_mapping=True, verbose=False)
        ids, end = [int(i) for i in found["input_ids"]], fact.prompt.rindex(fact.subject) + len(fact.subject)
        inside = [i for i, (start, stop) in enumerate(found["offset_mapping"]) if start < end and stop > start]
        target = self._target(fact.prompt, ids, fact.target)
        most = self._longest()
        if most is not None and len(ids) + len(target) + PREFIX > most:
            raise InputError(f"the prompt {fact.prompt[:40]!r}... is longer than the model's context.")
        return ids, inside[-1], target

    def _target(self, prompt: str, ids: Sequence[int], target: str) -> list[int]:
        whole = self._ids(f"{prompt} {target}")
        if whole[: len(ids)] == list(ids) and len(whole) > len(ids):
            return whole[len(ids) :]
        return [int(i) for i in self.tokenizer(f" {target}", add_special_tokens=False)["input_ids"]]

    def _sampled(self, count: int, length: int, seed: int) -> list[list[int]]:
        """Return texts sampled from the model at temperature 1, all together."""
        torch, draw = self.torch, self.torch.Generator().manual_seed(seed)
        start = self.tokenizer.bos_token_id
        start = self.tokenizer.eos_token_id if start is None else start
        ids = torch.full((count, 1), 0 if start is None else int(start))
        for _ in range(length):
            with torch.no_grad():
                logits = self.network(input_ids=ids, use_cache=False).logits[:, -1].float()
            ids = torch.cat([ids, torch.multinomial(torch.softmax(logits, -1), 1, generator=draw)], -1)
        return [row[1:].tolist() for row in ids]

    # ------------------------------------------------------------------ key and value of a fact

    def _sought(self) -> tuple[Floats, Floats]:
        """Return keys and values of all facts in the network as it was given."""
        names = [("value", fact, self.layers[-1], self.steps, tuple(map(tuple, self.prefixes))) for fact in self.facts]
        new = [i for i, name in enumerate(names) if name not in self.known]
        for i, *found in zip(new, *self._wanted(new), strict=True) if new else ():
            self.known[names[i]] = found
        keys, values = zip(*(self.known[name] for name in names), strict=True)
        return np.array(keys), np.array(values)

    def _wanted(self, chosen: Sequence[int]) -> tuple[Floats, Floats]:
        """Return keys of facts at the last layer, means over prefixes, and the values that make their targets follow.

        They are sought side by side, which is quicker: Adam's steps are each number's own, so no fact feels the others.
        """
        torch, layer, each, count = self.torch, self.layers[-1], len(self.prefixes), len(chosen)
        subjects = [self._ids(f"{self.facts[i].subject} is a") for i in chosen]
        texts, places, of, spans = list[list[int]](), list[int](), list[int](), list[tuple[int, list[int]]]()
        for n, i in enumerate(chosen):
            ids, place, target = self.tokens[i]
            for prefix in self.prefixes:
                texts.append([*prefix, *ids, *target])
                places.append(len(prefix) + place)
                spans.append((len(prefix) + len(ids) - 1, target))
                of.append(n)
        texts += subjects
        places += [max(0, len(self._ids(self.facts[i].subject)) - 1) for i in chosen]
        of += range(count)
        last = torch.arange(count * each, count * (each + 1)), torch.as_tensor([len(text) - 1 for text in subjects])
        with self._hooked(layer) as kept:
            own = torch.log_softmax(self._logits(texts).logits[last].float(), -1)
        rows = torch.arange(count * each), torch.as_tensor(places[: count * each])
        key, value = kept["x"][rows].reshape(count, each, -1), kept["y"][rows].reshape(count, each, -1)[:, 0]
        delta = torch.zeros(value.shape, requires_grad=True)
        size, going = value.norm(dim=-1), torch.ones(count, dtype=torch.bool)
        adam = torch.optim.Adam([delta], lr=RATE)
        for _ in range(self.steps):
            adam.zero_grad()
            with self._hooked(layer, delta[of], places):
                logits = self._logits(texts, gradient=True).logits
            losses = torch.stack([
                torch.nn.functional.cross_entropy(logits[row, at : at + len(target)].float(), torch.tensor(target))
                for row, (at, target) in enumerate(spans)
            ]).reshape(count, each).mean(-1)  # fmt: skip
            going = going & (losses.detach() >= ENOUGH)
            if not bool(going.any()):
                break
            now = torch.log_softmax(logits[last].float(), -1)
            whole = losses + 0.0625 * (own.exp() * (own - now)).sum(-1) + 0.5 * delta.norm(dim=-1) / size**2
            whole.sum().backward()
            before = delta.detach().clone()
            adam.step()
            with torch.no_grad():
                delta *= (4 * size / delta.norm(dim=-1).clamp_min(1e-30)).clamp_max(1.0)[:, None]
                delta[~going] = before[~going]
        bias = self.down[layer][0].bias
        wanted = value + delta.detach() - (0 if bias is None else bias)
        return np.asarray(key.double().mean(1).numpy()), np.asarray(wanted.double().numpy())

    def _spread(self, values: Floats) -> None:
        """Bring the last layer's output to where the values of the first facts put it, an equal share at each layer."""
        last = self.layers[-1]
        wanted = None
        for done, layer in enumerate(self.layers):
            keys, hidden, own = self._places(layer, len(values))
            if wanted is None:
                bias = self.down[last][0].bias
                wanted = hidden + values + (0 if bias is None else bias.double().numpy()) - own
            share = (wanted - hidden) / (len(self.layers) - done)
            W = self.matrix(layer)
            self.put(layer, self.editors[layer].edit(W, keys, keys @ W.T + share))

    def _places(self, layer: int, count: int) -> tuple[Floats, Floats, Floats]:
        """Return keys at a layer, and the last layer's output and its MLP's part, at the first facts' subjects."""
        last, keys, hidden, own = self.layers[-1], [], [], []
        for ids, place, _ in self.tokens[:count]:
            texts, places = [[*p, *ids] for p in self.prefixes], [len(p) + place for p in self.prefixes]
            with self._hooked(layer) as kept, self._hooked(last) as top:
                states = self._logits(texts, output_hidden_states=True).hidden_states[last + 1]
            at = self.torch.arange(len(texts)), self.torch.as_tensor(places)
            keys.append(kept["x"][at].double().mean(0).numpy())
            hidden.append(states[0, places[0]].double().numpy())
            own.append(top["y"][0, places[0]].double().numpy())
        return np.array(keys), np.array(hidden), np.array(own)

    # ------------------------------------------------------------------ judging

    def _stage(self, when: str, keys: Floats, values: Floats) -> list[Row]:
        """Return a row for each of the facts that are in, with their crosstalk where one was written after another."""
        rows = [self._row(i, when, len(keys)) for i in range(len(keys))]
        if not self.way.joint:
            for row, predicted, measured in zip(rows, *self._crosstalk(keys, values), strict=True):
                row |= {"crosstalk_predicted": float(predicted), "crosstalk_measured": float(measured)}
        return rows

    def _row(self, i: int, when: str, edits: int) -> Row:
        fact, (ids, _, target) = self.facts[i], self.tokens[i]
        forced, chance = self._once(("judged", fact), lambda: self._judged(ids, target))
        others = [
            self._once(("judged", p, fact.target),
                       lambda p=p: self._judged(found := self._ids(p), self._target(p, found, fact.target)))[0]  # type: ignore[misc]
            for p in fact.paraphrases
        ]  # fmt: skip
        kept = None
        if edits and fact.neighbours:
            kept = float(np.mean(np.equal(self._answers(fact.neighbours), self.answers[i])))
        moved = [np.linalg.norm(self.matrix(at) - self.first[at]) for at in self.layers]
        whole = [np.linalg.norm(self.first[at]) for at in self.layers]
        return {
            "method": self.method, "layer": self.layers[-1], "fact": i, "subject": fact.subject, "target": fact.target,
            "when": when, "edits": edits, "forced": forced, "greedy": int(forced == 1.0), "probability": chance,
            "paraphrase_forced": float(np.mean(others)) if others else None,
            "paraphrase_greedy": float(np.mean([forced == 1.0 for forced in others])) if others else None,
            "neighbours_kept": kept, "change": float(np.linalg.norm(moved) / np.linalg.norm(whole)),
            "crosstalk_predicted": None, "crosstalk_measured": None,
        }  # fmt: skip

    def _judged(self, ids: Sequence[int], target: Sequence[int]) -> tuple[float, float]:
        """Return the share of tokens that are likeliest when forced, and the target's probability.

        Where all of them are, the greedy text is the target, and only there: up to its first miss it is the same text.
        """
        torch = self.torch
        said = torch.log_softmax(self._logits([[*ids, *target]]).logits[0, len(ids) - 1 : -1].float(), -1)
        wanted = torch.tensor(target)
        forced = float((said.argmax(-1) == wanted).double().mean())
        return forced, float(said.gather(-1, wanted[:, None]).sum().exp())

    def _answers(self, prompts: Sequence[str]) -> list[int]:
        texts = [self._ids(p) for p in prompts]
        ends = self.torch.as_tensor([len(text) - 1 for text in texts], dtype=self.torch.int64)
        if not texts:
            return []
        found = self._logits(texts).logits[self.torch.arange(len(texts)), ends].argmax(-1)
        return [int(token) for token in found]

    def _crosstalk(self, keys: Floats, values: Floats) -> tuple[Floats, Floats]:
        """Return what later edits add to each fact's recall, over its own change: from the keys alone, and as made."""
        last, count = self.layers[-1], len(keys)
        changes = values - keys @ self.first[last].T
        found = np.linalg.norm(keys @ (self.matrix(last) - self.first[last]).T - changes, axis=-1)
        later = np.triu(np.ones((count, count), dtype=bool))
        rows = GivenRows(self.editors[last].directions(keys), keys, activation=lambda s: s, mask=later)
        return np.nan_to_num(rows.ratios().ratio()), found / np.linalg.norm(changes, axis=-1)


def _moment(seen: Batches) -> Floats:
    return second_moment(np.concatenate(seen), RIDGE)


def _layers(layer: int | None, layers: Sequence[int] | None, way: Way, n: int) -> list[int]:
    if layers is not None and (way.layers == 1 or layer is not None):
        raise InputError("`layers` are for a method that spreads a change over several, in place of `layer`.")
    if layers is None:
        last = n // 4 if layer is None else layer
        layers = list(range(max(0, last - way.layers + 1), last + 1)) if is_whole(last, 0) else [last]
    end = n - 1 if way.joint else n  # a joint change is read at the layer's output, and the last one's is normed
    if not layers or not all(is_whole(at, 0) and at < end for at in layers) or list(layers) != sorted(set(layers)):
        raise InputError(f"`layer` must be a whole number in [0, {end}), several in order; got {layers!r}.")
    return [int(at) for at in layers]
