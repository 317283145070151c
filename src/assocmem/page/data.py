"""Every number of the page has a path. The live server computes a path on request, the static site writes the same
paths to files, the single file holds them inside."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from assocmem.contract.errors import InputError
from assocmem.page import bars, cards, contexts, curves, hand, head, offer, specs, streams, why


def offered(*, widths: tuple[int, ...] = offer.WIDTHS, draws: int = offer.LIVE_DRAWS) -> dict[str, Any]:
    """Return what the controls offer, what this copy of the page leaves out, and the chart specifications."""
    notes = {}
    if draws < offer.LIVE_DRAWS:
        held = "one draw" if draws == 1 else f"{draws} draws"
        notes["draw"] = f"This copy holds {held}; assocmem explore offers {offer.LIVE_DRAWS}."
    if widths != offer.WIDTHS:
        named = " and ".join(map(str, widths))
        notes["width"] = f"This copy holds {named}; assocmem explore also {_others(widths)}."
    return {
        "notes": notes,
        "stores": [{"id": c.id, "label": c.label, "sharp": c.sharp} for c in offer.CHOICES],
        "colours": specs.colours(),
        "pictures": list(offer.PICTURES),
        "picture_counts": [1, *offer.COUNTS],
        "letters": list(offer.LETTERS),
        "counts": list(offer.COUNTS),
        "betas": list(offer.BETAS),
        "cosines": list(offer.COSINES),
        "widths": list(widths),
        "draws": draws,
        "references": list(offer.REFERENCES),
        "need": {
            "counts": list(contexts.CALCULATOR_COUNTS),
            "ratios": list(contexts.RATIOS),
            "largest": contexts.LONG_COUNTS[-1],
        },
        "tokens": len(head.TOKENS),
        "streams": streams.offered(),
        "specs": specs.specs(),
    }


def _others(widths: tuple[int, ...]) -> str:
    return " and ".join(str(d) for d in offer.WIDTHS if d not in widths)


@lru_cache(maxsize=512)
def document(path: str) -> str:
    """Return the JSON text of the data at `path`, such as "bars/softmax/64/1/0/8".

    Raises InputError, in one sentence, for a path that is not on the page or has a number it does not offer.
    """
    return json.dumps(_answer(path), allow_nan=False, separators=(",", ":"), ensure_ascii=False)


def _answer(path: str) -> dict[str, Any]:
    match path.split("/"):
        case ["offer"]:
            return offered()
        case ["head"]:
            return head.head()
        case ["mlp"]:
            return head.mlp()
        case ["why"]:
            return why.derivations()
        case ["stores"]:
            return cards.cards()
        case ["glyphs"]:
            return bars.glyph_sheet()
        case ["hand", store, asked]:
            return hand.hand(_among("store", store, hand.STORES), int(_among("pair", asked, ("0", "1", "2"))))
        case ["pictures", store, letter]:
            at = int(_among("letter", letter, tuple(map(str, range(len(offer.LETTERS))))))
            return bars.pictures(store, offer.LETTERS[at])
        case ["bars", store, width, cosine, draw]:
            return _bars(store, width, cosine, draw, None)
        case ["bars", store, width, cosine, draw, beta]:
            return _bars(store, width, cosine, draw, beta)
        case ["curves", width, beta]:
            return curves.curves(int(_number("d_k", width, offer.WIDTHS)), _number("beta", beta, offer.BETAS))
        case ["optimal", width]:
            return curves.optimal(int(_number("d_k", width, offer.WIDTHS)))
        case ["streams", rule, decay, strength]:
            return streams.streams(
                rule, _number("decay", decay, streams.DECAYS), _number("strength", strength, streams.STRENGTHS)
            )
        case ["contexts", width, beta, reference]:
            return contexts.long_contexts(
                int(_number("d_k", width, offer.WIDTHS)),
                _number("beta", beta, offer.BETAS),
                int(_number("L", reference, offer.REFERENCES)),
            )
        case ["calculator", width, cosine]:
            return contexts.calculator(
                int(_number("d_k", width, offer.WIDTHS)), _number("cosine", cosine, offer.COSINES)
            )
    raise InputError(f"the page has no data called {path!r}.")


def _bars(store: str, width: str, cosine: str, draw: str, beta: str | None) -> dict[str, Any]:
    option = offer.choice(store)
    if option.sharp != (beta is not None):
        raise InputError(
            f"the bars of {option.label} {'need a' if option.sharp else 'have no'} sharpness in their path."
        )
    sharpness = 8.0 if beta is None else _number("beta", beta, offer.BETAS)
    number = int(_number("draw", draw, tuple(range(offer.LIVE_DRAWS))))
    return bars.bars(
        option.id, int(_number("d_k", width, offer.WIDTHS)), _number("cosine", cosine, offer.COSINES), number, sharpness
    )


def _among(name: str, text: str, choices: tuple[str, ...]) -> str:
    if text not in choices:
        raise InputError(f"`{name}` must be one of {', '.join(choices)}; got {text!r}.")
    return text


def _number(name: str, text: str, choices: tuple[float, ...]) -> float:
    for choice in choices:
        if text == f"{choice:g}":
            return choice
    shown = ", ".join(f"{c:g}" for c in choices) if len(choices) < 30 else f"{choices[0]:g} to {choices[-1]:g}"
    raise InputError(f"`{name}` must be one of {shown}; got {text!r}.")


def paths(*, widths: tuple[int, ...] = offer.WIDTHS, draws: int = offer.DRAWS) -> Iterator[str]:
    """Yield every path that an export of these widths and draws holds, except "offer"."""
    yield from ("head", "mlp", "why", "stores", "glyphs")
    yield from (f"hand/{store}/{asked}" for store in hand.STORES for asked in range(3))
    yield from (f"pictures/{name}/{i}" for name in offer.PICTURES for i in range(len(offer.LETTERS)))
    for rule in streams.rules():
        decays = streams.DECAYS if rule.decay else (1.0,)
        strengths = streams.STRENGTHS if rule.strength else (1.0,)
        yield from (f"streams/{rule.key}/{a:g}/{b:g}" for a in decays for b in strengths)
    for d in widths:
        yield from (f"calculator/{d}/{c:g}" for c in offer.COSINES)
        yield f"optimal/{d}"
        yield from (f"curves/{d}/{b:g}" for b in offer.BETAS)
        yield from (f"contexts/{d}/{b:g}/{r}" for b in offer.BETAS for r in offer.REFERENCES)
        for option in offer.CHOICES:
            tails = [f"/{b:g}" for b in offer.BETAS] if option.sharp else [""]
            yield from (
                f"bars/{option.id}/{d}/{c:g}/{n}{tail}" for c in offer.COSINES for n in range(draws) for tail in tails
            )
