"""Notebooks run from the first cell to the last, and are stored without what they printed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.impatience import IMPATIENT, SMALL_NETWORKS

NOTEBOOKS = sorted((Path(__file__).resolve().parent.parent / "notebooks").glob("*.ipynb"))

# The cells of a file, one after another in one module, as a kernel would run them.
RUN = """
import json, sys
cells = json.load(open(sys.argv[1], encoding="utf-8"))["cells"]
code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
names = {"__name__": "__main__"}
for number, text in enumerate(code):
    exec(compile(text, f"code cell {number}", "exec"), names)
    print(f"code cell {number} done", flush=True)
"""
TRIALS = {"TVM_IOS_NOTEBOOK_TRIALS": "4"}
SECONDS = {"tuned_schedule": "15"}
"""Time budgets; of others 2. Tuning has to begin within it on a slow machine, too."""
LITTLE = {
    "tuned_schedule": "from tvm_ios.tuning.ansor import run as ansor\nansor.POPULATION = 16\n",
}
"""What makes a notebook search little: how well its tuner searches is no concern here.

It tunes for all that, and calls what tests of tuning call, so it runs in ``make test-all`` alone.
"""
FEW_ROUNDS = {
    "paper": """
from tvm_ios.measure.compare import CompareOptions
from tvm_ios_lab.harness.protocol import Settings
CompareOptions.__init__.__kwdefaults__["min_repeat_ms"] = 0.1
Settings.rounds = 6
""",
}
"""What makes a notebook's races short: nobody reads their ratios here."""
SAYS = {
    "tuned_schedule": ("GFLOPS", "stage 0 "),
    "grid": ("s a cell, of which", "repeats"),
    "paper": ("conv1 > conv4", "SqueezeNet, CPU, small", "exhaustively"),
}
"""What each notebook prints on its way."""


def cells_of(notebook, kind):
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return [cell for cell in cells if cell["cell_type"] == kind]


def test_every_notebook_is_known():
    assert {notebook.stem for notebook in NOTEBOOKS} == set(SAYS)


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_outputs_are_stripped_and_steps_explained(notebook):
    for cell in cells_of(notebook, "code"):
        assert (cell["outputs"], cell["execution_count"]) == ([], None)
    assert len(cells_of(notebook, "markdown")) >= len(cells_of(notebook, "code")) - 1


@pytest.mark.slow(30)
@pytest.mark.parametrize(
    "notebook",
    [
        pytest.param(notebook, marks=pytest.mark.full if notebook.stem in LITTLE else ())
        for notebook in NOTEBOOKS
    ],
    ids=lambda path: path.stem,
)
def test_notebook_runs(notebook, run_python, tmp_path):
    places = {"TVM_IOS_NOTEBOOK_FOLDER": str(tmp_path), "TVM_IOS_NOTEBOOKS": str(notebook.parent)}
    budget = TRIALS | {"TVM_IOS_NOTEBOOK_SECONDS": SECONDS.get(notebook.stem, "2")}
    short = FEW_ROUNDS.get(notebook.stem, "") + LITTLE.get(notebook.stem, "")
    program = IMPATIENT + SMALL_NETWORKS + short + RUN
    done = run_python("-c", program, str(notebook), **places, **budget)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    count = len(cells_of(notebook, "code"))
    assert done.stdout.splitlines()[-1] == f"code cell {count - 1} done"
    for words in SAYS[notebook.stem]:
        assert words in done.stdout
