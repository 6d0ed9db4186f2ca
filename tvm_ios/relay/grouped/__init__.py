"""Depthwise and grouped convolutions on CPUs, by loops of our own."""

from tvm_ios.relay.grouped.convolution import OPERATORS
from tvm_ios.relay.grouped.kernel import grouped_kernel

__all__ = ["OPERATORS", "grouped_kernel"]
