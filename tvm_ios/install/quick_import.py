"""Quick import of the wheel's TVM: nearly half the time, for the same modules.

``tvm_ios.install.hook`` copies this file into site-packages beside the finder, whose loader puts
`quick_import` around the wheel's ``tvm/__init__.py``. It stands alone, too. Its tricks are known to
be right for the wheel in wheel.txt; other versions are imported plainly. Every process that uses
TVM pays for its import, so:

- Garbage is not collected meanwhile: modules are 100,000 objects, and none is garbage.
- TVM lists the names of its 3,000 global functions for each of 82 modules. Here it does so once.
- TVM's cost models import XGBoost, and with it SciPy, for one base class. Here they take TVM's own,
  for where there is no XGBoost, and it becomes XGBoost's when that is imported: the cost models do
  so when they are made.
- A module for an NPU takes ``LooseVersion`` from distutils, for which setuptools imports all of
  itself. Here distutils is read from where setuptools keeps it.
- TVM calls its library through ctypes where its Cython module is missing, and the wheel has that
  module as source only. ``install-tvm`` compiles it, and here it is found.
- TVM makes a folder in the working directory, and runs the pickle that somebody left there, for a
  function whose results it never saves. Here it looks at no file.
"""

from __future__ import annotations

import gc
import os
import sys
from _thread import get_ident
from contextlib import contextmanager

TYPE_CHECKING = False  # typing.TYPE_CHECKING without the cost of importing typing
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

__all__ = ["FFI_FILE", "quick_import"]

FFI_FILE = os.path.join("_tvm_ios_native", "tvm_ffi.so")
"""TVM's Cython module, beside the folder of the wheel; missing where it could not be compiled."""
_PINNED_WHEEL = "bitblas-0.0.1.dev15"
_TRAINERS = ("tvm.autotvm.tuner.xgboost_cost_model", "tvm.auto_scheduler.cost_model.xgb_model")
"""Modules that derive a class from XGBoost's TrainingCallback, or without it from an empty one."""


@contextmanager
def quick_import(site_packages: str) -> Iterator[None]:
    """Context in which the calling thread executes ``tvm``, which ``sys.modules`` has already.

    ``site_packages`` is the folder that holds the wheel's files.
    """
    if not os.path.isdir(os.path.join(site_packages, f"{_PINNED_WHEEL}.dist-info")):
        yield
        return
    with _without_collecting(), _postponed(site_packages), _names_listed_once(), _no_pickles():
        yield


@contextmanager
def _without_collecting() -> Iterator[None]:
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if gc.get_freeze_count() == 0:
            # Moves all objects to the oldest generation without looking at them.
            gc.freeze()
            gc.unfreeze()
        if collects:
            gc.enable()


@contextmanager
def _names_listed_once() -> Iterator[None]:
    from importlib import import_module

    registry: Any = import_module("tvm._ffi.registry")
    list_names = registry.list_global_func_names
    names = list_names()
    registry.list_global_func_names = lambda: names
    try:
        yield
    finally:
        registry.list_global_func_names = list_names


@contextmanager
def _no_pickles() -> Iterator[None]:
    from importlib import import_module

    cache: Any = import_module("tvm.contrib.pickle_memoize").Cache
    stock, cache.__init__ = cache.__init__, _keep_in_memory
    try:
        yield
    finally:
        cache.__init__ = stock


def _keep_in_memory(cache: Any, _key: str, _save_at_exit: bool) -> None:
    cache.cache = {}
    cache.dirty = cache.save_at_exit = False


@contextmanager
def _postponed(site_packages: str) -> Iterator[None]:
    finder = _PostponingFinder(site_packages)
    had_distutils = "distutils" in sys.modules
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        finder.importing_thread = None
        if not finder.postponed_xgboost:
            sys.meta_path.remove(finder)
        for name in [] if had_distutils else list(sys.modules):
            # It is found anew, as setuptools wants it, by who imports it next.
            if name == "distutils" or name.startswith("distutils."):
                del sys.modules[name]


class _PostponingFinder:
    """Meta-path finder of modules that the importing thread shall not find, or find elsewhere.

    It stays until XGBoost has been imported, if that was postponed.
    """

    def __init__(self, site_packages: str) -> None:
        self.importing_thread: int | None = get_ident()
        self.postponed_xgboost = False
        self._distutils = os.path.join(site_packages, "setuptools", "_distutils")
        self._ffi = os.path.join(site_packages, FFI_FILE)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Spec of TVM's Cython module or a bare distutils, and later of XGBoost."""
        if name == "xgboost.callback" and self.postponed_xgboost:
            return self._spec_of_callbacks()
        if self.importing_thread != get_ident():
            return None
        if name == "xgboost":
            self.postponed_xgboost = True
            raise ModuleNotFoundError("postponed while TVM is imported", name=name)
        init = os.path.join(self._distutils, "__init__.py")
        from importlib.util import spec_from_file_location

        if name == "tvm._ffi._cy3.core" and os.path.isfile(self._ffi):
            return spec_from_file_location(name, self._ffi)
        if name == "distutils" and os.path.isfile(init):
            return spec_from_file_location(name, init, submodule_search_locations=[self._distutils])
        return None

    def _spec_of_callbacks(self) -> ModuleSpec | None:
        from importlib.util import find_spec

        sys.meta_path.remove(self)
        spec = find_spec("xgboost.callback")
        if spec is not None and spec.loader is not None:
            _run_after(spec.loader, _lend_to_trainers)
        return spec


def _run_after(loader: object, then: Callable[[ModuleType], None]) -> None:
    """Have ``then`` called once with the module that ``loader`` executes next."""

    def exec_module(module: ModuleType) -> None:
        del loader.exec_module  # type: ignore[attr-defined]
        loader.exec_module(module)  # type: ignore[attr-defined]
        then(module)

    loader.exec_module = exec_module  # type: ignore[attr-defined]


def _lend_to_trainers(callbacks: ModuleType) -> None:
    """Have TVM's callbacks count as XGBoost's, and do what they would inherit from its class.

    Python refuses to exchange their base class itself.
    """
    base: Any = getattr(callbacks, "TrainingCallback", None)
    trainers = [sys.modules[name] for name in _TRAINERS if name in sys.modules]
    for trainer in trainers if base else ():
        stand_in = trainer.TrainingCallback
        for name, member in vars(base).items():
            if callable(member) and name not in vars(stand_in):
                setattr(stand_in, name, member)
        base.register(stand_in)
