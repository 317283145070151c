"""Documents say what is so: examples run, commands exist, public names have words.

That generated parts are current and docstrings in form is for `docs/generate.py --check`, whose faults are tried here.
"""

from __future__ import annotations

import ast
import contextlib
import doctest
import importlib
import importlib.util
import inspect
import io
import pkgutil
import re
import shlex
import shutil
import sys
import tempfile
from functools import cache
from pathlib import Path

import pytest
from typer.main import get_command

import assocmem
from assocmem import stores, theory
from assocmem.checks import contract
from assocmem.cli import app
from assocmem.cli.terminal import StoreCommand
from assocmem.contract.errors import InputError
from assocmem.maps.activations import Constant
from assocmem.stores import entry, make_store

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "assocmem"
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]


def modules():
    """Return the names of all modules, except what the page's readers run in the page."""
    found = pkgutil.walk_packages(assocmem.__path__, "assocmem.")
    return sorted(m.name for m in found if not m.name.startswith(("assocmem.page.static", "assocmem.__main__")))


@pytest.fixture(autouse=True)
def beside(monkeypatch):
    """Let scripts of docs/ import what lies beside them, as they do when run."""
    monkeypatch.syspath_prepend(ROOT / "docs")


def loaded(path, name):
    """Return a script of docs/ as a module."""
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules[name]
    return module


def example(name):
    """Return the README's Python code that follows `<!-- example: name -->`."""
    return re.search(rf"<!-- example: {name} -->\n```python\n(.*?)```", README, re.S)[1]


@pytest.mark.parametrize("name", modules())
def test_examples_in_docstrings_are_true(name):
    module = importlib.import_module(name)
    if ">>> import torch" in inspect.getsource(module):
        pytest.importorskip("torch", reason="the example is of a torch module")
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        failed, _ = doctest.testmod(module)
    assert failed == 0, said.getvalue()


def test_the_docstring_examples_are_there():
    finder = doctest.DocTestFinder(exclude_empty=True)
    with_examples = sum(
        bool(test.examples) for name in modules() for test in finder.find(importlib.import_module(name))
    )
    assert with_examples > 80


def test_the_readme_prints_what_its_comments_say():
    code = example("memory")
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(compile(code, "README.md", "exec"), {})
    comments = re.findall(r"^print\(.*\)  # (.*)$", code, re.M)
    lines = said.getvalue().splitlines()
    assert len(comments) == len(lines) == 2
    for comment, line in zip(comments, lines, strict=True):
        assert comment.partition("]: ")[0].rstrip("]") == line.rstrip("]")


def test_the_readmes_rule_keeps_the_contract(tmp_path, monkeypatch):
    (tmp_path / "readme_rule.py").write_text(example("rule"))
    monkeypatch.syspath_prepend(tmp_path)
    report = contract.check(make_store("readme_rule:Fading"))
    sys.modules.pop("readme_rule")
    assert report.failures == (), report.text()


def test_the_readmes_measurements_run_and_are_compared_saved_and_extended(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(example("measured"), names)
    assert names["found"].theory == pytest.approx(726.3, abs=0.05)
    assert "726.3" in README
    assert names["found"].low < 726.3 < names["found"].high
    assert (len(names["compared"]), len(names["more"])) == (6, 10)
    assert "multiply-adds" in capsys.readouterr().out


def test_the_readmes_capacities_are_those_of_theory():
    claim = re.search(r"linearly holds (\d+) memories.* ([\d,]+), read through.* ([\d.]+) million", README, re.S)
    linear, squared = (theory.capacity(make_store(key).form(64), 64).value for key in ("outer-product", "squared-relu"))
    whole = theory.capacity(Constant(8.0), 64).value
    assert int(claim[1]) == round(linear)
    assert int(claim[2].replace(",", "")) == round(squared)
    assert float(claim[3]) == round(whole / 1e6, 2)


def test_the_readmes_two_commands_are_one_line_each():
    commands = loaded(ROOT / "docs" / "readme_command.py", "readme_command")
    for name, end in (("run", ".venv/bin/assocmem reproduce"), ("test", ".venv/bin/python -m pytest -q -n 2")):
        line = commands.command(name)
        assert line.startswith("python3 -m venv .venv && .venv/bin/pip install -q ")
        assert line.endswith(" && " + end)
    with pytest.raises(SystemExit, match="nonsense"):
        commands.command("nonsense")


def mentioned():
    """Return (page, words) of every command line of assocmem that a document shows."""
    found = []
    for page in PAGES:
        text = re.sub(r"<!-- generated: commands -->.*<!-- end: commands -->", "", page.read_text(), flags=re.S)
        for block in re.findall(r"^```\w*\n(.*?)^```", text, re.S | re.M):
            found += [(page.name, line) for line in re.findall(r"^assocmem +(.*)$", block, re.M)]
        found += [(page.name, line) for line in re.findall(r"`assocmem ([^`]+)`", text)]
    return found


@pytest.mark.parametrize(("page", "line"), mentioned())
def test_every_command_in_a_document_exists_with_its_options(page, line):
    words = shlex.split(re.split(r"\s{2,}", line.strip())[0])
    commands = get_command(app).commands
    if words[0].startswith("-"):
        return
    assert words[0] in commands, page
    taken = {"--help"}.union(*((*param.opts, *param.secondary_opts) for param in commands[words[0]].params))
    if isinstance(commands[words[0]], StoreCommand):
        taken |= {f"--{setting.name.replace('_', '-')}" for key in stores.names() for setting in entry(key).settings}
    for word in words[1:]:
        assert not word.startswith("--") or word.partition("=")[0] in taken, word


def test_the_check_of_the_documents_finds_what_is_wrong(tmp_path, monkeypatch):
    generate = loaded(ROOT / "docs" / "generate.py", "docs_generate_twin")
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    for page in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md"):
        shutil.copy(ROOT / page, tmp_path / page)
    for name in ("examples", "src"):
        (tmp_path / name).symlink_to(ROOT / name)
    readme = tmp_path / "README.md"
    readme.write_text(readme.read_text().replace("| `softmax` |", "| `hardmax` |") + "\n[gone](docs/gone.md)\n")
    (tmp_path / "LICENSE").touch()

    monkeypatch.setattr(generate, "ROOT", tmp_path)
    monkeypatch.setattr(generate, "GENERATED", {("README.md", "stores"): generate.store_table})
    monkeypatch.setattr(generate, "ill_told", lambda: ["assocmem.theory.bare: it has no docstring"])
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        status = generate.main(check=True)
    assert status == 1
    assert "README.md: the part 'stores' is not what the code says" in said.getvalue()
    assert "broken link: README.md -> docs/gone.md" in said.getvalue()
    assert "assocmem.theory.bare: it has no docstring" in said.getvalue()
    with contextlib.redirect_stdout(io.StringIO()):
        generate.main(check=False)
    assert "| `softmax` |" in readme.read_text()
    readme.write_text(readme.read_text().replace("<!-- end: stores -->", ""))
    with pytest.raises(SystemExit, match="are missing"):
        generate.main(check=True)


def test_docstrings_are_looked_at_in_every_room():
    pytest.importorskip("numpydoc")
    names = {name for name, _, _ in loaded(ROOT / "docs" / "docstrings.py", "docstrings_twin").public()}
    methods = {"assocmem.Memory.write", "assocmem.Store.scan", "assocmem.stores.names"}
    assert methods | {f"assocmem.stores.{kind}" for kind in stores._classes()} <= names


TOLD = """Return twice a number.

Parameters
----------
x : float
    Any.

Returns
-------
float
    Twice of it.

Raises
------
ValueError
    For text.

Examples
--------
>>> 1 + 1
2
"""


@pytest.mark.parametrize(
    ("right", "wrong", "fault"),
    [
        (TOLD, "", "no docstring"),
        ("number.\n", "number\n", "SS03"),
        ("number.\n", "number,\nany.\n", "SS06"),
        ("x : float", "y : float", "PR01"),
        ("x : float", "x: float", "PR10"),
        ("    Any.", "    Any", "PR09"),
        ("Returns\n-------\nfloat\n    Twice of it.\n\n", "", "RT01"),
        ("Returns\n-------", "Gives\n-----", "RT01"),
        ("Raises\n------\nValueError\n    For text.\n\n", "", "raises InputError"),
        ("ValueError", "KeyError", "raises InputError"),
        ("Examples\n--------\n>>> 1 + 1\n2\n", "", "no example"),
        ("Returns\n-------", "Returns\n-----", "underline"),
    ],
)
def test_a_docstring_in_another_form_is_refused(right, wrong, fault):
    pytest.importorskip("numpydoc")
    told = loaded(ROOT / "docs" / "docstrings.py", "docstrings_twin")

    def twice(x):
        if isinstance(x, str):
            raise InputError("x")
        return x + x

    twice.__doc__ = TOLD
    assert told.faults("assocmem.twice", twice) == []
    twice.__doc__ = TOLD.replace(right, wrong)
    assert twice.__doc__ != TOLD
    assert any(fault in said for said in told.faults("assocmem.twice", twice)), told.faults("assocmem.twice", twice)


@cache
def parsed():
    """Return the syntax of every module of the package, and every class at the top of one by its name."""
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(SOURCE.rglob("*.py"))}
    return trees, {one.name: one for tree in trees.values() for one in tree.body if isinstance(one, ast.ClassDef)}


def documented_in_bases(node):
    """Return the names of methods that have a docstring in the bases of a class of the package."""
    found = set()
    for base in node.bases:
        if (parent := parsed()[1].get(getattr(base, "id", ""))) is not None:
            found |= documented_in_bases(parent)
            found |= {m.name for m in parent.body if isinstance(m, ast.FunctionDef) and ast.get_docstring(m)}
            found |= {m.target.id for m in parent.body if isinstance(m, ast.AnnAssign)}  # told in the class's docstring
    return found


def test_every_public_name_and_module_has_a_docstring():
    """A method without one has that of the base class's method, as `help` shows it."""
    missing = []

    def look(tree, where, inherited=()):
        for node in ast.iter_child_nodes(tree):
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
                setter = any(isinstance(d, ast.Attribute) and d.attr == "setter" for d in node.decorator_list)
                if ast.get_docstring(node) is None and not setter and node.name not in inherited:
                    missing.append(f"{where}: {node.name}")
                if isinstance(node, ast.ClassDef):
                    look(node, f"{where}: {node.name}", documented_in_bases(node))

    for path, tree in parsed()[0].items():
        if "static" in path.parts:
            continue
        where = str(path.relative_to(SOURCE))
        if ast.get_docstring(tree) is None:
            missing.append(where)
        look(tree, where)
    assert missing == []


def test_the_map_names_every_room_and_its_floor():
    text = (ROOT / "docs" / "map.md").read_text()
    rooms = sorted(path.name for path in SOURCE.iterdir() if path.is_dir() and (path / "__init__.py").exists())
    for room in rooms:
        assert f"| `{room}/` |" in text, room
    layers = re.search(r"layers = \[(.*?)\]", (ROOT / "pyproject.toml").read_text(), re.S)[1]
    floors = " → ".join(re.findall(r'"([^"]+)"', layers))
    assert floors in text


def test_stores_and_version_appear_where_people_look():
    for key in stores.names():
        assert f"| `{key}` |" in README
    changelog = (ROOT / "CHANGELOG.md").read_text()
    assert re.search(r"^## (\d\S*)", changelog, re.M)[1] == assocmem.__version__
    assert f"Version {assocmem.__version__}" in README


def test_the_documents_do_not_speak_of_how_they_were_made():
    here = [f"{folder}/" for folder in (ROOT.parent, tempfile.gettempdir(), Path.home()) if str(folder) != "/"]
    for page in PAGES:
        text = page.read_text()
        assert not re.search(r"\bTODO\b|\bFIXME\b", text), page.name
        assert not any(folder in text for folder in here), page.name


def test_every_benchmark_is_in_the_one_table(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    table = loaded(ROOT / "benchmarks" / "run.py", "benchmarks_run")
    modules_there = {path.stem for path in (ROOT / "benchmarks").glob("*.py")} - {
        "run",
        "baseline_plain",
        "cuda",
    }  # cuda has a table of its own, of the device that it finds
    assert modules_there == set(table.BENCHMARKS)
    page = (ROOT / "docs" / "benchmarks.md").read_text()
    for name in modules_there | {"baseline_plain", "hops"}:
        assert f"`{name}.py`" in page
    copy = tmp_path / "benchmarks.md"
    copy.write_text(page)
    monkeypatch.setattr(table, "PAGE", copy)
    row = {"benchmark": "import", "seconds": 0.03, "loads": []}
    slow = row | {"seconds": 0.3}
    heavy = row | {"loads": ["torch"]}
    lines = table.whole_lines([row, slow, heavy])
    assert [line.met for line in lines] == [True, False, False]
    table.write_page(lines, "A machine.")
    assert "A machine." in copy.read_text()
    assert copy.read_text().count("**missed**") == 2
    assert copy.read_text().partition(table.START)[0] == page.partition(table.START)[0]
    assert copy.read_text().partition(table.END)[2] == page.partition(table.END)[2]
