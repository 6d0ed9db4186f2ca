from __future__ import annotations

import sysconfig
from pathlib import Path

import pytest

from tvm_ios.install import hook
from tvm_ios.support.c_compiler import compile_shared

SITE = Path(sysconfig.get_path("purelib"))
WHEEL = SITE / "bitblas" / "3rdparty" / "tvm"
STUB = SITE / "_tvm_ios_native" / "libcuda_stub.so"
PRINT_TVM = "import tvm; print(tvm.__file__)"
PRINT_LIBRARIES = "import tvm; print(open('/proc/self/maps').read())"

pytestmark = pytest.mark.skipif(
    not (WHEEL / "python" / "tvm" / "__init__.py").is_file(),
    reason="the TVM wheel is not installed in this environment",
)


def ended_well(done) -> str:
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_plain_import_gives_relay_and_both_tuners(run_python):
    program = (
        "import os, tvm; from tvm import relay, autotvm, auto_scheduler; "
        "print(tvm.__file__, os.environ['TOPHUB_LOCATION'], 'TVM_LIBRARY_PATH' in os.environ)"
    )
    place, tophub, leaked = ended_well(run_python("-c", program)).split()
    assert Path(place).is_relative_to(WHEEL)
    assert (tophub, leaked) == ("NONE", "False")


def test_interpreter_start_loads_nothing_heavy(run_python):
    program = "import sys; print([n for n in ('ctypes', 'tvm') if n in sys.modules])"
    assert ended_well(run_python("-c", program)) == "[]\n"


def test_find_spec_answers_without_loading_anything(run_python):
    program = (
        "import importlib.util, sys; spec = importlib.util.find_spec('tvm'); "
        "print(spec.origin, 'tvm' in sys.modules, 'libcudart' in open('/proc/self/maps').read())"
    )
    assert ended_well(run_python("-c", program)).split()[1:] == ["False", "False"]


def test_without_site_there_is_no_tvm_and_no_noise(run_python):
    done = run_python("-S", "-c", "import importlib.util as u; print(u.find_spec('tvm'))")
    assert (ended_well(done), done.stderr) == ("None\n", "")


@pytest.mark.slow
def test_popen_worker_of_tvm_finds_the_same_tvm(run_python):
    program = (
        "from tvm.contrib.popen_pool import PopenWorker\n"
        "import os.path, tvm\n"
        "worker = PopenWorker()\n"
        "worker.send(os.path.abspath, ['here'])\n"
        "print(worker.recv())\n"
    )
    assert ended_well(run_python("-c", program)).endswith("here\n")


@pytest.mark.slow
def test_leaked_library_path_neither_misleads_nor_is_lost_and_a_set_tophub_is_kept(
    run_python, tmp_path
):
    (tmp_path / "libtvm.so").write_text("not a library")
    program = "import os, tvm; print(*map(os.environ.get, ('TVM_LIBRARY_PATH', 'TOPHUB_LOCATION')))"
    leaked = {"TVM_LIBRARY_PATH": str(tmp_path), "LD_LIBRARY_PATH": str(tmp_path)}
    done = run_python("-c", program, **leaked, TOPHUB_LOCATION="/srv")
    assert ended_well(done) == f"{tmp_path} /srv\n"


@pytest.fixture
def own_tvm(tmp_path) -> dict[str, str]:
    """The environment of a user with a TVM of his own: here the wheel's files, elsewhere."""
    python = tmp_path / "own" / "python"
    python.mkdir(parents=True)
    (python / "tvm").symlink_to(WHEEL / "python" / "tvm")
    libraries = tmp_path / "own" / "lib"
    libraries.mkdir()
    (libraries / "libcuda.so.1").symlink_to(STUB)
    for file in (SITE / "nvidia").glob("cuda_*/lib/*.so*"):
        (libraries / file.name).symlink_to(file)
    return {
        "PYTHONPATH": str(python),
        "TVM_LIBRARY_PATH": str(WHEEL / "build"),
        "LD_LIBRARY_PATH": str(libraries),
    }


@pytest.mark.slow
def test_own_tvm_with_relay_wins(run_python, own_tvm):
    program = "from tvm import relay; import tvm; print(tvm.__file__, relay.var('x').name_hint)"
    place = ended_well(run_python("-c", program, **own_tvm)).split()[0]
    assert Path(place).is_relative_to(own_tvm["PYTHONPATH"])


@pytest.mark.slow
def test_the_wheel_can_be_asked_for(run_python, own_tvm):
    place = ended_well(run_python("-c", PRINT_TVM, TVM_IOS_TVM="wheel", **own_tvm)).strip()
    assert Path(place).is_relative_to(WHEEL)


@pytest.fixture
def tvm_without_relay(tmp_path) -> dict[str, str]:
    package = tmp_path / "newer" / "tvm"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text('__version__ = "0.27.0"\n')
    return {"PYTHONPATH": str(package.parent)}


@pytest.mark.slow
def test_tvm_without_relay_does_not_win(run_python, tvm_without_relay):
    place = ended_well(run_python("-c", PRINT_TVM, **tvm_without_relay)).strip()
    assert Path(place).is_relative_to(WHEEL)


def test_tvm_without_relay_can_be_asked_for(run_python, tvm_without_relay):
    done = run_python("-c", PRINT_TVM, TVM_IOS_TVM="path", **tvm_without_relay)
    assert Path(ended_well(done).strip()).is_relative_to(tvm_without_relay["PYTHONPATH"])


@pytest.mark.slow
def test_a_folder_that_is_called_tvm_does_not_win(run_python, tmp_path):
    (tmp_path / "src" / "tvm" / "relay").mkdir(parents=True)
    place = ended_well(run_python("-c", PRINT_TVM, PYTHONPATH=str(tmp_path / "src"))).strip()
    assert Path(place).is_relative_to(WHEEL)


def test_unknown_choice_is_refused_by_name(run_python):
    done = run_python("-c", "import tvm", TVM_IOS_TVM="newest")
    assert "TVM_IOS_TVM='newest' is not one of auto, wheel, path" in done.stderr


def driver_folder(tmp_path: Path, source: str) -> dict[str, str]:
    """A folder on the loader's path with a libcuda.so.1 made of a C source."""
    folder = tmp_path / "driver"
    folder.mkdir()
    file = tmp_path / "driver.c"
    file.write_text(source)
    (folder / "libcuda.so.1").symlink_to(compile_shared(file, ("-Wl,-soname,libcuda.so.1",)))
    return {"LD_LIBRARY_PATH": str(folder)}


@pytest.mark.slow
def test_a_driver_is_used_and_the_stand_in_is_not(run_python, tmp_path):
    source = (Path(hook.__file__).parent / "native" / "libcuda_stub.c").read_text()
    environment = driver_folder(tmp_path, source + "int a_real_driver;\n")
    maps = ended_well(run_python("-c", PRINT_LIBRARIES, **environment))
    assert "/driver-" in maps
    assert STUB.name not in maps


@pytest.mark.slow
def test_a_driver_before_cuda_12_is_completed_by_the_stand_in(run_python, tmp_path):
    source = (Path(hook.__file__).parent / "native" / "libcuda_stub.c").read_text()
    old = "\n".join(line for line in source.splitlines() if "cuTensorMap" not in line)
    maps = ended_well(run_python("-c", PRINT_LIBRARIES, **driver_folder(tmp_path, old + "\n")))
    assert "/driver-" in maps
    assert STUB.name in maps
