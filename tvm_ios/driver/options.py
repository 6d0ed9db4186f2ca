"""Options of ``tune`` in one noun, which files, the command line and Python share.

Free of TVM, so that a bad value is refused before anything is loaded.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields

from tvm_ios.core.conversion import Conversion
from tvm_ios.errors import OptionError
from tvm_ios.measure.compare import CompareOptions
from tvm_ios.measure.sampling import MeasureOptions
from tvm_ios.onnx.rest import RESTS
from tvm_ios.runtime.libraries.known import LIBRARIES
from tvm_ios.search.options import SearchOptions
from tvm_ios.tuning.device_options import DeviceOptions
from tvm_ios.tuning.options import TuningOptions

__all__ = [
    "DEFAULTS",
    "BuildOptions",
    "DatabaseOptions",
    "TuneOptions",
    "require_options",
    "require_rest",
]


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
    rest: str = "onnxruntime"
    """Way to treat nodes of an ONNX model that no kernel is for, and all behind them:
    ``"onnxruntime"`` has it run them, where it is installed, ``"refuse"`` refuses the model."""

    def __post_init__(self) -> None:
        _require_flags(self)
        require_rest(self.rest)
        _require_names(self.libraries)
        if self.exact and self.libraries:
            raise OptionError(
                f"exact is True, but libraries={self.libraries!r} lets a library compute, which "
                "sums in another order than TVM; leave out one of them"
            )

    @property
    def named_libraries(self) -> tuple[str, ...] | None:
        """Names of the libraries that have to be there; None for what is installed."""
        return () if self.exact else self.libraries


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseOptions:
    """Use of the profile database by a call.

    Raises
    ------
    OptionError
        If a value is neither True nor False.
    """

    fresh: bool = False
    """True measures all prices, choices and races anew, and replaces stored ones. Tuning records of
    kernels lie in logs of their own and are used in any case."""

    def __post_init__(self) -> None:
        _require_flags(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneOptions:
    """Options of tuning and scheduling a model; every default stands in the noun it belongs to.

    Raises
    ------
    OptionError
        If a field has a value of another kind.

    Examples
    --------
    >>> options = TuneOptions(search=SearchOptions.of(strategies="merge", max_group_size=2))
    >>> options.search.max_group_size, options.build.pad_channels
    (2, True)
    """

    search: SearchOptions = field(default_factory=SearchOptions)
    """Limits and rules of the search for a schedule."""
    measure: MeasureOptions = field(default_factory=MeasureOptions)
    """Options of the measurements that price stages."""
    compare: CompareOptions = field(default_factory=CompareOptions)
    """Options of races between whole networks."""
    conversion: Conversion = field(default_factory=Conversion)
    """Layout and data types that the model is changed to."""
    build: BuildOptions = field(default_factory=BuildOptions)
    """Choice of the kernels it is built with."""
    kernels: TuningOptions = field(default_factory=TuningOptions)
    """Options of kernel tuning."""
    device: DeviceOptions = field(default_factory=DeviceOptions)
    """Device of an RPC tracker, in place of this machine."""
    database: DatabaseOptions = field(default_factory=DatabaseOptions)
    """Use of earlier measurements."""

    def __post_init__(self) -> None:
        for each in fields(self):
            value, kind = getattr(self, each.name), each.default_factory
            if not isinstance(value, kind):  # type: ignore[arg-type]
                raise OptionError(f"{each.name} is {value!r}; give {kind.__name__}(…)")  # type: ignore[union-attr]


def require_rest(rest: str) -> None:
    """Refuse what is no value of the option ``rest``."""
    if rest not in RESTS:
        raise OptionError(f"rest is {rest!r}; give {' or '.join(map(repr, RESTS))}")


def _require_names(libraries: object) -> None:
    if libraries is None:
        return
    if not isinstance(libraries, tuple):
        raise OptionError(
            f"libraries is {libraries!r}; give a tuple of names, such as ('onednn',), () for none, "
            "or None for what is installed"
        )
    known = [library.name.key for library in LIBRARIES]
    if unknown := [name for name in libraries if name not in known]:
        raise OptionError(f"libraries has {unknown[0]!r}; there are {' and '.join(known)}")


def _require_flags(noun: BuildOptions | DatabaseOptions) -> None:
    for each in fields(noun):
        value = getattr(noun, each.name)
        if isinstance(each.default, bool) and not isinstance(value, bool):
            raise OptionError(f"{each.name} is {value!r}; give True or False")


DEFAULTS = TuneOptions()


def require_options(options: TuneOptions) -> None:
    """Refuse a value that is no :class:`TuneOptions`."""
    if not isinstance(options, TuneOptions):
        raise OptionError(f"options is {options!r}; give TuneOptions(…)")
