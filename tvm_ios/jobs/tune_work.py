"""Work that tunes a model through the front door, and saves the run."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from tvm_ios.driver.chain.run_folder import runs_directory
from tvm_ios.driver.config import TuneConfig
from tvm_ios.driver.input_shapes import InputShapes
from tvm_ios.errors import DeviceLostError, JobError, TuningError
from tvm_ios.host import require_relay_tvm
from tvm_ios.jobs.core.job_state import JobSpec
from tvm_ios.jobs.tracker import TrackerAddress
from tvm_ios.support.stage_gate import JobProgress, StageGate, StageNeed, gated_by

__all__ = ["JobGate", "TuneWork", "link_run"]

_LOG = logging.getLogger(__name__)

_LOSSES = 8
"""Times that one worker takes its device to be lost outside of batches of candidates. A network may
crash a device's server each time, so there is an end to it."""


class JobGate(StageGate, Protocol):
    """A gate of one job of many."""

    @property
    def told(self) -> JobProgress:
        """The progress that was told last."""

    def revoked(self) -> bool:
        """Whether the device of the present stage was lost; TVM finds that out by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneWork:
    """A chain of :class:`~tvm_ios.driver.chain.simple_tvm.SimpleTVM` from a model to a run.

    What it measured before lies in logs and databases.
    """

    config: Mapping[str, Any] = field(default_factory=dict)
    """Tables of a configuration, as :class:`~tvm_ios.driver.config.TuneConfig` reads them."""
    params: str = ""
    """Path of the parameters of a Relay file."""
    input_shapes: str = ""
    """Shapes of inputs that an ONNX model leaves open, as ``tvm-ios tune --input-shapes``."""
    batch_size: int | None = None
    """Extent of open first dimensions; None where there are none."""
    target: str = ""
    """A TVM target; the best for the device where omitted."""
    lanes: int | None = None
    """Threads that run the model; where omitted, all cores of the machine that runs it."""
    cache: str = ""
    """A cache folder of its own; the user's where omitted."""
    records: str = ""
    """Path of the log of its tuning; the one of the cache folder for its tuner where omitted."""

    def run(self, spec: JobSpec, gate: JobGate, folder: Path) -> None:
        """Tune, save the run, and link it as ``run`` into the job's folder.

        With a service level, no more is done than it needs. Where the device goes away while the
        network is priced or raced there, all of it begins again when the device is back: what was
        measured lies in logs and databases.
        """
        if self.cache:  # the process is this job's alone
            os.environ["TVM_IOS_CACHE_DIR"] = self.cache
        for _ in range(_LOSSES):
            board = None
            try:
                board = _found_board(gate) if spec.key else None
                self._run(spec, gate, folder, board)
            except TuningError as error:
                if not isinstance(error, DeviceLostError) and _is_listed(board):
                    raise
                _LOG.warning("%s", error)
            else:
                return
        raise JobError(
            f"its device was lost {_LOSSES} times while networks ran on it; see whether one of "
            "them brings it down, and run the jobs again: what was measured is kept"
        )

    def _run(
        self, spec: JobSpec, gate: JobGate, folder: Path, board: TrackerAddress | None
    ) -> None:
        config = TuneConfig.of_tables(self.config)
        if board is not None:
            config = _on_board(config, board)
        elsewhere = config.options.device.is_remote or self.target.startswith("cuda")
        lanes = self.lanes if elsewhere else self.lanes or gate.most_cores
        with gate.stage(StageNeed.to_prepare(1, "load")), gated_by(gate):
            # TVM makes its thread pool once, with half of the cores unless it is told otherwise.
            os.environ.setdefault("TVM_NUM_THREADS", str(lanes or gate.most_cores))
            require_relay_tvm()
            from tvm_ios.driver.chain.simple_tvm import SimpleTVM  # noqa: PLC0415

            chain = SimpleTVM(self.target or None, lanes=lanes, options=config.options)
            shapes = InputShapes.parse(self.input_shapes, self.batch_size)
            chain.from_model(spec.model, self.params or None, shapes)
        with chain, gated_by(gate):
            if config.tuning is not None:
                chain.autotune(
                    tuner=config.tuning,
                    sla_ms=spec.sla_ms,
                    time_budget=config.time_budget,
                    records=self.records or None,
                )
            chain.build(time_budget=config.time_budget)
            with gate.stage(StageNeed.to_prepare(1, "save")):
                chain.save()
            if chain.latency is None:
                chain.evaluate()
        found = chain.latency
        assert found is not None  # somebody evaluated it
        gate.tell(replace(gate.told, best_ms=found.median_ms, stage="done"))
        link_run(folder, runs_directory() / chain.run_id)
        print(chain.report().as_text())


def _found_board(gate: JobGate) -> TrackerAddress:
    """A board that the job may have; where all are lost, one is waited for."""
    with gate.stage(StageNeed.to_profile(1, "find the device")) as granted:
        board = TrackerAddress.of(granted.address)
        if not _is_listed(board):  # nothing later would wait for it
            raise DeviceLostError(f"device {granted.device!r} has gone")
    return board


def _is_listed(board: TrackerAddress | None) -> bool:
    """Whether its tracker has a board; always so of devices that are here."""
    return board is None or asyncio.run(board.servers()) > 0


def _on_board(config: TuneConfig, board: TrackerAddress) -> TuneConfig:
    """A configuration with a board, and those that are alike, as its device."""
    options = config.options
    device = replace(options.device, rpc_tracker=board.tracker, rpc_key=board.key)
    return replace(config, options=replace(options, device=device))


def link_run(folder: Path, run: Path) -> None:
    """Have ``run`` in a job's folder lead to a run, in place of one before."""
    new = folder / ".run"
    new.unlink(missing_ok=True)
    new.symlink_to(os.path.relpath(run, folder))
    # A rename takes the old link's place in one step; a link cannot be made over another.
    new.replace(folder / "run")
