"""cuDNN as an operator library, as the rest of the package sees it. No TVM.

Opening it on a GPU loads what needs TVM and the driver; lowering and reading plans does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from tvm_ios.core.fused_function import FusedFunction
from tvm_ios.host.cudnn_files import cudnn_libraries
from tvm_ios.plan.library_call import LibraryName
from tvm_ios.runtime.libraries.cudnn.convolution import CudnnCall
from tvm_ios.runtime.libraries.cudnn.matching import match_call
from tvm_ios.runtime.libraries.protocol import FactStore
from tvm_ios.support.stored_value import StoredValue

if TYPE_CHECKING:
    from tvm_ios.runtime.gpu.device import CudaDevice
    from tvm_ios.runtime.libraries.cudnn.device import CudnnDevice

__all__ = ["CudnnLibrary"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CudnnLibrary:
    """cuDNN and its options; an :class:`~tvm_ios.runtime.libraries.protocol.OperatorLibrary`.

    Its methods are those of the protocol.
    """

    tf32: bool = False
    """True allows cuDNN to round float32 to TF32."""
    name: ClassVar[LibraryName] = LibraryName("cudnn", "cuDNN")
    target_kind: ClassVar[str] = "cuda"
    image_layout: ClassVar[str | None] = None

    @property
    def options_text(self) -> str:
        """Option as text: with or without TF32."""
        return f"{'with' if self.tf32 else 'without'} TF32"

    def identity(self) -> str:
        """Version of this process's cuDNN, the option, and a digest of the calling code."""
        from tvm_ios.runtime.libraries.cudnn.library import load_cudnn  # noqa: PLC0415
        from tvm_ios.runtime.libraries.cudnn.native_calls import CALLS_SOURCE  # noqa: PLC0415

        version = load_cudnn().version_text
        return f"{self.name.key}-{version} {self.options_text} {CALLS_SOURCE.digest}"

    def speeds_up(self, _dtype: str) -> bool:
        """Return False: calls are made in float32 and float16 as the model has it."""
        return False

    def files(self) -> tuple[Path, ...]:
        """The libraries of installed wheels that would be tried."""
        return tuple(map(Path, cudnn_libraries()))

    def match(self, function: FusedFunction) -> CudnnCall | None:
        """The call that computes a fused function; None where there is none."""
        return match_call(function, tf32=self.tf32)

    def read_call(self, data: StoredValue) -> CudnnCall:
        """The call that a plan stores as data."""
        return CudnnCall.from_data(data)

    def native_object(self) -> Path:
        """The object file of the function that makes the calls."""
        from tvm_ios.runtime.libraries.cudnn.native_calls import CALLS_SOURCE  # noqa: PLC0415

        return CALLS_SOURCE.as_object()

    def program(self, calls: Sequence[CudnnCall]) -> None:
        """Return None: exported GPU models need Python."""

    def require(self, _device: Any = None) -> CudnnLibrary:
        """Load libcudnn, or say what to install."""
        from tvm_ios.runtime.libraries.cudnn.library import load_cudnn  # noqa: PLC0415

        load_cudnn()
        return self

    def open(self, device: CudaDevice, store: FactStore | None) -> CudnnDevice:
        """Handles and algorithms of a GPU."""
        from tvm_ios.runtime.libraries.cudnn.device import CudnnDevice  # noqa: PLC0415

        return CudnnDevice(device, store=store)
