"""Writer of the import hook, its ``.pth`` line and the driver's stand-in into site-packages.

There land ``_tvm_ios_finder.py`` (a copy of ``finder.py``), ``tvm_ios_finder.pth`` (one line that
imports it at interpreter start), ``_tvm_ios_quick_import.py`` (a copy of ``quick_import.py``, which
the finder imports with TVM), ``_tvm_ios_native/libcuda_stub.so`` and TVM's Cython module.
The stand-in has no name by which a loader could take it for the driver: only the hook loads it, by
full path, and only where no driver answers.
"""

from __future__ import annotations

from pathlib import Path

from tvm_ios.errors import HostError
from tvm_ios.install.finder import STUB_FILE
from tvm_ios.install.quick_import import FFI_FILE
from tvm_ios.support.c_compiler import compile_shared
from tvm_ios.support.whole_file import write_bytes

__all__ = ["driver_stub", "write_hook"]

MODULE_NAME = "_tvm_ios_finder"
PTH_NAME = "tvm_ios_finder.pth"
# site runs a .pth line that begins with "import"; a missing module must not break the start.
PTH_LINE = (
    f'import sys; exec("try:\\n import {MODULE_NAME} as f\\n f.install()\\n'
    'except ImportError:\\n pass")\n'
)
_COPIES = {
    "_tvm_ios_quick_import.py": Path(__file__).with_name("quick_import.py"),
    f"{MODULE_NAME}.py": Path(__file__).with_name("finder.py"),
}
_STUB = Path(__file__).with_name("native") / "libcuda_stub.c"


def write_hook(site_packages: Path, ffi: bytes | None = None) -> tuple[Path, ...]:
    """Install the hook into ``site_packages``; return the files that changed.

    ``ffi`` is TVM's Cython module; without it the one that is there stays. Every file is replaced
    atomically, the ``.pth`` last: processes that start meanwhile see the old hook or the new one.
    """
    contents = {
        STUB_FILE: driver_stub().read_bytes(),
        **({} if ffi is None else {FFI_FILE: ffi}),
        **{name: source.read_bytes() for name, source in _COPIES.items()},
        PTH_NAME: PTH_LINE.encode(),
    }
    return tuple(
        site_packages / name
        for name, content in contents.items()
        if _replace(site_packages / name, content)
    )


def driver_stub() -> Path:
    """Library that stands in for the CUDA driver, and answers that there is no device."""
    # The loader knows by this SONAME that what TVM needs is loaded already.
    return compile_shared(_STUB, ("-Wl,-soname,libcuda.so.1",))


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None


def _replace(path: Path, content: bytes) -> bool:
    if _content(path) == content:
        return False
    try:
        write_bytes(path, content)
        path.chmod(0o644)  # whoever may use the environment needs the hook, whatever the umask
    except OSError as error:
        raise HostError(
            f"cannot write {path}: {error}; use a virtual environment that you own"
        ) from error
    return True
