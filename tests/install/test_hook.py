from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tvm_ios.errors import HostError
from tvm_ios.install.finder import STUB_FILE
from tvm_ios.install.hook import MODULE_NAME, PTH_NAME, write_hook

ADD_SITE = "import site, sys; site.addsitedir(sys.argv[1]); import importlib.util as u; "


def test_writing_twice_changes_nothing_the_second_time(tmp_path):
    assert len(write_hook(tmp_path)) == 4
    assert write_hook(tmp_path) == ()
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "_tvm_ios_finder.py",
        "_tvm_ios_native",
        "_tvm_ios_quick_import.py",
        "tvm_ios_finder.pth",
    ]


def test_a_damaged_hook_is_noticed_and_mended(tmp_path):
    write_hook(tmp_path)
    (tmp_path / PTH_NAME).write_text("")
    assert write_hook(tmp_path) == (tmp_path / PTH_NAME,)


def test_without_the_wheel_the_hook_leaves_the_search_to_python(run_python, tmp_path):
    write_hook(tmp_path)
    program = ADD_SITE + "print(type(sys.meta_path[0]).__name__, u.find_spec('tvm'))"
    done = run_python("-S", "-c", program, str(tmp_path))
    assert (done.stdout, done.stderr) == ("RelayTvmFinder None\n", "")


def test_a_pth_without_its_module_is_silent(run_python, tmp_path):
    write_hook(tmp_path)
    (tmp_path / f"{MODULE_NAME}.py").unlink()
    done = run_python("-S", "-c", ADD_SITE + "print(u.find_spec('tvm'))", str(tmp_path))
    assert (done.stdout, done.stderr) == ("None\n", "")


def test_this_environment_has_the_hook_of_this_version(tmp_path):
    sites = (Path(path) for path in sys.path)
    site = next((path for path in sites if (path / PTH_NAME).exists()), None)
    if site is None:
        pytest.skip("the hook is not installed: a TVM of the user's is in use")
    write_hook(tmp_path)
    for name in (PTH_NAME, f"{MODULE_NAME}.py", "_tvm_ios_quick_import.py"):
        assert (site / name).read_bytes() == (tmp_path / name).read_bytes()
    assert (site / STUB_FILE).is_file()


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(HostError, match="cannot write .*file/_tvm_ios_native"):
        write_hook(tmp_path / "file")
