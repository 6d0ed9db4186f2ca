from __future__ import annotations

import sys

import pytest

from tvm_ios.errors import HostError
from tvm_ios.install import wheel
from tvm_ios.install.compiled_ffi import compiled_ffi
from tvm_ios.install.finder import STUB_FILE
from tvm_ios.install.hook import write_hook
from tvm_ios.install.quick_import import FFI_FILE
from tvm_ios.install.wheel import install_relay_tvm

needs_wheel = pytest.mark.skipif(
    not wheel.wheel_is_installed(), reason=f"the TVM wheel is not installed for {sys.executable}"
)


def test_a_tvm_with_relay_on_the_path_wins(monkeypatch, tmp_path):
    package = tmp_path / "tvm"
    (package / "relay").mkdir(parents=True)
    for folder in (package, package / "relay"):
        (folder / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    installation = install_relay_tvm()
    assert f"found a TVM with Relay at {package / '__init__.py'}" in installation.as_text()


def test_a_machine_that_the_wheel_does_not_fit_is_told_what_to_do(monkeypatch):
    monkeypatch.setattr(wheel.platform, "machine", lambda: "riscv64")
    with pytest.raises(HostError, match=r"this is linux on riscv64; build TVM 0\.19 or older"):
        install_relay_tvm(force=True)


@pytest.mark.slow(1)
def test_failing_pip_shows_its_words():
    with pytest.raises(HostError, match=r"(?s)pip failed \(exit \d\).*no such option"):
        wheel._pip("--no-such-option")


@pytest.mark.usefixtures("planted_folder")
def test_pip_is_none_that_lies_in_the_working_directory():
    wheel._pip("--version")


@pytest.mark.slow
def test_failing_pip_names_no_host(monkeypatch):
    """Nobody answers at this port, and the address has a password."""
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_INDEX_URL", "http://me:secret@localhost:1/simple")
    monkeypatch.setenv("PIP_RETRIES", "0")
    with pytest.raises(HostError, match=r"pip failed \(exit 1\): .*; run it to see all") as failed:
        wheel._pip("install", "--no-deps", "no-such-package-of-tvm-ios")
    for part in ("localhost", "secret", "\n"):
        assert part not in str(failed.value)


@pytest.mark.parametrize(
    "line",
    [
        "HTTPSConnectionPool(host='some.host', port=443): Max retries exceeded with url: /simple/",
        "Failed to resolve 'some.host' ([Errno -2] Name or service not known)",
        "404 Client Error: Not Found for url: https://some.host/simple/bitblas/",
    ],
)
def test_places_of_packages_are_left_out(line):
    assert "some.host" not in wheel._PLACE.sub("the package index", line)


@needs_wheel
def test_without_a_compiler_the_binding_stays_in_ctypes_and_the_next_step_is_told(
    monkeypatch, tmp_path
):
    monkeypatch.setattr(wheel, "_pip", lambda *_: None)
    monkeypatch.setattr(wheel, "site_packages_directory", lambda: tmp_path)
    monkeypatch.setattr(wheel, "wheel_is_installed", lambda: True)
    text = install_relay_tvm(force=True).as_text()
    assert "note: TVM is called through ctypes" in text
    assert "apt-get install g++" in text
    assert not (tmp_path / FFI_FILE).exists()
    assert (tmp_path / STUB_FILE).is_file()


@needs_wheel
@pytest.mark.slow
def test_the_binding_is_compiled_of_the_sources_of_the_wheel(tmp_path):
    write_hook(tmp_path, compiled_ffi(wheel._package()))
    kept = wheel.site_packages_directory() / FFI_FILE
    assert (tmp_path / FFI_FILE).read_bytes() == kept.read_bytes()


@pytest.mark.slow(1)
def test_what_cython_says_of_a_bad_source_is_told(tmp_path):
    (tmp_path / "_ffi" / "_cython").mkdir(parents=True)
    (tmp_path / "_ffi" / "_cython" / "core.pyx").write_text("cdef int x = nothing_of_this_name\n")
    with pytest.raises(HostError, match=r"cython .*undeclared name"):
        compiled_ffi(tmp_path)


def test_the_wheel_is_pinned_by_version_and_hash():
    assert wheel._pinned_wheel().startswith("bitblas==")
    assert "--hash=sha256:" in wheel._WHEEL.read_text()


@needs_wheel
def test_the_environment_of_the_tests_is_complete():
    assert (wheel.site_packages_directory() / "_tvm_ios_finder.py").is_file()
