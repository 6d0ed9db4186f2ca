"""Products of rounded numbers that a prepared module computes in float32, by reason."""

from __future__ import annotations

from collections import Counter

from tvm import relay

from tvm_ios.core.precision.quantised_products import INPUTS, WEIGHTS
from tvm_ios.relay.dataflow import all_calls, is_call_of, local_function, producers_of
from tvm_ios.relay.extract import Extraction
from tvm_ios.relay.functions.quantised import DEQUANTIZE
from tvm_ios.relay.transforms.bfloat16 import PRODUCTS
from tvm_ios.relay.transforms.quantised.whole_numbers import only_moves, whole_numbers_of
from tvm_ios.relay.transforms.quantised.whole_weights import whole_weights_of

__all__ = ["float32_products"]

SHARED = "whose data others read in float32"


def float32_products(extraction: Extraction) -> Counter[str]:
    """Number of products that read rounded numbers and multiply them as float32, by reason."""
    rounded: set[relay.Call] = set()
    found: Counter[str] = Counter()
    for call in extraction.calls:
        function = local_function(call)
        if function is None:
            continue
        read = [producers_of(argument) for argument in call.args]
        made = [each for producers in read for each in producers]
        moved = only_moves(function) and made and rounded.issuperset(made)
        if moved or whole_numbers_of(function.body) is not None:
            rounded.add(call)
        sources = dict(zip(function.params, read, strict=True))
        for product in all_calls(function.body):
            if not is_call_of(product, *PRODUCTS) or is_call_of(product.args[0], DEQUANTIZE):
                continue
            sides = [
                [each for free in relay.analysis.free_vars(side) for each in sources[free]]
                for side in product.args[:2]
            ]
            if rounded.isdisjoint(sides[0] + sides[1]):
                continue
            found[INPUTS if all(sides) else SHARED if whole_weights_of(call) else WEIGHTS] += 1
    return found
