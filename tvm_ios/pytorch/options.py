"""Options of the backend of ``torch.compile``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Self

from tvm_ios.driver.options import DEFAULTS, TuneOptions, options_of_call
from tvm_ios.errors import OptionError
from tvm_ios.relay.inputs import resolve_target
from tvm_ios.runtime.base.device import is_gpu_target

__all__ = ["BackendOptions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendOptions:
    """Options of ``torch.compile(…, options={…})``: arguments of :func:`tvm_ios.tune`.

    Raises
    ------
    OptionError
        If the target is a GPU: tensors are used in place, in the memory of the CPU; or there are
        an effort and options.
    ModelError
        If TVM does not know the target.
    """

    target: str | None = None
    effort: str | None = None
    tuning: str | None = None
    tuning_records: str | Path | None = None
    time_budget: float | None = None
    """Time budget in seconds of each graph that is compiled."""
    lanes: int | None = None
    database: str | Path | None = None
    options: TuneOptions = DEFAULTS

    def __post_init__(self) -> None:
        options_of_call(self.effort, self.options)
        if self.target is not None and is_gpu_target(resolve_target(self.target)):
            raise OptionError(
                f"target is {self.target!r}, but the backend tvm_ios runs on the CPU, where torch "
                "has the tensors; leave it out, or schedule one model for the GPU: "
                "tvm_ios.tune(*tvm_ios.from_torch(model, x), 'cuda')"
            )

    @classmethod
    def of(cls, given: Mapping[str, Any] | None) -> Self:
        """Options from the mapping that torch hands over."""
        names = [field.name for field in fields(cls)]
        if unknown := [name for name in given or {} if name not in names]:
            raise OptionError(
                f"the backend tvm_ios has no option {unknown[0]!r}; it has {', '.join(names)}"
            )
        return cls(**given or {})
