"""The page as files: a static site, or one self-contained HTML file. Both hold the same paths as the live server."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from assocmem.core.errors import InputError
from assocmem.core.results import write_whole
from assocmem.page import offer
from assocmem.page.data import document, offered, paths
from assocmem.page.vendor import STATIC

FILE_WIDTHS = (32, 64)
FILE_DRAWS = 1
SCRIPTS = ("vendor/katex.min.js", "vendor/vega.js")
ASSETS = ("vendor/micropython.mjs", "vendor/micropython.wasm", "teach/outer.py", "teach/softmax.py")


def _progress(names: list[str], words: str) -> Iterator[str]:
    from rich.progress import track

    yield from track(names, description=words)


def export_site(folder: Path) -> Path:
    """Write the static site to a new or empty folder; it appears whole or not at all.

    Raises InputError where the folder holds something already or cannot be written. Cost: about a minute.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder} holds something already; --export wants a new or an empty folder.")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
    except OSError as error:
        raise InputError(f"cannot write {folder}: {error.strerror}; choose another folder.") from error
    try:
        shutil.copytree(STATIC, work, dirs_exist_ok=True)
        _write_data(work / "data", "offer", json.dumps(offered(draws=offer.DRAWS), ensure_ascii=False))
        for path in _progress(list(paths()), "writing the static site"):
            _write_data(work / "data", path, document(path))
        if folder.exists():
            folder.rmdir()
        os.chmod(work, 0o755)
        os.replace(work, folder)
    except BaseException:
        shutil.rmtree(work, ignore_errors=True)
        raise
    print(f"wrote {folder}/index.html; any file server can serve the folder.")
    return folder


def _write_data(data: Path, path: str, text: str) -> None:
    file = data / f"{path}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


def export_file(path: Path) -> Path:
    """Write the page as one HTML file that opens from disk and loads nothing else.

    It holds widths 32 and 64 and one draw; its controls say what they don't offer. Raises InputError where the file
    cannot be written. Cost: about half a minute.
    """
    held = {"offer": offered(widths=FILE_WIDTHS, draws=FILE_DRAWS)}
    for name in _progress(list(paths(widths=FILE_WIDTHS, draws=FILE_DRAWS)), "filling the file"):
        held[name] = json.loads(document(name))
    write_whole(path, single_file(held).encode())
    print(f"wrote {path} ({path.stat().st_size / 1e6:.1f} MB); it opens from disk, offline.")
    return path


def single_file(held: Mapping[str, object]) -> str:
    """Return the page with style, scripts, fonts, teaching code and the given data inside."""
    assets = {name: base64.b64encode((STATIC / name).read_bytes()).decode() for name in ASSETS}
    inside = _json({"data": held, "assets": assets})
    page = (STATIC / "index.html").read_text(encoding="utf-8")
    page = re.sub(r'<link rel="stylesheet" href="([^"]+)">', lambda m: f"<style>{_style(m[1])}</style>", page)
    scripts = "\n".join(f"<script>{_script(STATIC / name)}</script>" for name in SCRIPTS)
    page = page.replace('<script src="vendor/katex.min.js" defer></script>', scripts)
    start = (
        f'<script type="application/json" id="assocmem-data">{inside}</script>\n'
        f'<script type="importmap">{json.dumps({"imports": _modules()})}</script>\n'
        '<script type="module">import "assocmem/app.js";</script>'
    )
    return page.replace('<script src="js/app.js" type="module"></script>', start)


def _json(data: object) -> str:
    text = json.dumps(data, allow_nan=False, separators=(",", ":"), ensure_ascii=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _modules() -> dict[str, str]:
    """Return the page's modules as data addresses; a relative import becomes a name of the import map."""
    made = {}
    for file in sorted((STATIC / "js").glob("*.js")):
        source = re.sub(r'from "\./([\w-]+\.js)"', r'from "assocmem/\1"', file.read_text(encoding="utf-8"))
        made[f"assocmem/{file.name}"] = f"data:text/javascript;base64,{base64.b64encode(source.encode()).decode()}"
    return made


def _style(name: str) -> str:
    """Return a style sheet with its fonts inside."""
    text = (STATIC / name).read_text(encoding="utf-8")

    def font(match: re.Match[str]) -> str:
        content = base64.b64encode((STATIC / name).parent.joinpath(match[1]).read_bytes()).decode()
        return f"url(data:font/woff2;base64,{content})"

    return re.sub(r"url\((fonts/[\w-]+\.woff2)\)", font, text)


def _script(path: Path) -> str:
    return path.read_text(encoding="utf-8").replace("</script", "<\\/script")
