"""Options of a model's kernels and of the profile database, which only the driver reads.

Free of TVM, so that a bad value is refused before anything is loaded.
"""

from __future__ import annotations

from dataclasses import dataclass

from tvm_ios.core.schedule import InterOpSchedule
from tvm_ios.errors import OptionError
from tvm_ios.onnx.rest import RESTS
from tvm_ios.runtime.libraries.known import require_names
from tvm_ios.support.whole_number import require_flags

__all__ = ["BuildOptions", "DatabaseOptions", "require_rest"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildOptions:
    """Choice of the kernels that a model is built with.

    Raises
    ------
    OptionError
        If a value is none of those named, or a named operator library is to compute exactly as
        TVM.
    """

    pad_channels: bool = True
    """True tries convolutions and dense layers with output channels padded to whole vectors, where
    they fill none, and dense layers with rows padded to whole tiles, and keeps them if the network
    is faster. Sums are then taken in another order, and an inf or NaN that a padded one reads
    spreads as NaN. Not done on a GPU."""
    libraries: tuple[str, ...] | None = None
    """Operator libraries that may compute in place of TVM's kernels, by name: ``"onednn"``
    convolutions and products on a CPU, ``"cudnn"`` convolutions on a GPU, both with functions of
    each element that follow. Each operator is priced with TVM's kernel and with the library, and
    the faster one is kept; a stage may have both. None takes what is installed; an empty tuple
    leaves all of them out."""
    tf32: bool = False
    """True lets cuDNN round float32 to TF32, with 10 bits of mantissa, which is faster."""
    exact: bool = False
    """True keeps the bits of stock TVM with the same tuning records: its own exp, erf and the like,
    and sums in its order, so no operator library, no padded channels, no other layouts than asked
    for, and no merged convolutions. False lets results differ from it in the last places: these
    functions are then off by at most 2 units in the last place."""
    race_forms: bool = True
    """True also builds forms of the model that only a race can judge, and races them, where no
    operator library computes: padded channels and rows, transposed convolutions as convolutions.
    False changes layouts alone."""
    all_kernels: bool = False
    """True compiles and prices TVM's kernel of every operator, so stock TVM runs an exported file,
    too. False leaves out kernels that cannot beat an operator library's call, unless tuning records
    are used."""
    rest: str = "onnxruntime"
    """Way to treat nodes of an ONNX model that no kernel is for, and all behind them:
    ``"onnxruntime"`` has it run them, where it is installed, ``"refuse"`` refuses the model."""

    def __post_init__(self) -> None:
        require_flags(self)
        require_rest(self.rest)
        require_names(self.libraries)
        if self.exact and self.libraries:
            raise OptionError(
                f"exact is True, but libraries={self.libraries!r} lets a library compute, which "
                "sums in another order than TVM; leave out one of them"
            )

    @property
    def named_libraries(self) -> tuple[str, ...] | None:
        """Names of the libraries that have to be there; None for what is installed."""
        return () if self.exact else self.libraries

    def require_exact(self, schedule: InterOpSchedule | None) -> None:
        """Refuse a schedule that merges convolutions where stock TVM's bits are asked for."""
        if not self.exact or schedule is None:
            return
        if any(stage.is_merge for stage in schedule.stages):
            raise OptionError(
                "exact is True, but the schedule merges convolutions, which gives sums other bits; "
                "search one with exact=True"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseOptions:
    """Use of the profile database by a call.

    Raises
    ------
    OptionError
        If a value is neither True nor False.
    """

    fresh: bool = False
    """True measures all prices, choices and races anew, and replaces stored ones, the result of an
    equal call included. Tuning records of kernels lie in logs of their own and are used in any
    case."""

    def __post_init__(self) -> None:
        require_flags(self)


def require_rest(rest: str) -> None:
    """Refuse what is no value of the option ``rest``."""
    if rest not in RESTS:
        raise OptionError(f"rest is {rest!r}; give {' or '.join(map(repr, RESTS))}")
