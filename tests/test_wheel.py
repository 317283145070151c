"""The built wheel: it holds what the package needs and nothing else. That it runs alone is for `.ci/run`."""

from __future__ import annotations

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
