"""A convolution made by hand, and a call of cuDNN that computes it."""

from __future__ import annotations

from tvm_ios.runtime.libraries.cudnn.convolution import CudnnCall, CudnnConvolution

__all__ = ["CALL", "CONVOLUTION"]

CONVOLUTION = CudnnConvolution(
    input_shape=(2, 16, 9, 7),
    weight_shape=(24, 4, 5, 3),
    strides=(2, 1),
    padding=(2, 1),
    dilation=(1, 1),
    groups=4,
    bias=True,
    relu=False,
)
CALL = CudnnCall(convolution=CONVOLUTION, data=1, weight=0, bias=2)
