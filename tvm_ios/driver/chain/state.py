"""State of a chain: what its verbs have found, and which verb is missing for the next."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from tvm_ios.compile.model import CompiledModel
from tvm_ios.driver.chain.benchmark_context import BenchmarkContext
from tvm_ios.driver.chain.latency import Latency
from tvm_ios.driver.chain.model_runner import ModelRunner
from tvm_ios.driver.chain.run_folder import RunFolder, RunReport
from tvm_ios.driver.chain.service_level import ServiceLevel
from tvm_ios.driver.model_source import ModelSource
from tvm_ios.driver.options import TuneOptions
from tvm_ios.errors import OptionError

__all__ = ["ChainState"]


@dataclass(slots=True, kw_only=True)
class ChainState:
    """Results of a chain's verbs so far; later verbs set further fields."""

    source: ModelSource | None = None
    """Source of the model; None before ``from_model``, and for a loaded run."""
    loaded: RunReport | None = None
    """Report of the loaded run."""
    tuned: CompiledModel | None = None
    """Result of the last call of the front door, from ``autotune`` or ``build``."""
    tuned_with: TuneOptions | None = None
    logs: tuple[Path, ...] = ()
    """Tuning logs that :attr:`tuned` was chosen from; they exist."""
    model: CompiledModel | None = None
    """Result of ``build``."""
    runner: ModelRunner | None = None
    """Runner of the built or loaded model."""
    folder: RunFolder | None = None
    """Folder of the saved run."""
    latency: Latency | None = None
    service_level: ServiceLevel | None = None

    @property
    def run_id(self) -> str:
        """Name of the saved or loaded run; empty without one."""
        if self.folder is not None:
            return self.folder.path.name
        return "" if self.loaded is None else self.loaded.run_id

    def close(self) -> None:
        """Give back the threads of the runner."""
        if self.runner is not None:
            self.runner.close()

    def report(self, context: BenchmarkContext) -> RunReport:
        """Report on the run so far."""
        report = self.loaded
        if report is None:
            model, source = self.require_model("report"), self.require_source("report")
            report = RunReport(
                run_id=self.run_id,
                model=source.name,
                target=str(model.kernels.target),
                lanes=model.plan.lanes,
                inputs=self.require_runner("report").inputs,
                logs=tuple(map(str, self.logs)),
                context=context,
            )
        return replace(
            report, context=context, latency=self.latency, service_level=self.service_level
        )

    def require_source(self, verb: str) -> ModelSource:
        """Source of the model that a verb needs."""
        if self.source is None:
            why = "a run that was loaded is built already; " if self.loaded else ""
            raise OptionError(f"{why}call .from_model(…) before .{verb}()")
        return self.source

    def require_model(self, verb: str) -> CompiledModel:
        """Built model that a verb needs; errors as :meth:`require_source`."""
        self.require_source(verb)
        if self.model is None:
            raise OptionError(f"call .build() before .{verb}()")
        return self.model

    def require_runner(self, verb: str) -> ModelRunner:
        """Runner that a verb needs; errors as :meth:`require_source`."""
        if self.runner is None:
            self.require_model(verb)
            raise OptionError(f"call .build() or .load(run_id) before .{verb}()")
        return self.runner
