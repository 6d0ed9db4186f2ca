"""Work that tunes a model through the front door, and leaves it compiled beside its report."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tvm_ios.driver.config import TuneConfig
from tvm_ios.host import require_relay_tvm
from tvm_ios.jobs.core.job_state import JobSpec
from tvm_ios.jobs.work import JobGate
from tvm_ios.support.stage_gate import StageNeed, gated_by

__all__ = ["TuneWork"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneWork:
    """A call of :func:`tvm_ios.tune`. What it measured before lies in logs and databases."""

    config: Mapping[str, Any] = field(default_factory=dict)
    """Tables of a configuration, as :class:`~tvm_ios.driver.config.TuneConfig` reads them."""
    params: str = ""
    """Path of the parameters of a Relay file."""
    lanes: int | None = None
    """Threads that run the model; all cores of the machine where omitted."""
    rpc_tracker: str = ""
    """Tracker and key of the device, where it is one; in place of what ``config`` says."""
    rpc_key: str = ""

    def run(self, spec: JobSpec, gate: JobGate, folder: Path) -> None:
        """Tune, then write ``model.so``, and ``report.txt`` with the schedule."""
        config = TuneConfig.of_tables(self.config)
        if self.rpc_tracker:
            options = config.options
            device = replace(options.device, rpc_tracker=self.rpc_tracker, rpc_key=self.rpc_key)
            config = replace(config, options=replace(options, device=device))
        remote = config.options.device.is_remote
        lanes = None if remote else self.lanes or gate.most_cores
        with gate.stage(StageNeed.to_prepare(1, "load")):
            # TVM makes its thread pool once, with half of the cores unless it is told otherwise.
            os.environ.setdefault("TVM_NUM_THREADS", str(lanes or gate.most_cores))
            require_relay_tvm()
            from tvm_ios.driver.tune import tune  # noqa: PLC0415

            mod, params = _model(spec.model, self.params)
        with gated_by(gate):
            compiled = tune(mod, params, lanes=lanes, **config.arguments())
        report = compiled.report()
        with gate.stage(StageNeed.to_prepare(1, "export")):
            compiled.export_library(folder / "model.so")
            text = f"{report.as_text()}\n\n{compiled.as_text()}\n"
            (folder / "report.txt").write_text(text, encoding="utf-8")
        print(report.as_text())


def _model(name: str, params: str) -> Any:
    """A network of ours by name, or what a file holds."""
    from tvm_ios.models import MODEL_NAMES, by_name  # noqa: PLC0415
    from tvm_ios.relay.model_file import read_model  # noqa: PLC0415

    if name.replace("-", "_") in MODEL_NAMES:
        return by_name(name)()
    return read_model(Path(name), Path(params) if params else None)
