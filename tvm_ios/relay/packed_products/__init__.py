"""Products of a few rows by packed weights of bytes on CPUs, by loops of our own."""

from tvm_ios.relay.packed_products.kernel import packed_kernel, packed_product

__all__ = ["packed_kernel", "packed_product"]
