"""A chain of verbs over :func:`tvm_ios.tune`: from a model to a run, saved and evaluated.

Named after the interface of Stiller (2019), with the same purpose: few words, and the time of every
step kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from tvm_ios.compile.model import CompiledModel
from tvm_ios.cost.database import ProfileDatabase
from tvm_ios.driver.chain.benchmark_context import BenchmarkContext, StepTime
from tvm_ios.driver.chain.latency import Latency
from tvm_ios.driver.chain.model_runner import LoadedRunner, run
from tvm_ios.driver.chain.run_folder import RunFolder, RunReport, new_run_id
from tvm_ios.driver.chain.service_level import ServiceLevel, require_sla_ms
from tvm_ios.driver.chain.setup import ChainSetup, OpenDoor
from tvm_ios.driver.chain.state import ChainState
from tvm_ios.driver.chain.tune_to_level import LevelRequest
from tvm_ios.driver.input_shapes import AS_IN_FILE, InputShapes
from tvm_ios.driver.model_source import ModelSource
from tvm_ios.driver.options import DEFAULTS, TuneOptions, require_options
from tvm_ios.errors import OptionError
from tvm_ios.host.machine import machine_facts, version_facts
from tvm_ios.report.records_in_force import RecordFormat
from tvm_ios.support.progress import PhaseClock, ProgressListener
from tvm_ios.support.stage_gate import OpenGate, clock_at_work, gate_around
from tvm_ios.support.time_budget import TimeBudget
from tvm_ios.tuning.options import TuningOptions, default_records_path
from tvm_ios.tuning.tuned_kernels import BACKENDS

__all__ = ["SimpleTVM"]


class SimpleTVM:
    """Chain from a model to a run; every verb but :meth:`run` returns the chain.

    Verbs raise what :func:`tvm_ios.tune` raises, and an OptionError where a verb before them is
    missing, which it names.

    Parameters
    ----------
    target
        As for :func:`tvm_ios.tune`: the best for this processor, or for the tracker's device, where
        omitted.
    rpc_tracker, rpc_key
        Device of an RPC tracker for all measurements, in place of the one in ``options``.
    lanes, database, progress
        As for :func:`tvm_ios.tune`.
    options
        Options of search, races, tuners and everything else.

    Examples
    --------
    >>> from tvm_ios import SimpleTVM
    >>> chain = SimpleTVM().from_model("squeezenet")
    >>> chain.autotune(trials=12).build().save().evaluate()  # doctest: +SKIP
    >>> print(chain.report().as_text())  # doctest: +SKIP
    >>> SimpleTVM().load(chain.run_id).run(image)  # doctest: +SKIP
    """

    def __init__(
        self,
        target: Any = None,
        *,
        rpc_tracker: str | None = None,
        rpc_key: str | None = None,
        lanes: int | None = None,
        database: ProfileDatabase | str | Path | None = None,
        options: TuneOptions = DEFAULTS,
        progress: ProgressListener | None = None,
    ) -> None:
        given = {"rpc_tracker": rpc_tracker, "rpc_key": rpc_key}
        self._device = {name: value for name, value in given.items() if value is not None}
        self._setup = ChainSetup(
            target=target,
            lanes=lanes,
            database=database,
            options=self._on_device(options),
            progress=progress,
        )
        self._at = ChainState()
        self.context = _empty_context()
        """Seconds of every step since the model was given."""

    # ---- Verbs, in the order in which they are called ----

    def from_model(self, model: Any, params: Any = None, shapes: InputShapes = AS_IN_FILE) -> Self:
        """Take a model, and forget the one before.

        Parameters
        ----------
        model
            A Relay module, a pair ``(mod, params)``, an ``onnx.ModelProto``, the name of a network
            of :mod:`tvm_ios.models`, or a file: Relay in JSON or text, or ONNX.
        params
            Parameters by name; beside a file of Relay, the file that holds them.
        shapes
            Shapes of inputs that an ONNX model leaves open; a batch size is for networks of
            :mod:`tvm_ios.models`, too.

        """
        self._begin(ChainState())
        self.context = _empty_context()
        with self._step("from_model"):
            self._at.source = ModelSource.of(
                model, params, shapes, rest=self._setup.options.build.rest
            )
        return self

    def autotune(
        self,
        *,
        trials: int | None = None,
        tuner: str = "autotvm",
        sla_ms: float | None = None,
        time_budget: float | None = None,
        records: str | Path | None = None,
    ) -> Self:
        """Tune the kernels, and find the fastest schedule of them.

        With ``sla_ms`` no more is done than needed. First the records in all logs of the cache
        folder are looked up: if every task has one, the model is built with them and evaluated, and
        if it meets the service level nothing is tuned. Otherwise tuning goes on in slices, each as
        long as all before it, and ends with the first evaluation that meets the level.

        Parameters
        ----------
        trials
            Number of candidates: for each task with AutoTVM, in all with auto_scheduler.
        tuner
            ``"autotvm"`` or ``"auto_scheduler"``.
        sla_ms
            Milliseconds that the median latency has to stay below with its whole interval.
        time_budget
            Seconds of this verb.
        records
            Log that gets new records; where omitted, the one in the cache folder.

        """
        source = self._at.require_source("autotune")
        if tuner not in BACKENDS:
            raise OptionError(f"tuner is {tuner!r}; give {' or '.join(map(repr, BACKENDS))}")
        kernels = self._setup.options.kernels
        kernels = kernels if trials is None else replace(kernels, trials=trials)
        log = default_records_path(tuner) if records is None else Path(records)
        budget = TimeBudget(time_budget, clock_s=clock_at_work(gate_around(OpenGate())))
        request = None
        if sla_ms is not None:
            request = LevelRequest(
                sla_ms=require_sla_ms(sla_ms), tuner=RecordFormat(tuner), kernels=kernels, log=log
            )
        at = self._begin(ChainState(source=source))
        with self._step("autotune") as calls:
            door = OpenDoor(setup=self._setup, source=source, calls=calls)
            if request is None:
                at.tuned = door(kernels, tuner=tuner, records=(log,), time_budget=time_budget)
                used = {log: None}
            else:
                reached, known = self._setup.tune_to_level(request, door, budget)
                at.tuned, at.latency = reached.model, reached.latency
                at.service_level = reached.level
                used = dict.fromkeys((log, *known.logs))
            at.tuned_with = self._setup.options
            # Where nothing was measured there may be no log.
            at.logs = tuple(each for each in used if each.exists())
        return self

    def build(
        self, *, options: TuneOptions | None = None, time_budget: float | None = None
    ) -> Self:
        """Compile the model with the fastest inter-operator schedule.

        After :meth:`autotune` that is the schedule found there, unless the options are others now:
        then it is searched anew, with the records of that tuning.

        Parameters
        ----------
        options
            Options in place of the chain's, except for its tracker and key. Their ``kernels`` are
            for :meth:`autotune`, and not read here.
        time_budget
            Seconds of this verb.

        """
        source = self._at.require_source("build")
        if options is not None:
            self._setup = replace(self._setup, options=self._on_device(options))
        at, setup = self._at, self._setup
        with self._step("build") as calls:
            if at.tuned is None or at.tuned_with != setup.options:
                door = OpenDoor(setup=setup, source=source, calls=calls)
                at.tuned = door(
                    TuningOptions(), tuner=None, records=at.logs, time_budget=time_budget
                )
                at.tuned_with = setup.options
                at.latency = at.service_level = None
            self.close()
            at.model, at.folder, at.runner = at.tuned, None, setup.runner(at.tuned)
        return self

    def save(self) -> Self:
        """Write the compiled model and its reports into a folder of their own.

        :attr:`run_id` names it, and :meth:`load` reads it in any process on such a machine. An
        ArtifactError says why the folder cannot be written.
        """
        model, source = self._at.require_model("save"), self._at.require_source("save")
        report = replace(self.report(), run_id=new_run_id(source.name))
        with self._step("save"):
            folder = RunFolder.make(
                report,
                model.export_library,
                tune=model.report().to_json(),
                schedule=model.schedule.to_json(),
            )
        self._at.folder = folder
        folder.write(self.report())  # with the seconds of this step
        return self

    def load(self, run_id: str) -> Self:
        """Take a saved run in place of a model: it runs and is evaluated here.

        An ArtifactError says that there is no such run, or that it was made for another processor,
        TVM or plan version.
        """
        folder = RunFolder.find(run_id)
        report = folder.report()
        at = self._begin(ChainState(latency=report.latency, service_level=report.service_level))
        self.context = report.context
        with self._step("load"):
            at.runner = LoadedRunner(folder.library, report.inputs, lanes=self._setup.lanes)
        at.loaded = report
        return self

    def evaluate(self) -> Self:
        """Measure the latency, alone and with the rounds of races, into :attr:`latency`.

        The report of a run that this chain has saved gets it, too.
        """
        runner = self._at.require_runner("evaluate")
        with self._step("evaluate"):
            self._at.latency = self._setup.timed(runner)
        if self._at.folder is not None:
            self._at.folder.write(self.report())
        return self

    def run(self, x: Any) -> tuple[np.ndarray, ...]:
        """The outputs for one input, on the device that the model was built for.

        Parameters
        ----------
        x
            The array of the only input, or a mapping of all inputs by name.
        """
        return run(self._at.require_runner("run"), x)

    # ---- What there is so far ----

    @property
    def model(self) -> CompiledModel | None:
        """Result of :meth:`build`; None before, and after :meth:`load`."""
        return self._at.model

    @property
    def latency(self) -> Latency | None:
        """Result of :meth:`evaluate`, or before it the evaluation that ended :meth:`autotune`."""
        return self._at.latency

    @property
    def service_level(self) -> ServiceLevel | None:
        """Result of :meth:`autotune` with ``sla_ms``; None where none was asked for."""
        return self._at.service_level

    @property
    def run_id(self) -> str:
        """Name of the saved or loaded run; empty without one."""
        return self._at.run_id

    def report(self) -> RunReport:
        """Report on the run so far, as text and JSON."""
        return self._at.report(self.context)

    def close(self) -> None:
        """Give back the threads of :meth:`run` and :meth:`evaluate`; later calls make new ones."""
        self._at.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    # ---- Steps ----

    def _on_device(self, options: TuneOptions) -> TuneOptions:
        """Options with the tracker and key of this chain."""
        require_options(options)
        return replace(options, device=replace(options.device, **self._device))

    @contextmanager
    def _step(self, verb: str) -> Iterator[list[Mapping[str, float]]]:
        """Context whose time is counted; its list gets the phases of each call of ``tune``."""
        clock, calls = PhaseClock(self._setup.progress), list[Mapping[str, float]]()
        with clock.phase(verb):
            yield calls
        step = StepTime(step=verb, seconds=clock.phase_s[verb], calls=tuple(calls))
        self.context = replace(self.context, steps=(*self.context.steps, step))

    def _begin(self, state: ChainState) -> ChainState:
        """Continue from a state in which nothing is tuned, built or measured yet."""
        self._at.close()
        self._at = state
        return state


def _empty_context() -> BenchmarkContext:
    facts = dict(machine_facts())
    # A job may be on one leased core right now; its model is tuned and timed on more.
    facts["cores"] = str(gate_around(OpenGate(most_cores=int(facts["cores"]))).most_cores)
    return BenchmarkContext(machine=facts, versions=dict(version_facts()))
