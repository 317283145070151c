"""The example notebook runs from top to bottom and draws the page's figures."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from assocmem.page import data
from assocmem.page.sections.bars import COUNTS, page_keys

nbformat = pytest.importorskip("nbformat", reason="needs nbformat")
nbclient = pytest.importorskip("nbclient", reason="needs nbclient")
pytest.importorskip("ipykernel", reason="needs ipykernel")
NOTEBOOK = Path(__file__).parent.parent / "examples" / "explore.ipynb"


@pytest.fixture(scope="module")
def outputs():
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    return [cell.outputs for cell in notebook.cells if cell.cell_type == "code"]


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


def test_it_is_stored_without_outputs():
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    assert all(not cell.outputs and cell.execution_count is None for cell in notebook.cells if cell.cell_type == "code")
