"""Compilation of a model's kernels: those missing in the cache, side by side in workers."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass
from typing import Self

import tvm

from tvm_ios.kernels.cache import KernelCache
from tvm_ios.kernels.code_generation import CodeGeneration, generate
from tvm_ios.kernels.lowered import LoweredKernel
from tvm_ios.kernels.workers import KernelWorkers, workers_in_force

__all__ = ["KernelCompiler", "KernelCounts"]


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelCounts:
    """Numbers of a build's kernels, by their source."""

    compiled: int = 0
    from_cache: int = 0

    def __add__(self, other: KernelCounts) -> KernelCounts:
        return KernelCounts(
            compiled=self.compiled + other.compiled,
            from_cache=self.from_cache + other.from_cache,
        )


class KernelCompiler:
    """Compiler of lowered kernels with the PassContext of this thread; a context manager.

    Kernels are added one by one, so that workers compile some while others are still lowered. The
    cache is not used where the PassContext has passes or instruments of the user's own, which want
    to see every kernel. ``workers`` is a number of processes, which end with the compiler; where
    omitted, shared ones compile, or else one for every other usable core.
    """

    def __init__(
        self,
        target: tvm.target.Target,
        *,
        cache: KernelCache | None = None,
        workers: int | None = None,
    ) -> None:
        self._target = target
        self._settings = CodeGeneration.current(target)
        self._cache = cache or KernelCache()
        shared = workers_in_force() if workers is None else None
        self._owns_workers = shared is None
        self._workers = KernelWorkers(workers) if shared is None else shared
        self._archives: dict[str, bytes] = {}
        self._missing: dict[str, LoweredKernel] = {}
        self._begun: dict[str, Future[bytes]] = {}
        self.counts = KernelCounts()
        """Numbers of kernels so far: compiled, and found in the cache."""
        self.keys: dict[str, str] = {}
        """Names of kernels in the cache, which cover everything their code depends on, by symbol;
        empty where the cache is not used."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        for begun in self._begun.values():
            begun.cancel()
        if self._owns_workers:
            self._workers.close()

    def add(self, kernel: LoweredKernel) -> None:
        """Look up a kernel, and begin to compile it if it is not known."""
        symbol = kernel.symbol
        if symbol in self._archives or symbol in self._missing:
            return
        portable = self._settings.portable
        if portable:
            self.keys[symbol] = self._settings.key(kernel)
        known = self._cache.get(self.keys[symbol]) if portable else None
        if known is not None:
            self._archives[symbol] = known
            self.counts += KernelCounts(from_cache=1)
            return
        self._missing[symbol] = kernel
        if portable and self._workers.worth(len(self._missing)):
            self._begin()

    def archives(self) -> dict[str, bytes]:
        """Archives of all kernels that were added, by symbol."""
        # From the end, where workers have not begun.
        for symbol in reversed(tuple(self._missing)):
            kernel = self._missing[symbol]
            begun = self._begun.get(symbol)
            if begun is None or begun.cancel():
                self._keep(kernel, generate(kernel, self._target))
        for symbol, kernel in tuple(self._missing.items()):
            try:
                archive = self._begun[symbol].result()
            # A worker may have died; and an error of TVM reads better from this process.
            except Exception:  # noqa: BLE001
                archive = generate(kernel, self._target)
            self._keep(kernel, archive)
        return dict(self._archives)

    def _begin(self) -> None:
        for symbol, kernel in self._missing.items():
            if symbol not in self._begun:
                text = str(tvm.ir.save_json(kernel.module()))
                self._begun[symbol] = self._workers.submit(text, self._settings)

    def _keep(self, kernel: LoweredKernel, archive: bytes) -> None:
        del self._missing[kernel.symbol]
        self._archives[kernel.symbol] = archive
        self.counts += KernelCounts(compiled=1)
        if self._settings.portable:
            self._cache.put(self.keys[kernel.symbol], archive)
