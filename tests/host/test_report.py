from __future__ import annotations

from dataclasses import replace

import pytest

from tvm_ios.cli.doctor import as_text
from tvm_ios.host import GpuReport, LatencyMode, TvmReport
from tvm_ios.host import report as report_module
from tvm_ios.host.onednn_files import ONEDNN_VARIABLE
from tvm_ios.host.report import HostReport, _gpu_hints, _thread_hints, describe_host

FIT = TvmReport(origin="wheel", version="0.17", targets=("llvm", "cuda"), threads=1)


@pytest.mark.slow
def test_this_machine_is_fit():
    report = describe_host()
    assert isinstance(report, HostReport)
    assert report.problems == ()
    assert report.lanes >= 1
    named = f"onednn        {report.onednn or 'none'}"
    assert named in as_text(report)
    assert (report.onednn is None) == any("no oneDNN 3" in hint for hint in report.hints)
    told = "counted: " if report.counts_run_delay else "not counted (no schedstat): "
    assert f"run delay     {told}samples beside other processes" in as_text(report)
    assert (report.hop_ns is None) == (report.latency_mode is None)
    assert report.latency_mode in (None, LatencyMode.FAST, LatencyMode.SLOW)


@pytest.mark.slow
def test_a_missing_onednn_and_calls_through_ctypes_are_hints(monkeypatch, tmp_path):
    monkeypatch.setenv(ONEDNN_VARIABLE, str(tmp_path / "nothing.so"))
    # Else a process or two would say.
    monkeypatch.setattr(report_module, "describe_tvm", lambda *_: replace(FIT, uses_ctypes=True))
    report = describe_host()
    assert report.onednn is None
    assert report.problems == ()
    assert any("called through ctypes" in hint for hint in report.hints)
    assert "nothing.so" in report.hints[-1]
    assert "pip install 'onednn-cpu-gomp==" in report.hints[-1]


def test_half_of_the_cores_is_pointed_out():
    assert _thread_hints(FIT, 1) == []
    assert "half of the cores; for all 2: export TVM_NUM_THREADS=2" in _thread_hints(FIT, 2)[0]
    assert "runs 1 thread, " in _thread_hints(FIT, 2)[0]


def test_gpu_hints_name_the_next_step():
    old = GpuReport(devices=("a GPU, 80 GiB, 9.0",), driver_cuda="11.8")
    driver, nvcc, cudnn = _gpu_hints(FIT, old)
    assert "update the driver" in driver
    assert "install a CUDA toolkit" in nvcc
    assert "pip install nvidia-cudnn-cu12" in cudnn
    unseen = GpuReport(devices=("a GPU",), driver_cuda="12.4", nvcc="12.4", cudnn="9.1")
    assert "CUDA_VISIBLE_DEVICES" in _gpu_hints(FIT, unseen)[0]
    assert _gpu_hints(FIT, GpuReport()) == []
