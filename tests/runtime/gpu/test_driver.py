"""Bindings of the CUDA driver where there is none, and what is said of each error."""

from __future__ import annotations

import ctypes

import pytest

from tvm_ios.errors import ExecutionError, HostError
from tvm_ios.runtime.gpu import driver as cuda_driver
from tvm_ios.runtime.gpu.driver import (
    CudaDriver,
    call_failed,
    is_of_capture,
    load_driver,
    next_step,
)


def test_no_driver_is_one_clear_error(monkeypatch):
    monkeypatch.setattr(cuda_driver, "LIBRARIES", ("libnothing-of-the-kind.so.1",))
    with pytest.raises(HostError, match=r"no CUDA driver: libnothing.*install NVIDIA's driver"):
        load_driver.__wrapped__()


def test_what_stands_in_for_a_driver_is_refused():
    # Also the stub that lets TVM load where there is no driver.
    with pytest.raises(HostError, match="has no cuInit: it is older than CUDA 12, or stands in"):
        CudaDriver(ctypes.CDLL(None))


def test_an_error_says_who_what_why_and_what_next():
    error = call_failed(
        "cuLaunchKernel", name="CUDA_ERROR_NO_BINARY_FOR_GPU", text="no image", where="operator 'a'"
    )
    assert isinstance(error, ExecutionError)
    assert str(error) == (
        "operator 'a': cuLaunchKernel failed: CUDA_ERROR_NO_BINARY_FOR_GPU (no image); compile "
        "for this GPU: target='cuda -arch=sm_XY' with its compute capability X.Y"
    )
    assert not is_of_capture(error)


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("CUDA_ERROR_OUT_OF_MEMORY", "lower the batch size"),
        ("CUDA_ERROR_ILLEGAL_ADDRESS", "CUDA_LAUNCH_BLOCKING=1"),
        ("CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "cuda_graph=False"),
        ("CUDA_ERROR_UNKNOWN", "tvm-ios doctor"),
    ],
)
def test_every_error_has_a_next_step(name, step):
    assert step in next_step(name)
