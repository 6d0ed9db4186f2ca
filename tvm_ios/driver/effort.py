"""Efforts of a call of ``tune``: three levels, each a set of options with names of their own.

``docs/tuning.md`` prints :data:`LEVELS` as a table. Free of TVM.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Any, Self

from tvm_ios.driver.build_options import BuildOptions
from tvm_ios.errors import OptionError
from tvm_ios.measure.compare import CompareOptions
from tvm_ios.measure.machine_mode import ModeOptions
from tvm_ios.measure.sampling import MeasureOptions
from tvm_ios.search.options import SearchOptions
from tvm_ios.tuning.options import TuningOptions

__all__ = ["LEVELS", "Effort"]


class Effort(Enum):
    """Effort of a call: the time it may take to find a fast model."""

    QUICK = "quick"
    """A good answer in seconds: times of operators are predicted, and a list is made of them."""
    BALANCED = "balanced"
    """Search of stages as well, and races of forms, in a minute or two; the default."""
    THOROUGH = "thorough"
    """Up to an hour: kernels are tuned as well, groups are larger, measurements longer."""

    @classmethod
    def of(cls, given: Self | str) -> Self:
        """Effort by member or name; an OptionError lists the names."""
        try:
            return cls(given)
        except ValueError as error:
            names = ", ".join(repr(each.value) for each in cls)
            raise OptionError(f"effort is {given!r}; choose from {names}") from error


LEVELS: Mapping[Effort, Mapping[str, Any]] = MappingProxyType(
    {
        Effort.QUICK: {
            "search": SearchOptions(list_only=True),
            # Fewer samples than other levels take, which so measure these prices anew.
            "measure": MeasureOptions(
                repeat=3, max_repeat=4, predict=True, mode=ModeOptions(patience_s=2.0)
            ),
            "compare": CompareOptions(
                longest_s=2.0, min_repeat_ms=2.0, mode=ModeOptions(patience_s=2.0)
            ),
            "build": BuildOptions(race_forms=False),
        },
        Effort.BALANCED: {},
        Effort.THOROUGH: {
            "search": SearchOptions(max_group_size=4, least_gain_percent=0.0, predict_stages=False),
            "measure": MeasureOptions(repeat=9, max_repeat=30, tolerance=0.01),
            "compare": CompareOptions(rounds=60, longest_s=30.0),
            "build": BuildOptions(all_kernels=True),
            "kernels": TuningOptions(
                backend="autotvm", time_budget_s=1800.0, repeat=5, min_repeat_ms=20
            ),
        },
    }
)
"""Nouns of :class:`~tvm_ios.driver.options.TuneOptions` that a level changes, by their fields."""
