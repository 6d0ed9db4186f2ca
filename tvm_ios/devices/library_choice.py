"""Operator libraries that may compute for a target: those that a caller named, or all installed.

Comes before the first build of a model.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import tvm

from tvm_ios.core.precision.low_precision import FLOAT32
from tvm_ios.core.schedule import InterOpSchedule
from tvm_ios.errors import HostError, OptionError
from tvm_ios.runtime.libraries.known import known_libraries, require_names
from tvm_ios.runtime.libraries.protocol import OperatorLibrary
from tvm_ios.support.extras import install_command

__all__ = ["LibraryChoice"]

_LOG = logging.getLogger(__name__)


def _here(library: OperatorLibrary) -> OperatorLibrary:
    return library.require()


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryChoice:
    """Choice of operator libraries for one target.

    Raises
    ------
    OptionError
        If a name is none of a library, a named library computes for another kind of target, TF32
        is allowed and cuDNN does not compute, or the target of another data type is no CPU.
    """

    target: tvm.target.Target | None
    """Target that the libraries compute for; None for this machine's processor."""
    names: tuple[str, ...] | None = None
    """Keys of the libraries that have to be there, such as ``onednn``; None takes what is there."""
    tf32: bool = False
    """True lets cuDNN round float32 to TF32."""
    dtype: str = FLOAT32
    """Data type that a library has to be faster in than in float32, unless it is that."""

    def __post_init__(self) -> None:
        require_names(self.names)
        kind = self._kind
        if self.dtype != FLOAT32 and kind != "llvm":
            raise OptionError(
                f"precision is {self.dtype!r}, but the target is {self._target_text}, and only on "
                "CPUs may values be of it; leave out precision, or give mixed_precision=True for "
                "float16"
            )
        for library in known_libraries(tf32=self.tf32):
            if library.name.key in (self.names or ()) and library.target_kind != kind:
                raise OptionError(
                    f"libraries has {library.name.key!r}, but the target is {self._target_text}; "
                    f"{library.name.title} computes for {library.target_kind} targets only"
                )
        if self.tf32 and not any(each.name.key == "cudnn" for each in self.of_target):
            raise OptionError(
                "tf32 is True, but only convolutions by cuDNN may use TF32, and cuDNN does not "
                f"compute: the target is {self._target_text}, and libraries {self.names!r}; leave "
                "out tf32"
            )

    @property
    def of_target(self) -> tuple[OperatorLibrary, ...]:
        """Libraries that compute for the target, installed or not."""
        return tuple(
            library
            for library in known_libraries(tf32=self.tf32)
            if library.target_kind == self._kind
            and (self.names is None or library.name.key in self.names)
        )

    def for_schedule(self, known: InterOpSchedule | None) -> tuple[OperatorLibrary, ...]:
        """Libraries of a known schedule, installed or not: the named ones, or those that it uses.

        None for a model without a schedule, for which only named ones compute.
        """
        if self.names is not None:
            return self.of_target
        used = {row.library for row in (known and known.libraries) or () if row.operators}
        return tuple(library for library in self.of_target if library.name.key in used)

    def installed(
        self, require: Callable[[OperatorLibrary], OperatorLibrary] = _here
    ) -> tuple[OperatorLibrary, ...]:
        """Libraries as they are installed; a missing one that was not named is told once.

        Parameters
        ----------
        require
            Function that returns the library as it is on the device; in this process where
            omitted.

        Raises
        ------
        HostError
            If a named library, or cuDNN for TF32, is missing or does not fit, or none is faster in
            the data type.
        """
        found = []
        for library in self.of_target:
            try:
                found.append(require(library))
            except HostError as error:
                if self.names is not None or self.tf32:
                    raise
                _tell_once(f"only TVM's kernels compute, slower than they could: {error}")
        if self.dtype != FLOAT32:
            self._require_speed(found)
        return tuple(found)

    def _require_speed(self, found: Sequence[OperatorLibrary]) -> None:
        """Refuse libraries that are not faster in the data type than in float32."""
        if not found:
            raise HostError(
                f"precision is {self.dtype!r}, in which only oneDNN computes, and it is not "
                f"installed: run {install_command('onednn')}, or leave out precision"
            )
        if not any(each.speeds_up(self.dtype) for each in found):
            titles = " and ".join(each.name.title for each in found)
            raise HostError(
                f"precision is {self.dtype!r}, but this processor has no arithmetic for it, so "
                f"{titles} would be slower than in float32; leave out precision"
            )

    @property
    def _kind(self) -> str:
        return "llvm" if self.target is None else str(self.target.kind.name)

    @property
    def _target_text(self) -> str:
        return "left out, and so this processor" if self.target is None else repr(str(self.target))


@cache
def _tell_once(text: str) -> None:
    """Warn of what concerns all models of this process."""
    _LOG.warning("%s", text)
