"""What TVM says of its own CUDA calls, read."""

from __future__ import annotations

import pytest

from tvm_ios.runtime.cuda.errors import read_tvm_error

TRACE = """Traceback (most recent call last):
  1: tvm::runtime::CUDADeviceAPI::AllocDataSpace(DLDevice, unsigned long, unsigned long)
  File "src/runtime/cuda/cuda_device_api.cc", line 149
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            f"{TRACE}InternalError: CUDALaunch Error: CUDA_ERROR_INVALID_VALUE\n grid=(1,1,1)\n",
            ("cuLaunchKernel", "CUDA_ERROR_INVALID_VALUE", "as TVM reports it"),
        ),
        (
            f"{TRACE}InternalError: CUDAError: cuModuleLoadData(&(module_[device_id]), "
            "data_.c_str()) failed with error: CUDA_ERROR_NO_BINARY_FOR_GPU",
            ("cuModuleLoadData", "CUDA_ERROR_NO_BINARY_FOR_GPU", "as TVM reports it"),
        ),
        (
            f"{TRACE}InternalError: Check failed: (e == cudaSuccess) is false: CUDA: out of memory",
            ("cudaMalloc", "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"),
        ),
        (
            "Check failed: (e == cudaSuccess) is false: CUDA: invalid argument",
            ("a copy", "an error of the CUDA runtime", "invalid argument"),
        ),
        (
            "RuntimeError: CUDA Runtime Error: cudaErrorMemoryAllocation (2): out of memory",
            ("cudaMalloc", "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"),
        ),
        (
            f"{TRACE}ValueError: wrong shape\n",
            ("a copy", "an error of TVM", "ValueError: wrong shape"),
        ),
        ("", ("a copy", "an error of TVM", "no error text")),
    ],
)
def test_the_telling_line_is_found(text, expected):
    assert read_tvm_error(text, default_call="a copy") == expected
