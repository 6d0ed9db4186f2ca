"""oneDNN's functions and numbers, as the installed library has them; one that does not fit."""

from __future__ import annotations

import ctypes

import pytest

from tvm_ios.core.onednn_files import ONEDNN_VARIABLE
from tvm_ios.errors import HostError
from tvm_ios.runtime.libraries.onednn.call import Primitive
from tvm_ios.runtime.libraries.onednn.library import Onednn, OnednnRefusalError, load_onednn
from tvm_ios.runtime.libraries.onednn.numbers import ALGORITHMS, BINARY, ELEMENTWISE
from tvm_ios.runtime.libraries.onednn.tensors import FORMATS
from tvm_ios.support.c_compiler import compile_shared


def name_of(onednn: Onednn, function: str, number: int) -> str:
    names = onednn.library[function]
    names.restype = ctypes.c_char_p
    return names(number).decode()


def test_numbers_of_formats_are_those_of_the_library(onednn):
    assert {
        name: name_of(onednn, "dnnl_fmt_tag2str", number) for name, number in FORMATS.items()
    } == {name: name for name in FORMATS}


def test_numbers_of_steps_are_those_of_the_library(onednn):
    names = {"hard-swish": "hardswish", "sigmoid": "logistic", "gelu": "gelu_erf"}
    for kind, number in ELEMENTWISE.items():
        wanted = f"eltwise_{names.get(kind.value, kind.value.replace('-', '_'))}"
        assert name_of(onednn, "dnnl_alg_kind2str", number) == wanted
    short = {"multiply": "mul", "subtract": "sub", "maximum": "max", "minimum": "min"}
    for kind, number in BINARY.items():
        wanted = f"binary_{short.get(kind.value, kind.value)}"
        assert name_of(onednn, "dnnl_alg_kind2str", number) == wanted


def test_numbers_of_algorithms_are_those_of_the_library(onednn):
    assert {
        kind: name_of(onednn, "dnnl_alg_kind2str", number) for kind, number in ALGORITHMS.items()
    } == {
        Primitive.CONVOLUTION: "convolution_direct",
        Primitive.TRANSPOSED: "deconvolution_direct",
        Primitive.MAX_POOLING: "pooling_max",
        Primitive.AVERAGE_POOLING: "pooling_avg_include_padding",
        Primitive.AVERAGE_INSIDE: "pooling_avg_exclude_padding",
        Primitive.SOFTMAX: "softmax_accurate",
    }


def test_a_status_is_one_clear_error(onednn):
    for name in ("dnnl_engine_create", "dnnl_primitive_execute"):
        assert onednn.address(name)
    with pytest.raises(OnednnRefusalError, match=r"conv: dnnl_x failed: unimplemented \(oneDNN 3"):
        raise onednn.failed("dnnl_x", 3, "conv")
    with pytest.raises(Exception, match="dnnl_engine_create failed: invalid_arguments"):
        onednn.make("dnnl_engine_create", 77, 0)


def test_the_number_of_threads_of_the_caller_is_given_back(onednn):
    before = onednn.get_threads()
    onednn.set_threads(3)
    try:
        with onednn.one_thread():
            assert onednn.get_threads() == 1
        assert onednn.get_threads() == 3
    finally:
        onednn.set_threads(before)


def test_a_library_that_lacks_a_function_or_is_missing_says_what_to_install(monkeypatch, tmp_path):
    source = tmp_path / "half.c"
    source.write_text(
        "typedef struct { int major, minor, patch; const char* hash; unsigned cpu, gpu; } V;\n"
        "static const V version = {3, 9, 0, 0, 1, 0};\n"
        "const V* dnnl_version(void) { return &version; }\n"
    )
    monkeypatch.setenv(ONEDNN_VARIABLE, str(compile_shared(source)))
    with pytest.raises(HostError, match=r"oneDNN 3\.9\.0 \(sequential\), but it has no dnnl_.*pip"):
        load_onednn.__wrapped__()
    monkeypatch.setenv(ONEDNN_VARIABLE, str(tmp_path / "nowhere.so"))
    with pytest.raises(
        HostError,
        match=r"no oneDNN 3: .*nowhere\.so.*run pip install 'onednn-cpu-gomp==\d.*"
        "onednn=True",
    ):
        load_onednn.__wrapped__()
