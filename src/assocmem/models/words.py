"""The spelling of tokens turned back into text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def readable(tokens: Sequence[str], vocabulary: Iterable[str] = ()) -> tuple[str, ...]:
    """Return tokens as text: the signs that tokenisers put for spaces and bytes are turned back.

    Parameters
    ----------
    tokens : sequence of str
    vocabulary : iterable of str
        What tells how they are spelt, where the tokens are too few to tell: GPT-2's signs for bytes, if "Ġ" is in it.

    Examples
    --------
    >>> readable(["Ġking", "ÂµĊ"]), readable(["▁king", "é", "##ing"])
    ((' king', 'µ\\n'), (' king', 'é', '##ing'))
    """
    if any("Ġ" in token for token in vocabulary) or any("Ġ" in token for token in tokens):
        return tuple(_from_bytes(token) for token in tokens)
    return tuple(token.replace("▁", " ") for token in tokens)


def _from_bytes(token: str) -> str:
    """Return the text of a token whose signs stand for bytes, as it is where one of them does not."""
    if any(sign not in _BYTES for sign in token):
        return token
    return bytes(_BYTES[sign] for sign in token).decode("utf-8", "replace")


def _byte_signs() -> dict[str, int]:
    """Return GPT-2's signs: printable ones stand for themselves, the others are numbered from 256."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in plain]
    return {chr(byte): byte for byte in plain} | {chr(256 + i): byte for i, byte in enumerate(others)}


_BYTES = _byte_signs()
