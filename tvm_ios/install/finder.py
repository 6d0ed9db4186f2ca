"""Import hook with which ``import tvm`` finds the TVM with Relay of the wheel in wheel.txt.

``tvm_ios.install.hook`` copies this file into site-packages; a ``.pth`` line imports the copy at
every interpreter start. So it stands alone, imports only what the interpreter has loaded already,
and works only when ``tvm`` is asked for.

The environment variable ``TVM_IOS_TVM`` says which TVM wins:

- ``auto`` (default): a TVM with Relay that is on the path or installed; else the wheel.
- ``wheel``: the wheel.
- ``path``: the TVM that Python finds without this hook, even one without Relay.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # typing.TYPE_CHECKING without the cost of importing typing
if TYPE_CHECKING:
    import ctypes
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec, SourceFileLoader
    from types import ModuleType

__all__ = ["CHOICES", "CHOICE_VARIABLE", "RelayTvmFinder", "has_relay", "install", "usual_spec"]

CHOICE_VARIABLE = "TVM_IOS_TVM"
CHOICES = ("auto", "wheel", "path")
STUB_FILE = os.path.join("_tvm_ios_native", "libcuda_stub.so")
# CUDA 12 functions of the driver that libtvm.so needs; an older driver lacks the last two.
NEWEST_DRIVER_FUNCTIONS = ("cuTensorMapEncodeIm2col", "cuTensorMapEncodeTiled")


class RelayTvmFinder:
    """Meta-path finder of the one name ``tvm``.

    ``site_packages`` is the folder that holds the wheel's files.
    """

    # The copy in site-packages is another class than the package's own; both bear this mark.
    finds_relay_tvm = True

    def __init__(self, site_packages: str) -> None:
        self.site_packages = site_packages

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Spec of the TVM that wins; None to leave the search to Python."""
        if name != "tvm":
            return None
        choice = os.environ.get(CHOICE_VARIABLE) or "auto"
        if choice not in CHOICES:
            raise ImportError(
                f"{CHOICE_VARIABLE}={choice!r} is not one of {', '.join(CHOICES)}; "
                "unset it to take the TVM with Relay"
            )
        root = os.path.join(self.site_packages, "bitblas", "3rdparty", "tvm")
        package = os.path.join(root, "python", "tvm")
        init = os.path.join(package, "__init__.py")
        if choice == "path" or not os.path.isfile(init):
            return None
        if choice == "auto":
            spec = usual_spec()
            if has_relay(spec):
                return spec
        from importlib.util import spec_from_file_location

        return spec_from_file_location(
            "tvm",
            init,
            loader=_wheel_loader(self.site_packages, root, init),
            submodule_search_locations=[package],
        )


def usual_spec() -> ModuleSpec | None:
    """Spec of ``tvm`` that Python finds without this hook; None without one."""
    for finder in list(sys.meta_path):
        if hasattr(finder, "finds_relay_tvm"):
            continue
        find = getattr(finder, "find_spec", None)
        spec: ModuleSpec | None = find("tvm", None) if find else None
        if spec is not None:
            return spec
    return None


def has_relay(spec: ModuleSpec | None) -> bool:
    """True if a spec is that of a TVM with Relay (0.19 or older)."""
    if spec is None or spec.loader is None:
        return False
    return any(
        os.path.isfile(os.path.join(folder, "relay", "__init__.py"))
        for folder in spec.submodule_search_locations or ()
    )


def install() -> None:
    """Put the finder before Python's own, once."""
    if not any(hasattr(finder, "finds_relay_tvm") for finder in sys.meta_path):
        sys.meta_path.insert(0, RelayTvmFinder(os.path.dirname(os.path.abspath(__file__))))


def _wheel_loader(site_packages: str, root: str, init: str) -> SourceFileLoader:
    from importlib.machinery import SourceFileLoader

    try:
        from _tvm_ios_quick_import import quick_import
    except ImportError:
        from contextlib import nullcontext as quick_import

    class WheelLoader(SourceFileLoader):
        """Loader of the wheel's TVM: its shared libraries first, then the package."""

        def exec_module(self, module: ModuleType) -> None:
            _preload(site_packages)
            # Without it every build tries a download of schedules tuned for other machines.
            os.environ.setdefault("TOPHUB_LOCATION", "NONE")
            # TVM searches this variable, LD_LIBRARY_PATH and PATH for libtvm.so before its own
            # folder. Set while it loads, its own library wins; put back, other TVMs are not misled.
            leaked = os.environ.get("TVM_LIBRARY_PATH")
            os.environ["TVM_LIBRARY_PATH"] = os.path.join(root, "build")
            try:
                with quick_import(site_packages):
                    super().exec_module(module)
            finally:
                if leaked is None:
                    del os.environ["TVM_LIBRARY_PATH"]
                else:
                    os.environ["TVM_LIBRARY_PATH"] = leaked

    return WheelLoader("tvm", init)


def _preload(site_packages: str) -> None:
    """Load libraries that libtvm.so links to, so that the dynamic loader finds them by SONAME."""
    driver = _load("libcuda.so.1") or _load("/usr/local/nvidia/lib64/libcuda.so.1")
    if driver is None or not all(hasattr(driver, name) for name in NEWEST_DRIVER_FUNCTIONS):
        stub = os.path.join(site_packages, STUB_FILE)
        if _load(stub) is None:
            raise ImportError(
                f"no NVIDIA driver of CUDA 12 or newer, and its stand-in {stub} does not load; "
                "run `tvm-ios install-tvm`"
            )
    for folder, name in (
        ("cuda_runtime", "libcudart.so.12"),
        ("cuda_nvrtc", "libnvrtc.so.12"),
    ):
        if _load(os.path.join(site_packages, "nvidia", folder, "lib", name)) or _load(name):
            continue
        raise ImportError(
            f"{name} (package nvidia-{folder.replace('_', '-')}-cu12) does not load; "
            "run `tvm-ios install-tvm`"
        )


def _load(library: str) -> ctypes.CDLL | None:
    import ctypes

    try:
        return ctypes.CDLL(library, mode=ctypes.RTLD_GLOBAL)
    except OSError:
        return None
