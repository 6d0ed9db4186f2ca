"""Calls of operator libraries beside TVM's kernels, for prices: which exist, and their names.

Comes between an operator in Relay and the stages that run it: has libraries find out how each call
is fastest, and names calls for the profile database.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tvm_ios.plan.library_call import LibraryCall
from tvm_ios.relay.functions.library_calls import library_calls
from tvm_ios.runtime.libraries.open_libraries import OpenLibraries
from tvm_ios.runtime.libraries.protocol import OperatorLibrary
from tvm_ios.runtime.libraries.stage_libraries import LibraryStageRunner

__all__ = ["LibraryKernels", "LibraryWay"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryWay:
    """A built library with calls of one operator library in place of kernels, where it has any."""

    library: int
    """Number of the built library whose operators run so."""
    names: Mapping[int, str]
    """Names of the calls, by operator that has one."""


class LibraryKernels:
    """Calls of operator libraries that can replace kernels of built libraries, on one device.

    Opened operator libraries have to outlive the stages.
    """

    def __init__(
        self,
        stages: LibraryStageRunner[Any],
        opened: OpenLibraries,
        libraries: Sequence[OperatorLibrary],
    ) -> None:
        self._stages = stages
        self._opened = opened
        self._libraries = tuple(libraries)

    def titles(self) -> dict[str, str]:
        """Name, version and options of each operator library for people, by its key in files."""
        return {
            library.name.key: " ".join(
                filter(None, (self._opened.open(library).as_text(), library.options_text))
            )
            for library in self._libraries
        }

    def add(self, library: int, calls: Sequence[Any]) -> dict[str, LibraryWay]:
        """Built library with calls in place of kernels, one for each operator library that has any.

        ``library`` is the number of the built library, whose kernel calls in Relay are in order.
        """
        if not self._libraries:
            return {}
        ready: list[dict[int, LibraryCall]] = []
        names: list[dict[int, str]] = []
        for each in self._libraries:
            opened = self._opened.open(each)
            able = {
                index: call.descriptor
                for index, call in enumerate(library_calls(calls, each))
                if call is not None
            }
            complete = opened.complete(able.values())
            found = {
                index: call
                for index, descriptor in able.items()
                if (call := complete[descriptor]) is not None
            }
            ready.append({index: LibraryCall(each.name, call) for index, call in found.items()})
            names.append({index: opened.price_name(call) for index, call in found.items()})
        numbers = self._stages.with_calls(library, ready, self._opened)
        return {
            each.name.key: LibraryWay(library=number, names=named)
            for each, number, named in zip(self._libraries, numbers, names, strict=True)
        }
