"""Facts in TVM's text about a failed CUDA call of its own. No TVM here.

The text is a stack trace and a dump of the kernel around the one line that tells.
"""

from __future__ import annotations

import re

from tvm_ios.support.error_text import lines_that_tell

__all__ = ["read_tvm_error"]

_LAUNCH = re.compile(r"CUDALaunch Error: (CUDA_ERROR_\w+)")
_DRIVER = re.compile(r"CUDAError: (cu\w+).*? failed with error: (CUDA_ERROR_\w+)")
_RUNTIME = re.compile(r"CUDA(?: Runtime Error: \w+ \(\d+\))?: (.+)")
_NAMES = {
    "out of memory": "CUDA_ERROR_OUT_OF_MEMORY",
    "no CUDA-capable device is detected": "CUDA_ERROR_NO_DEVICE",
    "an illegal memory access was encountered": "CUDA_ERROR_ILLEGAL_ADDRESS",
    "unspecified launch failure": "CUDA_ERROR_LAUNCH_FAILED",
    "operation not permitted when stream is capturing": "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
    "operation failed due to a previous error during capture": (
        "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"
    ),
}
"""Names of errors of the CUDA runtime by their texts, since TVM gives only the texts."""


def read_tvm_error(text: str, *, default_call: str) -> tuple[str, str, str]:
    """The call that failed, the name of the error, and TVM's reason, in a line.

    ``default_call`` is named where the text names no call.
    """
    launch, driver = _LAUNCH.search(text), _DRIVER.search(text)
    if launch is not None:
        return "cuLaunchKernel", launch[1], "as TVM reports it"
    if driver is not None:
        return driver[1], driver[2], "as TVM reports it"
    runtime = _RUNTIME.search(text)
    if runtime is not None:
        said = runtime[1].strip()
        name = _NAMES.get(said, "an error of the CUDA runtime")
        # Nothing else that TVM calls runs out of memory.
        return "cudaMalloc" if name == "CUDA_ERROR_OUT_OF_MEMORY" else default_call, name, said
    lines = lines_that_tell(text, "no error text")
    telling = [line for line in lines if re.match(r"(\w*Error: |Check failed|Assert fail)", line)]
    said = (telling or lines)[-1]
    return default_call, "an error of TVM", said[:300]
