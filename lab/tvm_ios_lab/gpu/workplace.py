"""Workplace of a step: the folder's layout, and the models as every step builds them."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from tvm_ios.compile.built_model import BuiltModel, build_model
from tvm_ios.core.schedule import InterOpSchedule
from tvm_ios.errors import HostError
from tvm_ios.runtime.libraries.cudnn.provider import CudnnLibrary
from tvm_ios.runtime.libraries.protocol import OperatorLibrary
from tvm_ios.tuning.autotvm.backend import AutoTvmBackend
from tvm_ios_lab.gpu.agenda import Case, Kernels
from tvm_ios_lab.gpu.ledger import Ledger
from tvm_ios_lab.gpu.machine import Machine
from tvm_ios_lab.gpu.networks import network
from tvm_ios_lab.gpu.settings import Settings

__all__ = ["SkippedError", "UnfinishedError", "Workplace"]


class SkippedError(Exception):
    """A step cannot be done here; the text says why."""


class UnfinishedError(Exception):
    """A step has used up its time and will go on in the next call."""


@dataclass(frozen=True)
class Workplace:
    """The folder of an evaluation, as a step sees it."""

    folder: Path
    settings: Settings
    end: float
    """Time at which the budget is spent, by the monotonic clock."""

    @property
    def left_s(self) -> float:
        """Seconds until then."""
        return max(0.0, self.end - time.monotonic())

    @cached_property
    def ledger(self) -> Ledger:
        """Outcomes of other steps."""
        return Ledger(self.folder)

    @cached_property
    def machine(self) -> Machine:
        """Machine of the evaluation."""
        return Machine.read(self.folder)

    @property
    def database(self) -> Path:
        """Prices of stages."""
        return self.folder / "prices.sqlite"

    @property
    def device_code(self) -> Path:
        """Folder of compiled device code."""
        return self.folder / "device-code"

    def case_folder(self, case: Case) -> Path:
        """The network, its input and its reference."""
        return self.folder / case.folder

    def exported(self, case: Case, kernels: Kernels, who: str) -> Path:
        """The file of one contestant."""
        return self.folder / case.exported(kernels) / f"{who}.so"

    def stock(self, case: Case) -> Path:
        """File of what TVM makes of the network by itself."""
        return self.folder / case.stock

    def schedule(self, case: Case, kernels: Kernels, who: str) -> Path:
        """A schedule that was found."""
        return self.folder / "schedules" / f"{case.name}.{kernels.value}.{who}.json"

    def schedules(self, case: Case, kernels: Kernels) -> dict[str, InterOpSchedule]:
        """Schedules that were found, by contestant."""
        names = self.ledger.data(f"{case.name}.search.{kernels.value}").get("contestants", ())
        return {
            who: InterOpSchedule.from_json(self.schedule(case, kernels, who).read_text())
            for who in names
        }

    def log(self, case: Case) -> Path:
        """Tuning records of a case."""
        return self.folder / "records" / f"{case.name}.autotvm.log"

    def begin_log(self, case: Case) -> None:
        """Take over records that were given."""
        given, log = self.settings.given_log(case), self.log(case)
        log.parent.mkdir(parents=True, exist_ok=True)
        if given is not None and not log.exists():
            shutil.copyfile(given, log)

    def network(self, case: Case) -> tuple[Any, Any]:
        """Module and parameters."""
        return network(case, quick=self.settings.quick)

    @contextmanager
    def built(self, case: Case, kernels: Kernels) -> Iterator[BuiltModel]:
        """Our build of a case; tuning records stay in force inside, for what is compiled later."""
        module, params = self.network(case)
        if kernels is not Kernels.TUNED:
            yield self._build(case, kernels, module, params)
            return
        with AutoTvmBackend().applied([self.log(case)]):
            yield self._build(case, kernels, module, params)

    def _build(self, case: Case, kernels: Kernels, module: Any, params: Any) -> BuiltModel:
        libraries: tuple[OperatorLibrary, ...] = ()
        if kernels is Kernels.CUDNN:
            try:
                libraries = (CudnnLibrary(tf32=False).require(),)
            except HostError as error:
                raise SkippedError(str(error)) from error
        built = build_model(module, params, self.machine.target, name=case.name)
        return replace(built, libraries=libraries)
