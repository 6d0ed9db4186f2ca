from __future__ import annotations

import subprocess
import sys

from tvm_ios.host import cached_libinfo, host_target, require_relay_tvm

REQUIRE = "from tvm_ios.host import require_relay_tvm; require_relay_tvm()"


def fake_tvm(tmp_path, init: str) -> dict[str, str]:
    (tmp_path / "own" / "tvm").mkdir(parents=True)
    (tmp_path / "own" / "tvm" / "__init__.py").write_text(init)
    return {"PYTHONPATH": str(tmp_path / "own"), "TVM_IOS_TVM": "path"}


def test_relay_tvm_is_found():
    tvm = require_relay_tvm()
    assert tvm.relay.var("x").name_hint == "x"


def test_no_tvm_names_the_command(run_python, tmp_path):
    missing = "raise ModuleNotFoundError('No module named tvm', name='tvm')\n"
    done = run_python("-c", REQUIRE, **fake_tvm(tmp_path, missing))
    assert "HostError: no TVM found; run `tvm-ios install-tvm`" in done.stderr


def test_tvm_without_relay_is_named_with_version_and_place(run_python, tmp_path):
    done = run_python("-c", REQUIRE, **fake_tvm(tmp_path, '__version__ = "0.27.0"\n'))
    assert f"HostError: TVM 0.27.0 at {tmp_path}/own/tvm/__init__.py has no Relay" in done.stderr


def test_tvm_that_does_not_load_says_why(run_python, tmp_path):
    done = run_python("-c", REQUIRE, **fake_tvm(tmp_path, "import ctypes; ctypes.CDLL('no.so')\n"))
    assert "HostError: TVM does not load: OSError: no.so: cannot open" in done.stderr


def test_where_tvm_finds_no_home_the_variable_to_set_is_named(run_python, tmp_path):
    environment = fake_tvm(tmp_path, "raise RuntimeError('no home')\n")
    assert "HOME" not in run_python("-c", REQUIRE, **environment, HOME=str(tmp_path)).stderr
    done = run_python("-c", REQUIRE, **environment, HOME=str(tmp_path / "none"))
    assert "no home; set HOME to a folder you can write" in done.stderr


def test_missing_need_of_tvm_is_named(run_python, tmp_path):
    done = run_python("-c", REQUIRE, **fake_tvm(tmp_path, "import no_such_need\n"))
    assert "HostError: TVM needs the module no_such_need" in done.stderr


def test_too_old_tvm_is_refused(run_python, tmp_path):
    environment = fake_tvm(tmp_path, '__version__ = "0.9.0"\n')
    (tmp_path / "own" / "tvm" / "relay.py").write_text("")
    assert "is older than 0.11" in run_python("-c", REQUIRE, **environment).stderr


def test_host_target_is_one_that_tvm_parses():
    tvm = require_relay_tvm()
    assert tvm.target.Target(host_target()).kind.name == "llvm"


def test_libinfo_is_cached_inside_and_put_back_after():
    tvm = require_relay_tvm()
    original = tvm.support.libinfo
    with cached_libinfo():
        inside = tvm.support.libinfo
        assert inside() is inside()
        assert inside() == original()
        assert tvm.relay.backend.te_compiler.libinfo is inside
        with cached_libinfo():
            assert tvm.support.libinfo is inside
        assert tvm.support.libinfo is inside
    assert tvm.support.libinfo is original
    assert tvm.relay.backend.te_compiler.libinfo is original


def test_importing_the_package_does_not_import_tvm():
    program = "import sys, tvm_ios.host, tvm_ios.cli.main; sys.exit('tvm' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
