"""TVM's CUDA runtime, loaded by a process that has no driver, or that lacks a library."""

from __future__ import annotations

import ctypes

import pytest

LOAD = """
import tvm
from tvm_ios.errors import HostError
from tvm_ios.runtime.gpu import tvm_runtime

def is_here():
    return tvm.get_global_func("device_api.cuda", allow_missing=True) is not None

{change}
try:
    tvm_runtime.require_tvm_runtime()
    tvm_runtime.require_tvm_runtime()
except HostError as error:
    print(error)
else:
    print(is_here())
"""


@pytest.fixture
def load(run_python, project_root):
    """Words of a process that loads the runtime after a change, and not with TVM itself."""
    environment = {
        "PYTHONPATH": str(project_root),
        "TVM_DEVICE_BACKEND_AUTOLOAD": "0",
        "TVM_IOS_TVM": "path",
    }

    def run(change="") -> str:
        done = run_python("-c", LOAD.format(change=change), **environment)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.mark.slow
def test_a_process_needs_no_driver_to_load_it(load):
    try:
        ctypes.CDLL("libcudart.so.13")
    except OSError as error:
        pytest.skip(f"there is no toolkit of CUDA 13: {error}")
    assert load() == "True\n"


@pytest.mark.slow(1)
def test_the_reason_is_told_where_it_cannot_be_loaded(load):
    said = load("tvm_runtime._LIBRARY = 'libtvm_of_nobody.so'")
    assert "cannot work with GPUs here: " in said
    assert "libtvm_of_nobody.so: cannot open" in said
    assert "install the toolkit of CUDA 13" in said
