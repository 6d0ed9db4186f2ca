from __future__ import annotations

import pytest

from tvm_ios.host.gpu import GpuReport, describe_gpu


def program(folder, name: str, script: str) -> None:
    file = folder / name
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)


def test_without_tools_nothing_is_found_and_nothing_fails(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    report = describe_gpu()
    assert report.devices == ()


def test_devices_and_nvcc_are_read_from_their_tools(monkeypatch, tmp_path):
    program(tmp_path, "nvidia-smi", "echo 'A GPU, 81559 MiB, 9.0'")
    program(tmp_path, "nvcc", "echo 'Cuda compilation tools, release 12.4, V12.4.131'")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    report = describe_gpu()
    assert report.devices == ("A GPU, 81559 MiB, 9.0",)
    assert report.nvcc == f"12.4 at {tmp_path}/nvcc"


@pytest.mark.gpu
def test_a_real_gpu_is_found():
    report = describe_gpu()
    if report == GpuReport(nvcc=report.nvcc, cudnn=report.cudnn):
        pytest.skip("no NVIDIA GPU on this machine")
    assert report.devices
    assert report.driver_cuda is not None
