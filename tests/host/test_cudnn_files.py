from __future__ import annotations

import sys

from tvm_ios.host.cudnn_files import cudnn_dependencies, cudnn_libraries, cudnn_version_text


def test_wheels_come_before_what_the_loader_finds(monkeypatch, tmp_path):
    for package, name in (
        ("cudnn", "libcudnn.so.9"),
        ("cublas", "libcublas.so.12"),
        ("cublas", "libcublasLt.so.12"),
        ("cuda_nvrtc", "libnvrtc.so.12"),
    ):
        file = tmp_path / "nvidia" / package / "lib" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    monkeypatch.setattr(sys, "path", ["", str(tmp_path)])
    wheels = tmp_path / "nvidia"
    first, *_, last = cudnn_libraries()
    assert first == str(wheels / "cudnn" / "lib" / "libcudnn.so.9")
    assert last == "libcudnn.so.9"
    # cuBLAS's own dependency comes first.
    assert cudnn_dependencies() == (
        str(wheels / "cublas" / "lib" / "libcublasLt.so.12"),
        str(wheels / "cublas" / "lib" / "libcublas.so.12"),
        str(wheels / "cuda_nvrtc" / "lib" / "libnvrtc.so.12"),
    )


def test_wheels_of_cuda_13_lie_in_one_folder(monkeypatch, tmp_path):
    folder = tmp_path / "nvidia" / "cu13" / "lib"
    folder.mkdir(parents=True)
    names = ["libcublasLt.so.13", "libcublas.so.13", "libnvrtc-builtins.so.13.0", "libnvrtc.so.13"]
    for name in (*names, "libnvrtc.alt.so.13"):
        (folder / name).touch()
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    assert cudnn_dependencies() == tuple(str(folder / name) for name in names)


def test_versions_before_and_after_nine():
    assert [cudnn_version_text(number) for number in (91002, 90000, 8907)] == [
        "9.10.2",
        "9.0.0",
        "8.9.7",
    ]
