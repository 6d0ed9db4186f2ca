"""Kernels of our own for CPUs: rows that are reduced and written in one pass.

Goes in place of TVM's schedule of a fused function (:mod:`tvm_ios.relay.kernels`).
"""
