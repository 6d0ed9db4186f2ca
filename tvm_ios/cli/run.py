"""``tvm-ios run``: runs a file that ``tune`` or ``export_library`` wrote; times and traces it."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tvm_ios.cli.measuring import RELAX, add_loading_options, prepare_process, take_dialect
from tvm_ios.core.parts import Part, output_names, parts_named
from tvm_ios.driver.input_shapes import InputShapes
from tvm_ios.driver.run_inputs import FillMode, read_arrays, run_inputs, write_arrays
from tvm_ios.errors import OptionError
from tvm_ios.host.relax_tvm import is_relax_version
from tvm_ios.measure.run_times import RunTimes
from tvm_ios.plan.plan import ExecutionPlan
from tvm_ios.plan.trace import TraceEvent
from tvm_ios.report.chrome_trace import write_chrome_trace
from tvm_ios.report.operator_table import (
    OperatorTime,
    flops_of_launches,
    operator_table,
    operator_times,
)
from tvm_ios.runtime.artifact.footer import read_footer, read_story
from tvm_ios.runtime.artifact.story import ModelStory
from tvm_ios.support.whole_number import require_whole

if TYPE_CHECKING:
    from tvm_ios.cli.main import Subparsers
    from tvm_ios.runtime.base.plan_module import PlanModule

__all__ = ["add_parser", "run"]

PROFILED_RUNS = 11
"""Number of runs that a profile is the median of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Timing:
    """Numbers of runs: samples, runs in each, and warm-up."""

    repeat: int
    number: int
    warmup: int

    def __post_init__(self) -> None:
        require_whole("--repeat", self.repeat, least=1)
        require_whole("--number", self.number, least=1)
        require_whole("--warmup", self.warmup, least=0)


def add_parser(subparsers: Subparsers) -> None:
    """Declare the verb's options."""
    parser = subparsers.add_parser(
        "run",
        description="Run a compiled model: with inputs from a file or made-up ones, timed, "
        "profiled and traced. Flags are named as in tvmc.",
    )
    parser.add_argument("file", type=Path, metavar="FILE", help="what tvm-ios tune wrote")
    parser.add_argument(
        "-i", "--inputs", type=Path, metavar="NPZ", help="arrays by input, from numpy.savez"
    )
    parser.add_argument(
        "-o",
        "--outputs",
        type=Path,
        metavar="NPZ",
        help="where outputs go: output_0 and so on, or by name where the file has several models",
    )
    parser.add_argument(
        "--input-shapes",
        metavar="SHAPES",
        help="shape to run, of a file with several: 'x:[1,3,224,224]' (default: that of the given "
        "inputs, or the first)",
    )
    parser.add_argument(
        "--parts",
        nargs="+",
        metavar="NAME",
        help="parts to run, of a file of several models (default: all)",
    )
    parser.add_argument(
        "--fill-mode",
        choices=[each.value for each in FillMode],
        default=FillMode.RANDOM.value,
        help="what inputs hold where no file is given (default: %(default)s)",
    )
    parser.add_argument("--print-time", action="store_true", help="print times of runs")
    parser.add_argument(
        "--repeat", type=int, default=10, help="samples of the time (default: %(default)s)"
    )
    parser.add_argument(
        "--number", type=int, default=1, help="runs in each sample (default: %(default)s)"
    )
    parser.add_argument(
        "--warmup", type=int, default=3, help="runs before the first one (default: %(default)s)"
    )
    parser.add_argument(
        "--profile", action="store_true", help="print a row for each operator, longest first"
    )
    parser.add_argument(
        "--trace", type=Path, metavar="JSON", help="write a run for ui.perfetto.dev"
    )
    parser.add_argument("--json", action="store_true", help="print times and profile as JSON")
    parser.add_argument("--lanes", type=int, help="threads (default: what it was made for)")
    add_loading_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run the model and print what was asked for; return 0."""
    timing = _Timing(repeat=arguments.repeat, number=arguments.number, warmup=arguments.warmup)
    # A file that is none is told before TVM is loaded.
    identity = read_footer(arguments.file).identity
    given = None if arguments.inputs is None else read_arrays(arguments.inputs)
    if is_relax_version(identity.tvm_version):
        take_dialect(RELAX)
    prepare_process(arguments.lanes or identity.lanes, relay=False)
    from tvm_ios.runtime.artifact.artifact import load  # noqa: PLC0415

    with load(
        arguments.file,
        lanes=arguments.lanes,
        any_processor_model=arguments.any_processor_model,
    ) as executor:
        fill = FillMode(arguments.fill_mode)
        shape = _shape(executor, arguments.input_shapes, given)
        inputs, numbers, only = executor.input_names, _outputs(executor, executor.parts), {}
        if arguments.parts:
            parts = parts_named(executor.parts, arguments.parts)
            inputs = tuple(name for part in parts for name in part.inputs)
            numbers, only = _outputs(executor, parts), {"parts": arguments.parts}
        executor.run(**run_inputs(executor.plan, inputs, given, fill), **only)
        outputs = {
            name: np.array(executor.get_output(number).numpy()) for name, number in numbers.items()
        }
        if arguments.outputs is not None:
            write_arrays(arguments.outputs, outputs)
        told: dict[str, Any] = {
            "file": str(arguments.file),
            **({"shape": shape} if shape else {}),
            "outputs": {
                name: {"dtype": str(array.dtype), "shape": list(array.shape)}
                for name, array in outputs.items()
            },
        }
        if arguments.print_time or not (arguments.profile or arguments.trace):
            times = _timed(partial(executor.time_ns, **only), timing)
            told["times"] = {"run_ms": times.run_ms, **times.summary()}
            if not arguments.json:
                print(f"{shape}: {times.as_text()}" if shape else times.as_text())
        if arguments.profile:
            traced = partial(executor.trace, **only)
            rows = _profile(traced, executor.plan, _story(arguments.file, shape))
            told["profile"] = [asdict(each) for each in rows]
            if not arguments.json:
                print(operator_table(rows).as_text())
        if arguments.trace is not None:
            _trace(executor.trace(**only), arguments.trace, arguments.file.stem)
    if arguments.json:
        print(json.dumps(told, indent=1))
    return 0


def _shape(executor: PlanModule, text: str | None, given: Mapping[str, np.ndarray] | None) -> str:
    """Name of the shape that a run is of, chosen by a text or by inputs; empty without several."""
    from tvm_ios.runtime.cpu.shapes_module import ShapesModule  # noqa: PLC0415 - TVM comes in here

    wanted = InputShapes.parse(text).shapes or {n: a.shape for n, a in (given or {}).items()}
    if isinstance(executor, ShapesModule):
        return executor.choose(wanted).name
    if text is not None:
        raise OptionError(
            "--input-shapes chooses one of several shapes, and the file has the model in one; "
            "leave it out"
        )
    return ""


def _story(file: Path, shape: str) -> ModelStory | None:
    """Story of a file's model, in one of its shapes."""
    story = read_story(file)
    if story is None:
        return None
    return next((each for each in story.others if each.shape == shape), story)


def _outputs(executor: PlanModule, parts: Sequence[Part]) -> dict[str, int]:
    """Number of each output by name."""
    if not parts:
        return {f"output_{number}": number for number in range(executor.get_num_outputs())}
    return output_names(parts)


def _timed(time_ns: Callable[[int], int], timing: _Timing) -> RunTimes:
    if timing.warmup:
        time_ns(timing.warmup)
    taken = [time_ns(timing.number) for _ in range(timing.repeat)]
    return RunTimes(
        run_ms=tuple(ns / timing.number / 1e6 for ns in taken),
        number=timing.number,
        warmup=timing.warmup,
    )


def _profile(
    trace: Callable[[], list[TraceEvent]], plan: ExecutionPlan, story: ModelStory | None
) -> tuple[OperatorTime, ...]:
    flops = {}
    if story is not None:
        flops = flops_of_launches(story.graph, story.schedule)
    trace()  # the first one finds cold caches
    return operator_times(plan, [trace() for _ in range(PROFILED_RUNS)], flops)


def _trace(events: list[TraceEvent], path: Path, name: str) -> None:
    try:
        write_chrome_trace(events, path, name=name)
    except OSError as error:
        raise OptionError(
            f"cannot write the trace {path}: {error.strerror}; name a file in a folder that is "
            "there and writable"
        ) from error
