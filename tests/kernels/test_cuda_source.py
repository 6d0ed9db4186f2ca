"""TVM's CUDA source is mended while kernels compile, and only then."""

from __future__ import annotations

import pytest
import tvm

from tvm_ios.kernels.cuda_source import (
    HOOK,
    mended_cuda_source,
    mended_names,
    users_hook,
)


def test_the_function_that_cuda_has_as_well_gets_another_name():
    source = "MATH(htanh, tanhf)\nx = htanh(y); htanh2(z); my_htanh(w);"
    assert mended_names(source) == (
        "MATH(tvm_htanh, tanhf)\nx = tvm_htanh(y); htanh2(z); my_htanh(w);"
    )


def test_the_hook_is_gone_afterwards():
    def fail():
        with mended_cuda_source():
            assert tvm.get_global_func(HOOK)("htanh", None) == "tvm_htanh"
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert tvm.get_global_func(HOOK, allow_missing=True) is None


def test_a_hook_of_the_user_goes_first_and_stays():
    tvm.register_func(HOOK, lambda source, _target: f"{source} + htanh")
    try:
        with mended_cuda_source():
            assert tvm.get_global_func(HOOK)("a", None) == "a + tvm_htanh"
        assert tvm.get_global_func(HOOK)("a", None) == "a + htanh"
    finally:
        tvm._ffi.registry.remove_global_func(HOOK)


def test_builds_of_two_threads_leave_no_hook_behind():
    first, second = mended_cuda_source(), mended_cuda_source()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert users_hook() is None
    assert tvm.get_global_func(HOOK)("htanh", None) == "tvm_htanh"
    second.__exit__(None, None, None)
    assert tvm.get_global_func(HOOK, allow_missing=True) is None
