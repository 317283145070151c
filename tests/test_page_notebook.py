"""The example notebooks run from top to bottom: the page's figures, and measuring in Python."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from assocmem.page import data
from assocmem.page.sections.bars import COUNTS, page_keys
from trained import minilm, needed

nbformat = pytest.importorskip("nbformat", reason="needs nbformat")
nbclient = pytest.importorskip("nbclient", reason="needs nbclient")
pytest.importorskip("ipykernel", reason="needs ipykernel")
pytestmark = pytest.mark.xdist_group("page-notebook")
EXAMPLES = Path(__file__).parent.parent / "examples"


def run(name):
    """Return the outputs of a notebook's cells of code."""
    notebook = nbformat.read(EXAMPLES / name, as_version=4)
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    return [cell.outputs for cell in notebook.cells if cell.cell_type == "code"]


@pytest.fixture(scope="module")
def outputs():
    return run("explore.ipynb")


@pytest.mark.filterwarnings("ignore")  # of the notebook machinery
def test_it_runs_and_draws_every_chart(outputs):
    assert all(output.output_type != "error" for cell in outputs for output in cell)
    drawn = [str(output.get("data", {})) for cell in outputs for output in cell]
    assert sum("vega-lite" in text for text in drawn) == 3


@pytest.mark.filterwarnings("ignore")
def test_its_bars_are_the_pages(outputs):
    text = "".join(output.get("text", "") for cell in outputs for output in cell)
    shown = json.loads(data.document("bars/outer/64/1/0"))["ratio"][COUNTS.index(128)]
    assert float(re.search(r"outer product, M = 128\s+ratio ([\d.]+)", text)[1]) == pytest.approx(shown, abs=6e-4)
    assert np.allclose(np.linalg.norm(page_keys(64, 0), axis=1), 1)


@pytest.mark.filterwarnings("ignore")  # of the notebook machinery
def test_a_session_compares_draws_saves_loads_and_extends():
    outputs = run("measure.ipynb")
    assert all(output.output_type != "error" for cell in outputs for output in cell)
    shown = [output.data for cell in outputs for output in cell if "data" in output]
    html = [data["text/html"] for data in shown if "text/html" in data and "<table" in data["text/html"]]
    assert "squared-relu" in html[0]
    assert all(word in html[1] for word in ("sharpened", "95 % interval", "numbers held", "multiply-adds", "theory"))
    assert sum("application/vnd.vegalite" in str(data) or "vega-lite" in str(data) for data in shown) == 2
    text = "".join(output.get("text", "") for cell in outputs for output in cell)
    assert "9 cells, then 12 and the old ones are the same: True" in text


@pytest.mark.filterwarnings("ignore")
def test_a_checkpoint_becomes_a_picture_in_ten_cells():
    needed("transformers"), minilm()
    outputs = run("trained_model.ipynb")
    assert len(nbformat.read(EXAMPLES / "trained_model.ipynb", as_version=4).cells) == 10
    assert all(output.output_type != "error" for cell in outputs for output in cell)
    drawn = [str(output.get("data", {})) for cell in outputs for output in cell]
    assert sum("vega-lite" in text or "vegalite" in text for text in drawn) == 2
    text = "".join(output.get("text", "") for cell in outputs for output in cell)
    assert "6 layers; layer 3 holds 1,536 pairs" in text
    assert re.search(r"Capacity: [\d.,]+ keys for the median query", text)


@pytest.mark.parametrize("name", [path.name for path in sorted(EXAMPLES.glob("*.ipynb"))])
def test_it_is_stored_without_outputs(name):
    notebook = nbformat.read(EXAMPLES / name, as_version=4)
    assert all(not cell.outputs and cell.execution_count is None for cell in notebook.cells if cell.cell_type == "code")
