"""Attention on CPUs: one kernel of our own, whose scores stay in the cache of a core.

Goes in place of TVM's schedule of a fused function (:mod:`tvm_ios.relay.kernels`).
"""
