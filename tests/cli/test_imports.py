"""What verbs import: TVM, NumPy and drawing only when they come to use them."""

from __future__ import annotations

import json

import pytest

from tvm_ios.core.schedule import InterOpSchedule, Stage

HEAVY = {"tvm", "numpy", "scipy", "xgboost", "matplotlib", "networkx", "onnx", "ray", "torch"}
SCHEDULE = InterOpSchedule(
    graph_name="net",
    graph_fingerprint="0123456789abcdef",
    operator_names=("stem",),
    stages=(Stage(((0,),)),),
    scheduler="sequential",
)
IMPORTED = """
import contextlib, io, json, sys
from tvm_ios.cli.main import main
with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
    try:
        status = main(json.loads(sys.argv[1]))
    except SystemExit as ended:
        status = ended.code
print(json.dumps([status, sorted(sys.modules)]))
"""


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        pytest.param(["sovle"], 2, id="unknown verb"),
        pytest.param(["tune", "--max-group-size", "x", "unet"], 2, id="wrong value"),
        pytest.param(["tune", "--help"], 0, id="help of a verb"),
        pytest.param(["jobs", "status"], 2, id="status of jobs"),
        pytest.param(["jobs", "submit", "absent.toml"], 2, id="jobs of no file"),
        pytest.param(["show", "schedule.json"], 0, id="show"),
        pytest.param(["show", "absent.so"], 2, id="show of no file"),
        pytest.param(["records", "show", "absent.json"], 2, id="records of no file"),
        pytest.param(["solve", "absent.json"], 2, id="problem of no file"),
        pytest.param(["experiment", "list"], 0, id="experiments"),
        pytest.param(["grid", "table", "absent"], 2, id="grid of no folder"),
    ],
)
def test_verbs_that_need_nothing_heavy_import_nothing_heavy(words, expected, run_python, tmp_path):
    (tmp_path / "cwd" / "schedule.json").write_text(SCHEDULE.to_json())
    status, imported = imports_of(words, run_python, TVM_IOS_CACHE_DIR=str(tmp_path / "no jobs"))
    assert (status, HEAVY & imported) == (expected, set())


def test_help_does_not_look_for_the_version(run_python):
    status, imported = imports_of(["--help"], run_python)
    assert (status, "importlib.metadata" in imported) == (0, False)


def imports_of(words, run_python, **environment):
    """The exit status of the command line, and the modules that it has imported."""
    done = run_python("-c", IMPORTED, json.dumps(words), **environment)
    assert done.returncode == 0, done.stderr
    status, imported = json.loads(done.stdout)
    return status, set(imported)


@pytest.mark.slow
def test_a_second_tuning_imports_nothing_heavy(run_python, model, tmp_path):
    words = ["tune", str(model), "--params", str(tmp_path / "net.params")]
    words += ["--target", "llvm -opt-level=0", "--effort", "quick"]
    words += ["--lanes", "1", "--output", str(tmp_path / "net.so")]
    where = {"TVM_IOS_CACHE_DIR": str(tmp_path / "cache"), "TVM_IOS_KEPT_MIB": "64"}
    assert "tvm" in imports_of(words, run_python, **where)[1]
    first = (tmp_path / "net.so").read_bytes()
    (tmp_path / "net.so").unlink()
    assert imports_of(words, run_python, **where)[1] & HEAVY == set()
    assert len((tmp_path / "net.so").read_bytes()) == len(first)
