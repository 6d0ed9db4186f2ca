"""Functions of a C library that return a status, called by name through ctypes. No TVM here."""

from __future__ import annotations

import ctypes
from abc import ABC, abstractmethod
from collections.abc import Mapping
from ctypes import c_int, c_void_p
from typing import Any

from tvm_ios.errors import ExecutionError, HostError

__all__ = ["StatusLibrary"]


class StatusLibrary(ABC):
    """Functions of a loaded library by name, with the types of their arguments."""

    def __init__(self, library: ctypes.CDLL, prototypes: Mapping[str, tuple[Any, ...]]) -> None:
        self.library = library
        self._functions: dict[str, Any] = {}
        for name, arguments in prototypes.items():
            try:
                function = library[name]  # indexing gives a function object of its own
            except AttributeError:
                raise HostError(self._lacking(name)) from None
            function.restype, function.argtypes = c_int, list(arguments)
            self._functions[name] = function

    @abstractmethod
    def failed(self, call: str, code: int, where: str = "") -> ExecutionError:
        """The error of a call that returned `code`."""

    @abstractmethod
    def _lacking(self, name: str) -> str:
        """Message on a library without a function."""

    def call(self, name: str, *arguments: Any, where: str = "") -> None:
        """Call a function; ``where`` is the operator or purpose, for the message."""
        code = self.status(name, *arguments)
        if code:
            raise self.failed(name, code, where)

    def status(self, name: str, *arguments: Any) -> int:
        """The status that a function returns; 0 is success."""
        return int(self._functions[name](*arguments))

    def make(self, name: str, *arguments: Any, where: str = "") -> int:
        """Handle that a function writes to its first argument."""
        made = c_void_p()
        self.call(name, ctypes.byref(made), *arguments, where=where)
        return made.value or 0

    def address(self, name: str) -> int:
        """The address of a function, for native code."""
        return ctypes.cast(self._functions[name], c_void_p).value or 0
