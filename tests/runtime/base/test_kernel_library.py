"""Kernels are found by name, as symbols or as packed functions."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
import tvm

from tvm_ios.errors import ArtifactError
from tvm_ios.runtime.base.kernel_library import KernelLibrary
from tvm_ios.runtime.base.lane_pool import LanePool, LaunchFailedError
from tvm_ios.runtime.base.native_runtime import NativeLaunch, shared_runtime
from tvm_ios.runtime.base.tvm_abi import TvmFunction


@pytest.fixture
def library(exported):
    return KernelLibrary(exported[1])


def test_kernels_have_addresses(library, exported):
    name = next(n for n in exported[0].graph_json.split('"') if n.startswith("tvmgen_default"))
    assert library.kernel(name).address
    assert library.function(name) is not None


def test_unknown_kernels_are_named(library):
    with pytest.raises(ArtifactError, match="no kernel named 'fly'"):
        library.kernel("fly")


@pytest.mark.parametrize("content", [b"", b"not a library", b"\x7fELF" + bytes(100)])
def test_what_is_no_library_is_refused(tmp_path, content):
    path = tmp_path / "kernels.so"
    path.write_bytes(content)
    with pytest.raises(ArtifactError, match="cannot be loaded as a kernel library"):
        KernelLibrary(path)


def test_a_plain_library_needs_a_runtime(build_random, tmp_path):
    path = tmp_path / "plain.so"
    build_random(seed=12, size=12, opt_level=2).factory.export_library(str(path))
    with pytest.raises(ArtifactError, match="interface version None"):
        KernelLibrary(path)
    assert KernelLibrary(path, shared_runtime()).runtime is shared_runtime()


def test_packed_functions_run_on_lanes():
    seen = []

    def kernel(array):
        seen.append(array.numpy().sum())
        if len(seen) == 2:
            raise RuntimeError("twice is too often")

    function = tvm.runtime.convert(kernel)
    array = tvm.nd.array(np.arange(4, dtype="float32"))
    arguments = (ctypes.c_void_p * 1)(ctypes.cast(array.handle, ctypes.c_void_p))
    codes = (ctypes.c_int32 * 1)(7)
    runtime = shared_runtime()
    runtime.set_func_call(TvmFunction.CALL_PACKED.address)
    launch = NativeLaunch(
        kernel=runtime.call_packed,
        arguments=ctypes.addressof(arguments),
        type_codes=ctypes.addressof(codes),
        resource=ctypes.cast(function.handle, ctypes.c_void_p),
        num_arguments=1,
    )
    pool = LanePool(runtime, 1, get_last_error=TvmFunction.LAST_ERROR.address)
    program = pool.program([[ctypes.addressof(launch)]], [()])
    pool.run(program)
    assert seen == [6.0]
    with pytest.raises(LaunchFailedError):  # TVM keeps the text of Python errors to itself
        pool.run(program)


def test_a_file_loaded_twice_outlives_its_first_loader(cuda_stand_in):
    """Host code remembers device functions of TVM's module, which goes with whoever loaded it."""
    seen = cuda_stand_in.run("two_libraries", "small")
    assert seen == {"apart": True, "shape": [1, 24, 8, 8], "live": {}}
