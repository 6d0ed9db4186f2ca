"""Options of ``tune`` in one noun, which files, the command line and Python share.

Free of TVM, so that a bad value is refused before anything is loaded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any, Self, TypeVar

from tvm_ios.core.conversion import Conversion
from tvm_ios.core.precision.low_precision import Precision
from tvm_ios.driver.build_options import BuildOptions, DatabaseOptions
from tvm_ios.driver.effort import LEVELS, Effort
from tvm_ios.errors import OptionError
from tvm_ios.measure.compare import CompareOptions
from tvm_ios.measure.sampling import MeasureOptions
from tvm_ios.search.options import SearchOptions
from tvm_ios.support.near_name import require_known
from tvm_ios.tuning.device_options import DeviceOptions
from tvm_ios.tuning.options import TuningOptions

__all__ = ["DEFAULTS", "TuneOptions", "options_of_call", "require_options", "with_changes"]

Noun = TypeVar("Noun")


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
    >>> quick = TuneOptions.of("quick", build={"libraries": ()})
    >>> quick.search.list_only, quick.build.libraries
    (True, ())
    """

    search: SearchOptions = field(default_factory=SearchOptions)
    """Limits and rules of the search for a schedule."""
    measure: MeasureOptions = field(default_factory=MeasureOptions)
    """Options of the measurements that price stages."""
    compare: CompareOptions = field(default_factory=CompareOptions)
    """Options of races between whole networks."""
    conversion: Conversion = field(default_factory=Conversion)
    """Layout and data types that the model is changed to."""
    precision: Precision = field(default_factory=Precision)
    """Arithmetic that it may be computed in, and how far off results may be."""
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
        if self.precision.is_low and (other := self.why_not_bfloat16()):
            raise OptionError(
                f"precision is {self.precision.dtype!r}, but {other}; leave out one of them"
            )

    def why_not_bfloat16(self) -> str:
        """Words on an option with which values cannot be bfloat16; empty where there is none."""
        build, conversion = self.build, self.conversion
        if build.exact:
            return "exact=True keeps the bits of float32"
        if conversion.mixed_precision:
            return "mixed_precision=True computes in float16"
        if build.libraries == ():
            return "libraries=() leaves out oneDNN, which computes in it"
        if self.device.is_remote:
            return "errors are checked on this machine alone, and rpc_tracker names another"
        return ""

    @classmethod
    def of(cls, effort: Effort | str = Effort.BALANCED, **changes: Any) -> Self:
        """Options of an effort, with changes over them as :meth:`changed` takes them."""
        return cls(**LEVELS[Effort.of(effort)]).changed(**changes)

    def changed(self, **changes: Any) -> Self:
        """The options with other values in some nouns, by field.

        A mapping changes what it names, as in ``build={"libraries": ()}``; a noun, such as
        ``build=BuildOptions(libraries=())``, is taken whole.
        """
        require_known(changes, tuple(each.name for each in fields(self)), "TuneOptions ")
        nouns = {
            name: with_changes(getattr(self, name), given) if isinstance(given, Mapping) else given
            for name, given in changes.items()
        }
        return replace(self, **nouns)


def with_changes(noun: Noun, changes: Mapping[str, Any]) -> Noun:
    """Noun of options with other values of those that are named, as users write them."""
    if not changes:
        return noun
    base: Any = noun
    require_known(changes, tuple(each.name for each in fields(base)), f"{type(noun).__name__} ")
    changes_itself = isinstance(noun, SearchOptions | Precision)
    change = base.changed if changes_itself else partial(replace, base)
    made: Noun = change(**changes)
    return made


DEFAULTS = TuneOptions()


def require_options(options: TuneOptions) -> None:
    """Refuse a value that is no :class:`TuneOptions`."""
    if not isinstance(options, TuneOptions):
        raise OptionError(f"options is {options!r}; give TuneOptions(…)")


def options_of_call(
    effort: Effort | str | None,
    options: TuneOptions,
    tuning: str | None = None,
    *,
    precision: str | None = None,
    max_relative_error: float | None = None,
    memory_limit_mb: float | None = None,
    deadlines_ms: Mapping[str, float] | None = None,
) -> TuneOptions:
    """Options of a call with an effort or with options; other arguments go over both.

    A tuner goes over the effort's only: ``tune`` takes it beside options.
    """
    require_options(options)
    chosen = _of_effort(effort, options, tuning)
    changed = chosen.precision.changed(precision, max_relative_error)
    if changed != chosen.precision:
        chosen = replace(chosen, precision=changed)
    over = {"memory_limit_mb": memory_limit_mb, "deadlines_ms": deadlines_ms}
    given = {name: value for name, value in over.items() if value is not None}
    return replace(chosen, search=with_changes(chosen.search, given)) if given else chosen


def _of_effort(
    effort: Effort | str | None, options: TuneOptions, tuning: str | None
) -> TuneOptions:
    if effort is None:
        return options
    level = TuneOptions.of(effort)
    if options != DEFAULTS:
        name = Effort.of(effort).value
        raise OptionError(
            f"effort is {name!r}, and options are given, which say all that an effort says; give "
            f"options=TuneOptions.of({name!r}, …) in place of both"
        )
    return level if tuning is None else replace(level, kernels=level.kernels.used_by(tuning))
