"""Kernels of our own for CPUs: rows that are reduced and written in one pass.

Goes in place of TVM's schedule of a fused function (:mod:`tvm_ios.relay.kernels`).
"""

from tvm_ios.relay.row_kernels.kernel import has_row_kernel, row_kernel

__all__ = ["has_row_kernel", "row_kernel"]
