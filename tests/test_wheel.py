"""The built wheel: it holds what the package needs and nothing else, and runs from another folder."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("wheel")]
ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "assocmem"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Build the wheel by the packages that are installed, without the network; return its path."""
    for name in ("build", "hatchling"):
        pytest.importorskip(name)
    out = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = out.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """Unpack the wheel as pip does, away from the checkout; return the folder."""
    folder = tmp_path_factory.mktemp("installed")
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--target", str(folder)]
    subprocess.run([*command, str(wheel)], check=True, timeout=300, capture_output=True)
    return folder


def run(installed, folder, *words):
    """Run Python where only the unpacked wheel provides assocmem; return what it printed."""
    environment = {**os.environ, "PYTHONPATH": str(installed), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, *words], cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_wheel_is_pure_and_holds_every_file_of_the_package(wheel):
    assert wheel.name.endswith("-py3-none-any.whl")
    held = set(zipfile.ZipFile(wheel).namelist())
    wanted = {
        f"assocmem/{path.relative_to(SOURCE)}"
        for path in SOURCE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert wanted <= held, sorted(wanted - held)[:5]
    for needed in (
        "assocmem/py.typed", "assocmem/experiments/article.json", "assocmem/report/templates/report.html",
        "assocmem/page/static/index.html", "assocmem/page/static/vendor/vega.js",
    ):  # fmt: skip
        assert needed in held
    assert any(name.startswith("assocmem/inputs/data/") for name in held)


def test_nothing_else_is_in_it(wheel):
    held = zipfile.ZipFile(wheel).namelist()
    strangers = [name for name in held if not name.startswith(("assocmem/", "assocmem-"))]
    assert strangers == []
    assert not [name for name in held if Path(name).name.startswith(("test_", "conftest"))]
    assert not [name for name in held if name.endswith((".pyc", ".ipynb")) or "__pycache__" in name]


def test_its_metadata_names_the_command_the_licence_and_no_test_package(wheel):
    archive = zipfile.ZipFile(wheel)
    (folder,) = {name.split("/")[0] for name in archive.namelist() if ".dist-info/" in name}
    metadata = archive.read(f"{folder}/METADATA").decode()
    assert "License-Expression: MIT" in metadata
    assert f"{folder}/licenses/LICENSE" in archive.namelist()
    assert "assocmem = assocmem.__main__:main" in archive.read(f"{folder}/entry_points.txt").decode()
    base = [line for line in metadata.splitlines() if line.startswith("Requires-Dist:") and "extra ==" not in line]
    names = {line.split()[1].split(">")[0].lower() for line in base}
    assert {"numpy", "scipy", "polars", "altair", "typer"} <= names
    assert not names & {"torch", "pytest", "jax", "scikit-learn", "playwright"}
    assert "# assocmem" in metadata  # the README is the long description


def test_the_installed_package_runs_from_another_folder(installed, tmp_path):
    where = run(installed, tmp_path, "-c", "import assocmem; print(assocmem.__file__)").strip()
    assert Path(where).is_relative_to(installed)
    assert "capacity" in run(installed, tmp_path, "-m", "assocmem", "--help")
    start = (
        "from assocmem import Memory\n"
        "memory = Memory('softmax', beta=8.0)\n"
        "memory.write([1.0, 0.0], [3.0])\n"
        "print(memory.recall([1.0, 0.0]))\n"
    )
    assert run(installed, tmp_path, "-c", start).strip() == "[3.]"


def test_the_installed_package_finds_its_data(installed, tmp_path):
    code = (
        "from assocmem.inputs.glyphs import glyphs\n"
        "from assocmem.experiments.experiment import article\n"
        "from assocmem.report.export import script_bundle\n"
        "print(len(glyphs().chars), len(article()), len(script_bundle()))\n"
    )
    characters, printed, letters = map(int, run(installed, tmp_path, "-c", code).split())
    assert characters >= 1024
    assert printed > 5
    assert letters > 100_000
    run(installed, tmp_path, "-m", "assocmem", "reproduce", "--quick", "--only", "opening", "--out", "there")
    assert (tmp_path / "there" / "index.html").stat().st_size > 100_000
    run(installed, tmp_path, "-m", "assocmem", "show", "softmax")
