from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tvm_ios.host.onednn_files import (
    ONEDNN_VARIABLE,
    OnednnVersion,
    find_onednn,
    onednn_libraries,
)
from tvm_ios.support.c_compiler import compile_shared
from tvm_ios.support.extras import install_command

SOURCE = """
typedef struct {{ int major, minor, patch; const char* hash; unsigned cpu, gpu; }} Version;
static const Version version = {{{major}, 6, 3, "none", {runtime}, 0}};
const Version* dnnl_version(void) {{ return &version; }}
"""


def library(folder, major: int, runtime: int) -> str:
    source = folder / f"dnnl_{major}_{runtime}.c"
    source.write_text(SOURCE.format(major=major, runtime=runtime))
    return str(compile_shared(source))


def test_messages_name_the_version_that_the_extra_pins():
    requirements = Path(__file__).parents[2] / "requirements"
    for name in ("onednn.txt", "dev.txt"):
        package = install_command("onednn").removeprefix("pip install ").strip("'")
        assert f"{package}; " in (requirements / name).read_text()


def test_the_systems_and_condas_come_before_the_wheels(monkeypatch, tmp_path):
    monkeypatch.delenv(ONEDNN_VARIABLE, raising=False)
    monkeypatch.setenv("CONDA_PREFIX", str(tmp_path / "conda"))
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "venv"))
    for name in ("conda", "venv"):
        (tmp_path / name / "lib").mkdir(parents=True)
        (tmp_path / name / "lib" / "libdnnl.so.3").touch()
    files = [str(tmp_path / name / "lib" / "libdnnl.so.3") for name in ("conda", "venv")]
    assert onednn_libraries()[:3] == ("libdnnl.so.3", *files)
    assert onednn_libraries()[-1] == "libdnnl.so.1"
    monkeypatch.setenv(ONEDNN_VARIABLE, "/own/libdnnl.so")
    assert onednn_libraries() == ("/own/libdnnl.so",)


@pytest.mark.parametrize(
    ("major", "runtime", "reason"),
    [
        (2, 2, r"is oneDNN 2\.6\.3 \(OpenMP\), but its interface is another one; oneDNN 3"),
        (3, 4, r"is oneDNN 3\.6\.3 \(TBB\), but it is a TBB build; one for OpenMP"),
    ],
)
def test_another_interface_or_other_threads_are_refused(
    monkeypatch, tmp_path, major, runtime, reason
):
    monkeypatch.setenv(ONEDNN_VARIABLE, library(tmp_path, major, runtime))
    found = find_onednn()
    assert found.version is None
    assert re.search(reason, found.reason)


def test_one_that_fits_is_taken_and_one_that_is_missing_named(monkeypatch, tmp_path):
    path = library(tmp_path, 3, 1)
    monkeypatch.setenv(ONEDNN_VARIABLE, path)
    found = find_onednn()
    assert (found.path, found.version) == (
        path,
        OnednnVersion(major=3, text="3.6.3", runtime="sequential"),
    )
    monkeypatch.setenv(ONEDNN_VARIABLE, str(tmp_path / "nothing.so"))
    assert "nothing.so" in find_onednn().reason
    nothing = tmp_path / "nothing.c"
    nothing.write_text("int nothing;\n")
    monkeypatch.setenv(ONEDNN_VARIABLE, str(compile_shared(nothing)))
    assert find_onednn().reason.endswith("is no oneDNN")
