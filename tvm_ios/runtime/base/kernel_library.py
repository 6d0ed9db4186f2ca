"""A loaded kernel library: its kernels by name, its parallel launches sent to our lanes.

The library stays usable by stock TVM: the hook serves only threads that run one of our programs.
"""

from __future__ import annotations

import _ctypes
import ctypes
import shutil
import tempfile
import weakref
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from tvm_ios.errors import ArtifactError
from tvm_ios.runtime.base.convention import CONVENTION
from tvm_ios.runtime.base.loaded_plan import Kernel
from tvm_ios.runtime.base.native_runtime import NativeRuntime
from tvm_ios.runtime.base.tvm_abi import TvmFunction
from tvm_ios.runtime.base.tvm_names import imported_modules, load_library
from tvm_ios.support.error_text import lines_that_tell

__all__ = ["KernelLibrary"]


class KernelLibrary:
    """The kernels of one file that ``export_library`` wrote.

    Without a runtime of parallel launches, the lane executor inside the file is taken.
    """

    def __init__(self, path: Path, runtime: NativeRuntime | None = None) -> None:
        self.path = path
        try:
            self.module, library = _load(path)
        except (RuntimeError, OSError, ValueError) as error:
            said = lines_that_tell(error, type(error).__name__)[-1]
            raise ArtifactError(
                f"{path}: cannot be loaded as a kernel library: {said}; "
                "export the model again, or set TMPDIR to a folder that code may be loaded from"
            ) from error
        self.runtime = runtime or NativeRuntime(library)
        self.code = library
        """The loaded file, in which symbols of native code are looked up."""
        self.convention = CONVENTION
        """Calling convention of the kernels."""
        self._functions: dict[str, Any] = {}
        # A barrier waits until every task of its region has come. A lane runs several of them one
        # after another, so it would wait for ever.
        self._serial = TvmFunction.PARALLEL_BARRIER.slot_in(library) is not None
        # A file with the executor in it stays as long as its pools, which hold the runtime.
        _unload_after(self if runtime else self.runtime, library)
        self._install_hook()

    def kernel(self, name: str) -> Kernel:
        """The kernel of this name, by address; ArtifactError if there is none."""
        found = self.convention.kernel(
            self.runtime, self.code, name, partial(self._kept_function, name)
        )
        return replace(found, serial=self._serial)

    def function(self, name: str) -> Any:
        """The kernel of this name as a function of TVM; ArtifactError if there is none."""
        for module in (self.module, *imported_modules(self.module)):
            try:
                return module.get_function(name, query_imports=True)
            except AttributeError:
                continue
        raise ArtifactError(
            f"{self.path}: there is no kernel named {name!r}; plan and library do not belong "
            "together, export the model again"
        )

    def last_error_text(self) -> str:
        """Text of the last failure of a kernel on this thread; TVM may keep it for one reader."""
        get_text = ctypes.CFUNCTYPE(ctypes.c_char_p)(self.convention.last_error(self.runtime))
        return (get_text() or b"").decode(errors="replace")

    def redirect(self, function: TvmFunction, address: int) -> None:
        """Let the kernels call another function in place of one of TVM's."""
        slot = function.slot_in(self.code)
        if slot is not None:
            slot.value = address

    def _kept_function(self, name: str) -> Any:
        """The kernel of this name as a function of TVM, which lives as long as this."""
        return self._functions.setdefault(name, self.function(name))

    def _install_hook(self) -> None:
        """Send parallel regions to our lanes."""
        slot = TvmFunction.PARALLEL_LAUNCH.slot_in(self.code)
        if slot is not None:  # None where no kernel opens a parallel region
            self.runtime.hook(ctypes.addressof(slot), TvmFunction.PARALLEL_LAUNCH.address)


def _load(path: Path) -> tuple[Any, ctypes.CDLL]:
    """Load a copy, so that nobody else has the same code loaded.

    The loader knows libraries by name and by inode. So a file exported again to the path of one
    that is still loaded would give the old kernels; and of a file that is loaded twice there is one
    image, which remembers device functions of whichever of TVM's modules it belonged to first, and
    calls them when that module is gone.
    """
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "kernels.so"
        shutil.copyfile(path, copy)
        # Two handles of one image: TVM's module fills the slots for functions of TVM when it loads,
        # and only a handle of our own, opened after that, gives their addresses.
        return load_library(str(copy)), ctypes.CDLL(str(copy))


def _unload_after(owner: object, library: ctypes.CDLL) -> None:
    """Unload a library once nothing runs its code any more: ctypes never does."""
    # Not at exit: TVM may still hold functions of it then.
    weakref.finalize(owner, _ctypes.dlclose, library._handle).atexit = False  # noqa: SLF001
