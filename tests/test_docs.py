"""The documentation site: its contents are complete, and what the first pages show is true."""

from __future__ import annotations

import re
import shlex
import subprocess

import pytest

import tvm_ios
from tests.documents import DOCS, DOCUMENTS, code_blocks
from tests.impatience import IMPATIENT, SMALL_NETWORKS
from tests.onnx_models import two_ways
from tests.test_public_names import PACKAGES, ROOT, _declared
from tvm_ios.cli.main import LAB_VERBS, VERBS, _parser
from tvm_ios.support.c_compiler import find_c_compiler

QUICK = """
import functools
import tvm_ios

tvm_ios.tune = functools.partial(tvm_ios.tune, effort="quick")
tvm_ios.tune_shapes = functools.partial(tvm_ios.tune_shapes, effort="quick")
"""
"""What a page's Python runs first: how well a model is tuned is no concern here."""
COMMANDS = [
    command
    for document in DOCUMENTS
    for block in code_blocks(document, "sh")
    for command in re.findall(r"^tvm-ios .*$", block.replace("\\\n", " "), re.MULTILINE)
]


def _contents(page):
    """Pages that a page's tables of contents name."""
    lines = [line for block in code_blocks(page, "{toctree}") for line in block.splitlines()]
    names = [line for line in lines if line and not line.startswith(":")]
    return {(page.parent / f"{name}.md").resolve() for name in names}


def test_contents_have_every_page_and_no_other():
    listed = {page for document in DOCS.rglob("*.md") for page in _contents(document)}
    assert {page for page in listed if not page.exists()} == set()
    # Decision notes are reached by their own list, which test_readme.py checks.
    written = {page for page in DOCS.rglob("*.md") if page.parent.name != "adr"}
    assert written - listed - {DOCS / "index.md"} == set()


def test_reference_has_every_public_name():
    shown = {
        path.stem: re.findall(r"^\.\. auto\w+:: (\S+)$", path.read_text("utf-8"), re.MULTILINE)
        for path in (DOCS / "api").glob("*.md")
    }
    assert sorted(shown.pop("index")) == sorted(tvm_ios.__all__)
    # A room's page is made from its __all__, so it is complete by itself.
    rooms = {name for name in PACKAGES if _declared(ROOT / name / "__init__.py")} | {"errors"}
    assert shown == {room: [f"tvm_ios.{room}"] for room in rooms}


@pytest.mark.parametrize("command", COMMANDS)
def test_documented_commands_are_understood(command):
    words = shlex.split(command, comments=True)[1:]
    assert words[0] in {verb.name for verb in (*VERBS, *LAB_VERBS)}
    _parser(words[0]).parse_args(words)


@pytest.mark.slow(20)
@pytest.mark.parametrize(
    ("page", "shape"), [("start.md", "(1, 120, 1, 1)"), ("own-model.md", "(1, 24, 14, 14)")]
)
def test_python_of_a_first_page_runs(page, shape, run_python, project_root, tmp_path):
    # Blocks of a page go on from one another; those of torch are run where torch is.
    blocks = [code for code in code_blocks(DOCS / page, "python") if "import torch" not in code]
    (tmp_path / "cwd" / "net.onnx").write_bytes(two_ways().SerializeToString())
    hasty = "".join(blocks).replace("time_budget=60", "time_budget=1")
    done = run_python(
        "-c", IMPATIENT + SMALL_NETWORKS + QUICK + hasty, PYTHONPATH=str(project_root)
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == shape


def test_c_of_a_first_page_compiles(tmp_path):
    (code,) = code_blocks(DOCS / "own-model.md", "c")
    include, _, body = code.partition("\n")
    program = tmp_path / "program.c"
    program.write_text(
        f"{include}\nvoid fill(void* data, size_t bytes);\nint main(void) {{\n{body}\nreturn 0;\n}}"
    )
    folder = ROOT / "runtime" / "base" / "native"
    command = [*find_c_compiler(), "-std=c99", "-Wall", "-Werror", "-fsyntax-only", f"-I{folder}"]
    done = subprocess.run([*command, program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
