from __future__ import annotations

import gc
import importlib.util
import json
import sys
import threading
from pathlib import Path

import pytest

from tvm_ios.install import quick_import, wheel

if not wheel.wheel_is_installed():
    pytest.skip("the TVM wheel is not installed in this environment", allow_module_level=True)

NAMES_OF_ALL_MODULES = """
import json, sys
import tvm
names = {name: sorted(vars(module)) for name, module in sys.modules.items() if name[:3] == "tvm"}
names["functions"] = sorted(tvm._ffi.registry.list_global_func_names())
print(json.dumps(names))
"""
BINDING = """
import tvm
from tvm.runtime.object import ObjectBase
from tvm_ios.host.tvm_probe import _probe
print(ObjectBase.__module__, _probe().uses_ctypes)
"""
PLAINLY = "import sys; sys.modules['_tvm_ios_quick_import'] = None\n"
WHAT_IS_LEFT = """
import gc, json, sys
import tvm
heavy = ("xgboost", "scipy", "setuptools", "distutils")
from tvm._ffi import registry
tvm.register_func("tvm_ios.late", print)
print(json.dumps({
    "heavy": [name for name in heavy if name in sys.modules],
    "collects": gc.isenabled(),
    "frozen": gc.get_freeze_count(),
    "late": "tvm_ios.late" in registry.list_global_func_names(),
}))
"""
TRAIN = """
import sys
import numpy
import tvm
from tvm.auto_scheduler.cost_model import xgb_model
from tvm.autotvm.tuner import xgboost_cost_model
import xgboost

assert "_PostponingFinder" not in {type(finder).__name__ for finder in sys.meta_path}
assert "exec_module" not in vars(xgboost.callback.__loader__)
data = xgboost.DMatrix(numpy.arange(8.0).reshape(4, 2), numpy.arange(4.0))
for module in (xgboost_cost_model, xgb_model):
    class Counting(module.XGBoostCallback):
        seen = []
        def after_iteration(self, model, epoch, evals_log):
            self.seen.append(epoch)
    xgboost.train({}, data, num_boost_round=2, callbacks=[Counting()])
    print(Counting.seen, issubclass(Counting, xgboost.callback.TrainingCallback))
"""


PLANTED = """
import sys
from tvm_ios.install import quick_import
sys.modules["_tvm_ios_quick_import"] = quick_import
import tvm
from tvm.contrib.pickle_memoize import Cache
from tvm.topi.nn.winograd_util import winograd_transform_matrices
assert Cache.__init__.__module__ == Cache.__module__ == "tvm.contrib.pickle_memoize"
print(len(winograd_transform_matrices(2, 3, "float32")))
"""


def answer_of(done):
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_modules_and_functions_are_those_of_a_plain_import(run_python):
    """With TVM's binding in ctypes, which is what a plain import finds."""
    plain, quick = (
        json.loads(answer_of(run_python("-c", before + NAMES_OF_ALL_MODULES, TVM_FFI="ctypes")))
        for before in (PLAINLY, "")
    )
    assert len(quick) > 900
    assert quick == plain


@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "environment", "binding"),
    [
        ("", {}, "tvm._ffi._cy3.core"),
        ("", {"TVM_FFI": "ctypes"}, "tvm._ffi._ctypes.object"),
        (PLAINLY, {}, "tvm._ffi._ctypes.object"),
    ],
)
def test_the_binding_is_compiled_unless_ctypes_is_asked_for(
    run_python, before, environment, binding
):
    said = run_python("-c", before + BINDING, **environment)
    assert answer_of(said).split() == [binding, str("ctypes" in binding)]


@pytest.mark.slow
def test_nothing_of_it_is_left_and_nothing_heavy_was_loaded(run_python):
    left = json.loads(answer_of(run_python("-c", WHAT_IS_LEFT)))
    assert left == {"heavy": [], "collects": True, "frozen": 0, "late": True}


@pytest.mark.slow
def test_xgboost_takes_callbacks_of_both_trainers(run_python):
    if importlib.util.find_spec("xgboost") is None:
        pytest.skip("XGBoost (tvm-ios[tuning]) is not installed")
    assert answer_of(run_python("-c", TRAIN)) == "[0, 1] True\n[0, 1] True\n"


def test_another_wheel_is_imported_plainly(tmp_path):
    before = list(sys.meta_path)
    with quick_import.quick_import(str(tmp_path)):
        assert gc.isenabled()
        assert sys.meta_path == before


def test_only_the_importing_thread_finds_less():
    finder = quick_import._PostponingFinder("no folder")
    answers = []
    other = threading.Thread(target=lambda: answers.append(finder.find_spec("xgboost")))
    other.start()
    other.join()
    assert answers == [None]
    with pytest.raises(ModuleNotFoundError, match="postponed"):
        finder.find_spec("xgboost")


def test_it_is_for_the_wheel_that_is_installed():
    assert wheel._pinned_wheel().replace("==", "-") == quick_import._PINNED_WHEEL


def test_its_copy_is_beside_the_finder():
    copy = wheel.site_packages_directory() / "_tvm_ios_quick_import.py"
    assert copy.read_bytes() == Path(quick_import.__file__).read_bytes()


@pytest.mark.slow
def test_no_pickle_of_the_working_directory_is_run(run_python, tmp_path):
    ran = tmp_path / "ran"
    pickles = tmp_path / "cwd" / ".pkl_memoize_py3"  # where it runs
    pickles.mkdir()
    planted = pickles / "topi.nn.winograd_matrices.winograd_transform_matrices.pkl"
    planted.write_bytes(f"cposix\nmkdir\n(V{ran}\ntR.".encode())
    assert answer_of(run_python("-c", PLANTED)).strip() == "3"
    assert not ran.exists()
