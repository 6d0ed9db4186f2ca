from __future__ import annotations

import os
import shutil

import pytest

from tvm_ios.errors import HostError
from tvm_ios.relax import cuda_compiler


@pytest.fixture(autouse=True)
def nothing_chosen(monkeypatch):
    """An environment without a choice, and TVM's CUDA runtime taken for loaded."""
    monkeypatch.setenv("TVM_CUDA_COMPILE_MODE", "")
    monkeypatch.delenv("TVM_CUDA_COMPILE_MODE")
    monkeypatch.setattr(cuda_compiler, "require_tvm_runtime", lambda: None)


def test_nvcc_is_taken_unless_the_environment_says_otherwise(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: f"/somewhere/{name}")
    cuda_compiler.require_cuda_compiler()
    assert os.environ["TVM_CUDA_COMPILE_MODE"] == "nvcc"
    monkeypatch.setenv("TVM_CUDA_COMPILE_MODE", "nvrtc")
    cuda_compiler.require_cuda_compiler()
    assert os.environ["TVM_CUDA_COMPILE_MODE"] == "nvrtc"


def test_without_a_compiler_it_says_what_to_install(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    monkeypatch.setattr(cuda_compiler, "find_spec", lambda _name: None)
    with pytest.raises(HostError, match="nvcc is not on PATH, and NVRTC needs the package"):
        cuda_compiler.require_cuda_compiler()
    assert cuda_compiler.cuda_compiler() == "TVM_CUDA_COMPILE_MODE=nvrtc"


def test_another_nvcc_or_flag_is_another_compiler(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: f"/one/{name}")
    monkeypatch.setattr(cuda_compiler, "_version_of", lambda place: f"of {place}")
    known = cuda_compiler.cuda_compiler()
    assert known == "TVM_CUDA_COMPILE_MODE=nvcc /one/nvcc of /one/nvcc"
    cuda_compiler.require_cuda_compiler()
    assert cuda_compiler.cuda_compiler() == known
    monkeypatch.setenv("TVM_CUDA_NVCC_NO_FAST_MATH", "1")
    assert "TVM_CUDA_NVCC_NO_FAST_MATH=1" in cuda_compiler.cuda_compiler()
