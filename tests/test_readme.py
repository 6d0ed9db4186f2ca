"""What README and docs print is true: examples run, formats are read, links lead somewhere."""

from __future__ import annotations

import json
import re

import pytest

from tests.documents import DOCS, DOCUMENTS, README, code_blocks
from tests.impatience import IMPATIENT, SMALL_NETWORKS
from tvm_ios.core.schedule import InterOpSchedule
from tvm_ios.models import MODEL_NAMES
from tvm_ios_lab.problems.problem import parse_problem

EXAMPLES = [
    code
    for page in (README, DOCS / "passes.md", DOCS / "chain-and-grid.md")
    for code in code_blocks(page, "python")
]


def test_there_are_a_tune_a_pass_context_and_a_chain_example():
    assert len(EXAMPLES) == 3
    assert "tvm_ios.tune(" in EXAMPLES[0]
    assert "PassContext(" in EXAMPLES[1]
    assert "SimpleTVM()" in EXAMPLES[2]


@pytest.mark.parametrize("code", EXAMPLES, ids=["tune", "pass_context", "chain"])
def test_examples_are_about_ten_lines(code):
    # Imports do not count.
    lines = [line for line in code.splitlines() if line and not line.startswith(("import", "from"))]
    assert len(lines) <= 10


@pytest.mark.slow(5)
@pytest.mark.parametrize("code", EXAMPLES, ids=["tune", "pass_context", "chain"])
def test_example_runs(code, run_python):
    done = run_python("-c", IMPATIENT + SMALL_NETWORKS + code)
    assert done.returncode == 0, done.stderr
    # All end by printing the shape of the network's output.
    assert done.stdout.splitlines()[-1] == "(1, 1000, 1, 1)"


def test_every_network_is_named():
    text = (DOCS / "command-line.md").read_text(encoding="utf-8")
    assert [name for name in MODEL_NAMES if f"`{name}`" not in text] == []


def test_the_readme_is_read_in_five_minutes():
    assert len(README.read_text(encoding="utf-8").split()) <= 1000


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document):
    text = document.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        file = (document.parent / path) if path else document
        assert file.is_file(), f"{document.name} links to {target}; the site has files only"
        if anchor:
            headings = re.findall(r"^#+ (.+)$", file.read_text(encoding="utf-8"), re.MULTILINE)
            slugs = [re.sub(r"[^\w\- ]", "", h).strip().lower().replace(" ", "-") for h in headings]
            assert anchor in slugs, f"{document.name} links to {target}"


def test_documented_formats_are_read():
    schedule, problem = code_blocks(DOCS / "schedules.md", "json")
    assert InterOpSchedule.from_json(schedule).to_json() == json.dumps(
        json.loads(schedule), indent=1
    )
    assert len(parse_problem(problem).parts) == 1


def test_every_decision_note_is_listed():
    folder = DOCS / "adr"
    listed = (folder / "README.md").read_text(encoding="utf-8")
    for note in folder.glob("[0-9]*.md"):
        assert f"({note.name})" in listed
