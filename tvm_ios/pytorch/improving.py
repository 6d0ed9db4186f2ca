"""A compiled part of a graph whose place a better one takes between two calls."""

from __future__ import annotations

import logging
from collections.abc import Callable
from threading import Thread
from typing import Any

import torch

from tvm_ios.compile.model import CompiledModel
from tvm_ios.driver.later.begun_call import LaterModel
from tvm_ios.errors import TvmIosError
from tvm_ios.pytorch.part import CompiledPart

__all__ = ["ImprovingPart"]

_LOG = logging.getLogger(__name__)


class ImprovingPart(torch.nn.Module):
    """A part of a first model, until the finished one is there.

    A call that finds the process ended has the finished model loaded and checked on a thread of its
    own, which takes about a second; the calls meanwhile run the first model. ``checked`` makes a
    part of a model, and raises a :class:`~tvm_ios.errors.ModelError` if it gives other values.
    """

    def __init__(
        self,
        part: CompiledPart,
        later: LaterModel,
        checked: Callable[[CompiledModel], CompiledPart],
    ) -> None:
        super().__init__()
        self.part = part
        self._later: LaterModel | None = later
        self._checked: Callable[[CompiledModel], CompiledPart] | None = checked

    def forward(self, *tensors: torch.Tensor) -> Any:
        """New tensors with the results of the better part that is there."""
        later = self._later
        if later is not None and later.has_ended:
            # Not a daemon: one that holds memory of TVM must not be cut off by the program's end.
            self._later = None
            Thread(target=self._take, args=(later,), name="tvm-ios later").start()
        return self.part(*tensors)

    def _take(self, later: LaterModel) -> None:
        try:
            model = later.model()
            if model is not None and self._checked is not None:
                self.part = self._checked(model)
        except TvmIosError as error:
            _LOG.warning("tvm_ios goes on with the first model of a part: %s", error)
        else:
            _LOG.info("tvm_ios has the finished model of a part")
        self._checked = None  # with the tensors that it was checked on
