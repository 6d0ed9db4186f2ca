"""What a call of ``tune`` needs of C code is there before it asks."""

from __future__ import annotations

import pytest

from tvm_ios.driver.code_ahead import compile_code_ahead
from tvm_ios.host.lane_speeds import LANE_SPEEDS
from tvm_ios.runtime.base.native_runtime import LANE_EXECUTOR
from tvm_ios.runtime.libraries.onednn.native_calls import CALLS_SOURCE
from tvm_ios.support import c_compiler


@pytest.mark.slow
def test_nobody_compiles_after_the_thread(tmp_path, monkeypatch):
    monkeypatch.setenv("TVM_IOS_CACHE_DIR", str(tmp_path))
    compile_code_ahead("llvm").join()
    run, inputs = c_compiler._run, []
    monkeypatch.setattr(c_compiler, "_run", lambda *given: (inputs.append(given[1]), run(*given)))
    for source in (LANE_SPEEDS, LANE_EXECUTOR, CALLS_SOURCE):
        source.as_library()
        source.as_object()
    assert not [each for each in inputs if each.endswith(".c")]
