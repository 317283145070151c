"""The page as files: a static site, or one self-contained HTML file. Both hold the same paths as the live server."""

import base64
import gzip
import json
import os
import re
import shutil
import tempfile
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from assocmem.contract.errors import InputError
from assocmem.contract.files import write_whole
from assocmem.kernels.compute import Helpers, cores, one_blas_thread
from assocmem.page import STATIC
from assocmem.page.data import document, offered, paths, text
from assocmem.page.declare import FILE, SITE

SHELF = 48
SITE_BYTES, FILE_BYTES = 70e6, 10e6
"""What the exports take on a disk, and some more."""
SCRIPTS = ("vendor/katex.min.js", "vendor/vega.js")
ASSETS = ("vendor/micropython.mjs", "vendor/micropython.wasm", *(f"teach/{p.name}" for p in STATIC.glob("teach/*.py")))


def export(target: Path, *, chosen: Sequence[str] | None = None, workers: int | None = None) -> Path:
    """Write the page: one file where `target` ends in .html or .htm, else a folder of static files; return the target.

    The file opens from disk and loads nothing else; it holds widths 32 and 64 and one draw, and its controls say what
    they don't offer. The folder is new or empty, and appears whole or not at all.

    Parameters: chosen, paths of data to write in place of all of them; workers, processes that compute them (by
    default one for each core). Raises InputError, before anything is computed, for a target that cannot be written,
    that holds something already, or that ends like another kind of file. Cost: on two cores half a minute for the
    file, a minute for the folder (about 5,000 files, 40 MB).
    """
    if target.suffix in (".html", ".htm"):
        return export_file(target, chosen, workers)
    if re.fullmatch(r"\.[A-Za-z]\w*", target.suffix) and not target.is_dir():
        raise InputError(f"--export writes a folder, or one file that ends in .html; got {target}.")
    return export_site(target, chosen, workers)


def export_site(folder: Path, chosen: Sequence[str] | None = None, workers: int | None = None) -> Path:
    """Write the static site, see `export`."""
    with _refused(folder, SITE_BYTES):
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise InputError(f"{folder} holds something already; --export wants a new or an empty folder.")
        work = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
        try:
            for file in STATIC.rglob("*.*"):
                _put(work / file.relative_to(STATIC), file.read_bytes())
            _put(work / "data" / "offer.json", text(offered(SITE)).encode())
            names = list(paths(SITE)) if chosen is None else chosen
            with closing(_computed(names, workers, "writing the static site")) as computed:
                for name, found in computed:
                    _put(work / "data" / f"{name}.json", found.encode())
            if folder.exists():
                folder.rmdir()
            os.chmod(work, 0o755)
            os.replace(work, folder)
        except BaseException:
            shutil.rmtree(work, ignore_errors=True)
            raise
    print(f"wrote {folder}/index.html; any file server can serve the folder.")
    return folder


def export_file(path: Path, chosen: Sequence[str] | None = None, workers: int | None = None) -> Path:
    """Write the page as one HTML file, see `export`."""
    if not path.parent.is_dir():
        raise InputError(f"cannot write {path}: there is no folder {path.parent}.")
    with _refused(path, FILE_BYTES):
        if path.exists() and not path.is_file():
            raise InputError(f"cannot write {path}: what stands there is no file; choose another name.")
        with tempfile.TemporaryFile(dir=path.parent):  # a folder that can be written
            held: dict[str, object] = {"offer": offered(FILE)}
        names = list(paths(FILE)) if chosen is None else chosen
        with closing(_computed(names, workers, "filling the file")) as computed:
            held |= {name: json.loads(found) for name, found in computed}
        write_whole(path, single_file(held).encode())
    print(f"wrote {path} ({path.stat().st_size / 1e6:.1f} MB); it opens from disk, offline.")
    return path


@contextmanager
def _refused(target: Path, needed: float) -> Iterator[None]:
    """Say in one sentence why a target of so many bytes cannot be written."""
    try:
        if target.is_symlink() and not target.exists():
            raise InputError(f"cannot write {target}: it is a link that leads nowhere; choose another place.")
        target.parent.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(target.parent).free
        if free < needed:
            words = f"it takes {needed / 1e6:.0f} MB, and {free / 1e6:.0f} MB are free there"
            raise InputError(f"cannot write {target}: {words}; choose another place.")
        yield
    except (OSError, ValueError) as error:
        if isinstance(error, ValueError) and "null" not in str(error):
            raise
        words = getattr(error, "strerror", None) or str(error)
        raise InputError(f"cannot write {target}: {words}; choose another place.") from error


def _put(file: Path, content: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)


def _computed(names: Sequence[str], workers: int | None, words: str) -> Generator[tuple[str, str], None, None]:
    """Yield each path with its document, computed in processes, a shelf of neighbouring paths at a time."""
    from rich.progress import Progress

    shelves = [names[i : i + SHELF] for i in range(0, len(names), SHELF)]
    workers = min(workers or cores(), len(shelves))
    with Progress(transient=True) as progress:
        task = progress.add_task(words, total=len(names))
        with closing(_over(shelves, workers)) as computed:
            for shelf in computed:
                yield from shelf
                progress.update(task, advance=len(shelf))


def _over(shelves: Sequence[Sequence[str]], workers: int) -> Generator[list[tuple[str, str]], None, None]:
    if workers < 2:
        yield from map(_documents, shelves)
        return
    with Helpers(workers) as pool:
        coming = [pool.submit(_documents, shelf) for shelf in shelves]
        try:
            while coming:
                yield coming.pop(0).result()
        except BaseException:
            pool.end()
            raise


def _documents(names: Sequence[str]) -> list[tuple[str, str]]:
    """Compute the documents at these paths on one thread: the processes share the cores."""
    with one_blas_thread:
        return [(name, document(name)) for name in names]


def single_file(held: Mapping[str, object]) -> str:
    """Return the page with style, scripts, fonts, teaching code and the given data inside.

    Data and assets are one JSON text, compressed with gzip and written in base64; the page unpacks it once.
    """
    assets = {name: base64.b64encode((STATIC / name).read_bytes()).decode() for name in ASSETS}
    inside = json.dumps({"data": held, "assets": assets}, allow_nan=False, separators=(",", ":"), ensure_ascii=False)
    packed = base64.b64encode(gzip.compress(inside.encode(), 9, mtime=0)).decode()
    page = (STATIC / "index.html").read_text(encoding="utf-8")
    page = re.sub(r'<meta property="og:image" [^>]*>\n', "", page)  # a file has no neighbours
    page = re.sub(r'<link rel="stylesheet" href="([^"]+)">', lambda m: f"<style>{_style(m[1])}</style>", page)
    scripts = "\n".join(f"<script>{_script(STATIC / name)}</script>" for name in SCRIPTS)
    page = page.replace('<script src="vendor/katex.min.js" defer></script>', scripts)
    start = (
        f'<script type="text/plain" id="assocmem-data">{packed}</script>\n'
        f'<script type="importmap">{json.dumps({"imports": _modules()})}</script>\n'
        '<script type="module">import "assocmem/app.js";</script>'
    )
    return page.replace('<script src="js/app.js" type="module"></script>', start)


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
