"""Attention on CPUs: one kernel of our own, whose scores stay in the cache of a core.

Goes in place of TVM's schedule of a fused function (:mod:`tvm_ios.relay.kernels`).
"""

from tvm_ios.relay.attention.kernel import attention_kernel, has_attention_kernel

__all__ = ["attention_kernel", "has_attention_kernel"]
