"""Numbers in the data of calls, as the installed oneDNN has them."""

from __future__ import annotations

import ctypes

from tvm_ios.runtime.libraries.onednn.call import Primitive, StepKind
from tvm_ios.runtime.libraries.onednn.call_data import PRIMITIVES, STEPS
from tvm_ios.runtime.libraries.onednn.library import Onednn
from tvm_ios.runtime.libraries.onednn.tensors import FORMATS


def name_of(onednn: Onednn, function: str, number: int) -> str:
    names = onednn.library[function]
    names.restype = ctypes.c_char_p
    return names(number).decode()


def test_numbers_of_formats_are_those_of_the_library(onednn):
    assert {
        name: name_of(onednn, "dnnl_fmt_tag2str", number) for name, number in FORMATS.items()
    } == {name: name for name in FORMATS}


def test_numbers_of_steps_are_those_of_the_library(onednn):
    functions = {"hard-swish": "hardswish", "sigmoid": "logistic", "gelu": "gelu_erf"}
    two = {"add": "add", "multiply": "mul", "subtract": "sub", "maximum": "max", "minimum": "min"}
    for kind, number in STEPS.items():
        if kind is StepKind.PRELU:
            assert number == 0
            continue
        function = functions.get(kind.value, kind.value.replace("-", "_"))
        wanted = f"binary_{two[kind.value]}" if kind.value in two else f"eltwise_{function}"
        assert name_of(onednn, "dnnl_alg_kind2str", number) == wanted


def test_numbers_of_algorithms_are_those_of_the_library(onednn):
    assert {
        kind: name_of(onednn, "dnnl_alg_kind2str", number) for kind, number in PRIMITIVES.items()
    } == {
        Primitive.PRODUCT: "undef",
        Primitive.CONVOLUTION: "convolution_direct",
        Primitive.TRANSPOSED: "deconvolution_direct",
        Primitive.MAX_POOLING: "pooling_max",
        Primitive.AVERAGE_POOLING: "pooling_avg_include_padding",
        Primitive.AVERAGE_INSIDE: "pooling_avg_exclude_padding",
        Primitive.SOFTMAX: "softmax_accurate",
    }
