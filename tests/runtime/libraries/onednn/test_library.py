"""The libdnnl of this process, and one that does not fit."""

from __future__ import annotations

import pytest

from tvm_ios.errors import HostError
from tvm_ios.host.onednn_files import ONEDNN_VARIABLE
from tvm_ios.runtime.libraries.onednn import device
from tvm_ios.runtime.libraries.onednn.device import OnednnProcessor
from tvm_ios.runtime.libraries.onednn.library import OnednnFacts, load_onednn
from tvm_ios.support.c_compiler import compile_shared


def test_a_library_that_lacks_a_function_or_is_missing_says_what_to_install(monkeypatch, tmp_path):
    source = tmp_path / "half.c"
    source.write_text(
        "typedef struct { int major, minor, patch; const char* hash; unsigned cpu, gpu; } V;\n"
        "static const V version = {3, 9, 0, 0, 1, 0};\n"
        "const V* dnnl_version(void) { return &version; }\n"
    )
    monkeypatch.setenv(ONEDNN_VARIABLE, str(compile_shared(source)))
    monkeypatch.setattr(device, "load_onednn", load_onednn.__wrapped__)
    with pytest.raises(HostError, match=r"oneDNN 3\.9\.0 \(sequential\), but it has no dnnl_.*pip"):
        OnednnProcessor()
    monkeypatch.setenv(ONEDNN_VARIABLE, str(tmp_path / "nowhere.so"))
    with pytest.raises(
        HostError,
        match=r"no oneDNN 3: .*nowhere\.so.*run pip install 'onednn-cpu-gomp==\d.*"
        "--libraries none",
    ):
        load_onednn.__wrapped__()


@pytest.mark.parametrize(
    ("isa", "has"),
    [
        ("avx2", False),
        ("avx512_core_vnni", False),
        ("avx512_core_bf16", True),
        ("avx512_core_fp16", True),
        ("avx512_core_amx", True),
    ],
)
def test_instruction_sets_tell_whether_products_in_bfloat16_are_fast(isa, has):
    assert OnednnFacts("3.2.0", isa).has_bfloat16 == has
