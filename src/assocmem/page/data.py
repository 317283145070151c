"""Every number of the page has a path. The live server computes a path on request, the static site writes the same
paths to files, the single file holds them inside."""

import importlib
import json
import pkgutil
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

from assocmem.contract.errors import InputError
from assocmem.page.charts import live
from assocmem.page.declare import LIVE, Control, Endpoint, Section
from assocmem.page.words import GLOSSARY, VERDICTS

COMMANDS = "pip install assocmem, then assocmem explore"


def sections() -> dict[str, Section]:
    """Return the sections by name in their order: each file in `sections/` holds one."""
    package = importlib.import_module("assocmem.page.sections")
    return _found(package.__name__, tuple(package.__path__))


@lru_cache(maxsize=1)
def _found(package: str, folders: tuple[str, ...]) -> dict[str, Section]:
    names = [module.name for module in pkgutil.iter_modules(folders)]
    found = {name: importlib.import_module(f"{package}.{name}").SECTION for name in names}
    return dict(sorted(found.items(), key=lambda item: (item[1].place, item[0])))


def endpoints() -> dict[str, Endpoint]:
    """Return the endpoints of all sections by name."""
    return {endpoint.name: endpoint for section in sections().values() for endpoint in section.endpoints}


def offered(copy: str = LIVE) -> dict[str, Any]:
    """Return the declaration that the page's script reads: controls, paths, charts, and sections without a script."""
    every = sections()
    controls = {control.name: control.declared(copy) for section in every.values() for control in section.controls}
    return {
        "controls": controls,
        "endpoints": {name: endpoint.declared() for name, endpoint in endpoints().items()},
        "sections": {name: _declared(section) for name, section in every.items()},
        "charts": _charts(tuple(every.values())),
        "glossary": GLOSSARY,
        "verdicts": [{"above": above, "id": name, **words} for above, name, words in VERDICTS],
        "note": _lacking(copy, [control for section in every.values() for control in section.controls]),
    }


def _lacking(copy: str, controls: Iterable[Control]) -> str:
    """Return one sentence on what a copy of the page leaves out, "" where it is nothing."""
    lacks = list(dict.fromkeys(words for control in controls if (words := control.lacks(copy))))
    if not lacks:
        return ""
    told = " and ".join([", ".join(lacks[:-1]), lacks[-1]] if lacks[1:] else lacks)
    return f"The Python package assocmem serves this page with {told}: {COMMANDS}."


def _declared(section: Section) -> dict[str, Any]:
    own = {"title": section.title, "text": section.text, "link": section.link} if section.title else {}
    return {
        "sliders": [control.name for control in section.sliders],
        "buttons": [control.name for control in section.controls if control.buttons],
        "endpoints": [one.name for one in section.endpoints],
        "place": section.place,
        "words": section.words,
        **own,
    }


@lru_cache(maxsize=1)
def _charts(every: tuple[Section, ...]) -> dict[str, Any]:
    return {name: live(dict(view), height) for one in every for name, (view, height) in one.charts.items()}


def document(path: str) -> str:
    """Return the JSON text of the data at `path`, such as "bars/softmax/64/1/0/8".

    Raises InputError, in one sentence, for a path that is not on the page or has a number it does not offer.
    """
    name, *words = path.split("/")
    if path == "offer":
        return text(offered())
    if name not in endpoints():
        raise InputError(f"the page has no data called {path!r}.")
    return text(endpoints()[name].asked(words))


def text(answer: Any) -> str:
    """Return an answer as the page's JSON."""
    return json.dumps(answer, allow_nan=False, separators=(",", ":"), ensure_ascii=False)


def first_paths() -> list[str]:
    """Return the paths that the page cannot start without."""
    return ["offer", *(path for one in endpoints().values() if one.first for path in one.paths(LIVE, usual=True))]


def paths(copy: str) -> Iterator[str]:
    """Yield every path that a copy of the page holds, except "offer"."""
    for endpoint in endpoints().values():
        yield from endpoint.paths(copy)
