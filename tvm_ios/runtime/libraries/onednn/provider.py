"""oneDNN as an operator library, as the rest of the package sees it. No TVM.

Opening it on a processor loads libdnnl; lowering and reading plans does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from tvm_ios.core.fused_function import FusedFunction
from tvm_ios.core.precision.low_precision import BFLOAT16
from tvm_ios.host.onednn_files import onednn_files
from tvm_ios.plan.library_call import LibraryName
from tvm_ios.runtime.libraries.onednn.call import OnednnCall
from tvm_ios.runtime.libraries.onednn.call_data import call_data, counts_of
from tvm_ios.runtime.libraries.onednn.matching.matched_call import match_call
from tvm_ios.runtime.libraries.protocol import CallProgram, FactStore
from tvm_ios.support.stored_value import StoredValue

if TYPE_CHECKING:
    from tvm_ios.runtime.libraries.onednn.device import OnednnProcessor
    from tvm_ios.runtime.libraries.onednn.library import OnednnFacts

__all__ = ["OnednnLibrary"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OnednnLibrary:
    """oneDNN and its options; an :class:`~tvm_ios.runtime.libraries.protocol.OperatorLibrary`.

    Its methods are those of the protocol.
    """

    facts: OnednnFacts | None = None
    """Version on the device of an RPC tracker that is measured; None for that of this process."""
    name: ClassVar[LibraryName] = LibraryName("onednn", "oneDNN")
    target_kind: ClassVar[str] = "llvm"
    options_text: ClassVar[str] = ""
    image_layout: ClassVar[str | None] = "NHWC"
    """Layout of images in which oneDNN's code is fastest: there its product of batches of small
    matrices (brgemm) computes convolutions; in layouts with blocks it does not."""

    def identity(self) -> str:
        """Version and instruction sets of this process's oneDNN, digest of the calling code."""
        from tvm_ios.runtime.libraries.onednn.library import load_onednn  # noqa: PLC0415
        from tvm_ios.runtime.libraries.onednn.native_calls import CALLS_SOURCE  # noqa: PLC0415

        facts = self.facts or load_onednn().facts
        return f"{self.name.key}-{facts.identity}-{CALLS_SOURCE.digest}"

    def speeds_up(self, dtype: str) -> bool:
        """True for bfloat16 where the processor multiplies in it."""
        from tvm_ios.runtime.libraries.onednn.library import load_onednn  # noqa: PLC0415

        return dtype == BFLOAT16 and (self.facts or load_onednn().facts).has_bfloat16

    def files(self) -> tuple[Path, ...]:
        """Every libdnnl that would be tried, and the list of the system's libraries."""
        return onednn_files()

    def match(self, function: FusedFunction) -> OnednnCall | None:
        """The call that computes a fused function; None where there is none."""
        return match_call(function)

    def read_call(self, data: StoredValue) -> OnednnCall:
        """The call that a plan stores as data."""
        return OnednnCall.from_data(data)

    def native_object(self) -> Path:
        """The object file of the functions that prepare calls and make them."""
        from tvm_ios.runtime.libraries.onednn.native_calls import CALLS_SOURCE  # noqa: PLC0415

        return CALLS_SOURCE.as_object()

    def program(self, calls: Sequence[OnednnCall]) -> CallProgram | None:
        """The calls as data; None where one has no cut, as it was found on no processor."""
        from tvm_ios.runtime.libraries.onednn.native_calls import RUN_CALL  # noqa: PLC0415

        if any(call.cut is None for call in calls):
            return None
        data = [call_data(call, counts_of(call)) for call in calls]
        return CallProgram(calls=tuple(data), function=RUN_CALL)

    def require(self, device: Any = None) -> OnednnLibrary:
        """Load libdnnl, or say what to install."""
        from tvm_ios.runtime.libraries.onednn.device import OnednnProcessor  # noqa: PLC0415

        opened = OnednnProcessor(device)
        opened.close()
        return self if device is None else replace(self, facts=opened.facts)

    def open(self, device: Any, store: FactStore | None) -> OnednnProcessor:
        """Cuts and prepared calls on this processor."""
        from tvm_ios.runtime.libraries.onednn.device import OnednnProcessor  # noqa: PLC0415

        return OnednnProcessor(device, store=store)
