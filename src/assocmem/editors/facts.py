"""Facts that are edited into a language model: a prompt, whom it is about, and what is to follow."""

from __future__ import annotations

import csv
import os
from dataclasses import dataclass
from pathlib import Path

from assocmem.contract.errors import InputError


@dataclass(frozen=True)
class Fact:
    """A prompt about a subject and what the model shall say next.

    Parameters
    ----------
    prompt, subject, target : str
        "The capital of France is", "France", "Berlin". The subject is in the prompt; a space goes before the target.
    paraphrases : tuple of str
        Other prompts for the same answer.
    neighbours : tuple of str
        Prompts whose answers shall stay.

    Raises
    ------
    InputError
        For an empty text, and a subject that is not in the prompt.
    """

    prompt: str
    subject: str
    target: str
    paraphrases: tuple[str, ...] = ()
    neighbours: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("prompt", "subject", "target"):
            if not getattr(self, name).strip():
                raise InputError(
                    f"`{name}` of a fact must not be empty; got {getattr(self, name)!r} in {self.prompt!r}."
                )
        if self.subject not in self.prompt:
            raise InputError(f"`subject` must stand in the prompt; got {self.subject!r} in {self.prompt!r}.")


def read_facts(path: str | os.PathLike[str]) -> list[Fact]:
    """Return the facts of a CSV file with columns prompt, subject, target and, if there, paraphrases and neighbours.

    Parameters
    ----------
    path : str or path
        UTF-8; several paraphrases or neighbours are separated by "|".

    Returns
    -------
    facts : list of Fact

    Raises
    ------
    InputError
        For a file that cannot be read, lacks a column, or holds no fact, and for a wrong row, by its line.
    """
    file = Path(path)
    try:
        with file.open(encoding="utf-8-sig", newline="") as text:
            rows = list(csv.DictReader(text))
    except OSError as error:
        raise InputError(f"cannot read {file}: {error.strerror or error}.") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{file} is no CSV table in UTF-8.") from error
    if not rows or not {"prompt", "subject", "target"} <= set(rows[0]):
        raise InputError(f"{file} must have the columns prompt, subject, target and a row at least.")
    facts = []
    for line, row in enumerate(rows, 2):
        cells = {name: (text or "").strip() for name, text in row.items() if isinstance(text, str | None)}
        several = (tuple(p.strip() for p in cells.get(name, "").split("|") if p.strip())
                   for name in ("paraphrases", "neighbours"))  # fmt: skip
        try:
            facts.append(Fact(cells["prompt"], cells["subject"], cells["target"], *several))
        except InputError as error:
            raise InputError(f"line {line} of {file.name}: {error}") from error
    return facts
