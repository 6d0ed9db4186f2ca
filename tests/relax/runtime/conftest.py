"""Fixtures of tests of the runtime under TVM 0.27: one library of hand-made kernels."""

from __future__ import annotations

import pytest
import tvm

from tests.relax.runtime import built, c_program
from tests.runtime.cuda_stand_in import cuda_stand_in  # noqa: F401 - a fixture
from tvm_ios.runtime.base.kernel_library import KernelLibrary
from tvm_ios.runtime.base.native_runtime import shared_runtime


@pytest.fixture(scope="session")
def executable():
    """The kernels, compiled."""
    return tvm.compile(built.Kernels, target=built.TARGET)


@pytest.fixture(scope="session")
def library(executable, tmp_path_factory):
    """The kernels, loaded from the file that stock TVM exports."""
    path = tmp_path_factory.mktemp("kernels") / "kernels.so"
    executable.export_library(str(path))
    return KernelLibrary(path, shared_runtime())


@pytest.fixture(scope="session")
def program(tmp_path_factory):
    """The example in C."""
    return c_program.build(tmp_path_factory.mktemp("program") / "run_model")
