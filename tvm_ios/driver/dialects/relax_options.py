"""Options of a call as Relax honours them: what only Relay has is refused by name. Free of TVM."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tvm_ios.driver.effort import LEVELS, Effort
from tvm_ios.driver.options import TuneOptions
from tvm_ios.errors import OptionError
from tvm_ios.tuning.options import TuningOptions

__all__ = ["relax_options", "require_nothing_of_relay"]

NO_TUNER = "AutoTVM and Ansor tune kernels of Relay"
LAYOUT_BY_PRICES = "the layout of images is chosen by prices"
FLOAT16 = "operators are computed in the types that the model has"


def relax_options(options: TuneOptions, tuning: str | None = None, **arguments: Any) -> TuneOptions:
    """Options that Relax honours; those of the effort ``"thorough"`` without its kernel tuner.

    Parameters
    ----------
    options, tuning
        As of ``tune``.
    arguments
        Further arguments of ``tune`` that only Relay has, by name; those that are given are
        refused.

    Raises
    ------
    OptionError
        If an option needs Relay; the message names it, its value and what to do.
    """
    if tuning is None and options.kernels == LEVELS[Effort.THOROUGH]["kernels"]:
        options = replace(options, kernels=TuningOptions())
    tuner, conversion = options.kernels.backend_for(tuning), options.conversion
    require_nothing_of_relay(
        {
            f"tuning={tuner!r}": (tuner, NO_TUNER),
            f"desired_layout={conversion.desired_layout!r}": (
                conversion.desired_layout,
                LAYOUT_BY_PRICES,
            ),
            "mixed_precision=True": (conversion.mixed_precision, FLOAT16),
            f"rpc_tracker={options.device.rpc_tracker!r}": (
                options.device.rpc_tracker,
                "kernels of Relax run on this machine",
            ),
            **{f"{name}={value!r}": (value, "") for name, value in arguments.items()},
        }
    )
    return options


def require_nothing_of_relay(given: Mapping[str, tuple[Any, str]]) -> None:
    """Refuse the first of some options that has a value; each comes with why it is of Relay."""
    for option, (value, reason) in given.items():
        if value:
            told = f" ({reason})" if reason else ""
            raise OptionError(
                f"{option} needs a TVM with Relay, and this process has one with Relax{told}; "
                "leave it out, or give --dialect relay (in Python: without TVM_IOS_TVM=path)"
            )
