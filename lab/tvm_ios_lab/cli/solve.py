"""``tvm-ios solve``: schedules a recorded problem, by its synthetic cost or for a GPU or CPU.

No TVM, no device.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tvm_ios.core.endings import EndingRule
from tvm_ios.core.partition import Partition, ScheduleBlock, split_operators
from tvm_ios.core.schedule import InterOpSchedule, Strategy
from tvm_ios.errors import OptionError, ProblemError
from tvm_ios.search.baselines import greedy_schedule
from tvm_ios.search.ios import search_ios
from tvm_ios.search.options import SearchOptions
from tvm_ios.search.result import SearchResult
from tvm_ios_lab.analytical.cpu import CPU
from tvm_ios_lab.analytical.cpu_model import AnalyticalCpuCost
from tvm_ios_lab.analytical.gpu import GPU, GPU_NAMES
from tvm_ios_lab.analytical.gpu_work import recorded_work
from tvm_ios_lab.analytical.timeline_model import AnalyticalGpuCost, Kernels, Launching
from tvm_ios_lab.figures.simulated import write_simulated_trace
from tvm_ios_lab.problems.problem import RecordedPart, parse_problem
from tvm_ios_lab.problems.synthetic import SyntheticCostModel

if TYPE_CHECKING:
    from tvm_ios.cli.main import Subparsers

__all__ = ["add_parser", "run"]

_STRATEGIES = {
    "concurrent": frozenset({Strategy.CONCURRENT}),
    "merge": frozenset({Strategy.MERGE}),
    "both": frozenset(Strategy),
}

DEFAULTS = SearchOptions()
_RECORDED = "synthetic cost recorded in the problem"
_Prices = SyntheticCostModel | AnalyticalGpuCost | AnalyticalCpuCost


@dataclass(frozen=True, slots=True)
class _Solution:
    part: RecordedPart
    prices: _Prices
    result: SearchResult
    greedy_ns: int


def add_parser(subparsers: Subparsers) -> None:
    """Declare the verb and its options."""
    parser = subparsers.add_parser(
        "solve",
        description="Find the best schedule of every part of a recorded problem by its synthetic "
        "cost or, with --gpu or --cpu, by an analytical model. Costs are in nanoseconds.",
    )
    parser.add_argument("problem", type=Path, metavar="PROBLEM.json", help="the recorded problem")
    parser.add_argument("--strategies", choices=tuple(_STRATEGIES), default="both")
    parser.add_argument(
        "--max-group-size",
        type=int,
        default=DEFAULTS.max_group_size,
        metavar="R",
        help="most operators in a group, the paper's r; 0 means no limit (default %(default)s)",
    )
    parser.add_argument(
        "--max-num-groups",
        type=int,
        default=DEFAULTS.max_num_groups,
        metavar="S",
        help="most groups in a stage, the paper's s; 0 means no limit (default %(default)s)",
    )
    parser.add_argument(
        "--endings",
        choices=[rule.value for rule in EndingRule],
        default=DEFAULTS.endings.value,
        help="which concurrent stages exist: all by definition, or those of the published code",
    )
    parser.add_argument(
        "--pad-merged-kernels",
        action=argparse.BooleanOptionalAction,
        default=DEFAULTS.pad_merged_kernels,
        help="whether convolutions of different kernel sizes may merge (default: yes)",
    )
    parser.add_argument(
        "--lazy",
        action="store_true",
        help="price only stages that can win; same cost, but with --launching graph",
    )
    parser.add_argument("--no-native", action="store_true", help="do not use the compiled kernel")
    device = parser.add_mutually_exclusive_group()
    device.add_argument(
        "--cpu",
        type=int,
        metavar="CORES",
        help="price stages by the analytical model of a CPU of so many cores, where nothing is "
        "measured",
    )
    device.add_argument(
        "--gpu",
        metavar="NAME",
        help="price stages by the analytical model of this GPU, where nothing is measured: "
        + ", ".join(GPU_NAMES),
    )
    parser.add_argument(
        "--launching",
        choices=[launching.value for launching in Launching],
        help="with --gpu: a CUDA graph (default), streams, or streams with device-wide waits",
    )
    parser.add_argument(
        "--kernels",
        choices=[kernels.value for kernels in Kernels],
        help="with --gpu: tuned kernels (default), or those of a library",
    )
    parser.add_argument(
        "--trace",
        type=Path,
        metavar="TRACE.json",
        help="with --gpu: write the simulated run, for ui.perfetto.dev",
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")


def run(arguments: argparse.Namespace) -> int:
    """Solve the problem and print the answer."""
    _require_gpu(arguments)
    device = _device(arguments)
    options = SearchOptions(
        strategies=_STRATEGIES[arguments.strategies],
        max_group_size=arguments.max_group_size,
        max_num_groups=arguments.max_num_groups,
        endings=EndingRule(arguments.endings),
        # The recorded merge cost is that of the published merge, which centres its kernels.
        centred_merges=True,
        pad_merged_kernels=arguments.pad_merged_kernels,
        native=not arguments.no_native,
    )
    try:
        text = arguments.problem.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ProblemError(f"cannot read {arguments.problem}: {error}") from error
    try:
        problem = parse_problem(text)
    except ProblemError as error:
        raise ProblemError(f"{arguments.problem}: {error}") from error
    solutions = [
        _solve(part, _prices(part, device, arguments), options, lazy=arguments.lazy)
        for part in problem.parts
    ]
    answer = _answer(problem.name, arguments, solutions)
    if arguments.trace is not None:
        _write_trace(problem.name, solutions, arguments.trace)
    print(json.dumps(answer, indent=1) if arguments.json else _table(answer))
    return 0


def _require_gpu(arguments: argparse.Namespace) -> None:
    """Refuse what only makes sense with a GPU."""
    for name in ("launching", "kernels", "trace"):
        if getattr(arguments, name) is not None and arguments.gpu is None:
            how = "add --gpu" if arguments.cpu is None else "use --gpu instead of --cpu,"
            raise OptionError(
                f"--{name} is for the model of a GPU; {how} with one of {', '.join(GPU_NAMES)}"
            )


def _device(arguments: argparse.Namespace) -> GPU | CPU | None:
    """The GPU or CPU that was asked for; None for the recorded cost."""
    if arguments.cpu is not None:
        return CPU.of_cores(arguments.cpu)
    return None if arguments.gpu is None else GPU.by_name(arguments.gpu)


def _prices(part: RecordedPart, device: GPU | CPU | None, arguments: argparse.Namespace) -> _Prices:
    """The recorded cost, or the model of the device."""
    if device is None:
        return part.cost_model
    works = [
        recorded_work(row, operator.convolution)
        for row, operator in zip(part.works, part.graph.operators, strict=True)
    ]
    if isinstance(device, CPU):
        return AnalyticalCpuCost(device, works=works)
    return AnalyticalGpuCost(
        device,
        launching=Launching(arguments.launching or Launching.GRAPH),
        kernels=Kernels(arguments.kernels or Kernels.TUNED),
        works=works,
    )


def _write_trace(name: str, solutions: list[_Solution], path: Path) -> None:
    runs = [
        solution.prices.simulate(solution.part.graph, solution.result.schedule)
        for solution in solutions
        if isinstance(solution.prices, AnalyticalGpuCost)
    ]
    try:
        write_simulated_trace(runs, path, name=name)
    except OSError as error:
        raise OptionError(f"cannot write the trace {path}: {error}; choose another file") from error


def _solve(
    part: RecordedPart,
    prices: _Prices,
    options: SearchOptions,
    *,
    lazy: bool,
) -> _Solution:
    """A part is one schedule block, as recorded, unless it is larger than can be solved."""
    graph = part.graph
    pieces = split_operators(
        range(len(graph)),
        graph.predecessor_masks(),
        max_block_size=options.max_block_size,
        max_block_states=options.max_block_states,
    )
    notes: tuple[str, ...] = ()
    if len(pieces) > 1:
        notes = (
            f"{len(graph)} operators are too many or too wide for one block and were split into "
            f"{len(pieces)}; stages across the splits were not tried",
        )
    blocks = tuple(ScheduleBlock(operators=piece) for piece in pieces)
    partition = Partition(blocks=blocks, notes=notes)
    result = search_ios(graph, prices, options, lazy=lazy, partition=partition)
    greedy_ns = sum(prices.price(graph, greedy_schedule(graph).stages))
    return _Solution(part, prices, result, greedy_ns)


def _answer(name: str, arguments: argparse.Namespace, solutions: list[_Solution]) -> dict[str, Any]:
    return {
        "problem": name,
        "strategies": arguments.strategies,
        "max_group_size": arguments.max_group_size,
        "max_num_groups": arguments.max_num_groups,
        "endings": arguments.endings,
        "pad_merged_kernels": arguments.pad_merged_kernels,
        "prices": _source(solutions),
        "cost": sum(solution.result.latency_ns for solution in solutions),
        "sequential_cost": sum(solution.result.sequential_ns for solution in solutions),
        "greedy_cost": sum(solution.greedy_ns for solution in solutions),
        "seconds": sum(solution.result.seconds for solution in solutions),
        "parts": [
            {
                "cost": solution.result.latency_ns,
                "sequential_cost": solution.result.sequential_ns,
                "greedy_cost": solution.greedy_ns,
                "states": solution.result.states,
                "transitions": solution.result.transitions,
                "single_merges": sum(block.single_merges for block in solution.result.blocks),
                "distinct_stages": solution.result.distinct_stages,
                "priced": solution.result.priced,
                "num_schedules": solution.result.num_schedules,
                "schedule": _stages(solution.result.schedule, solution.part.positions),
                "seconds": solution.result.seconds,
                "notes": list(solution.result.notes),
            }
            for solution in solutions
        ],
    }


def _source(solutions: list[_Solution]) -> str:
    """Origin of the prices."""
    described = {
        solution.prices.description
        for solution in solutions
        if not isinstance(solution.prices, SyntheticCostModel)
    }
    return described.pop() if described else _RECORDED


def _stages(schedule: InterOpSchedule, positions: tuple[int, ...]) -> list[dict[str, Any]]:
    return [
        {
            "strategy": stage.strategy.value,
            "groups": [[positions[index] for index in group] for group in stage.groups],
        }
        for stage in schedule.stages
    ]


def _table(answer: dict[str, Any]) -> str:
    limits = (f"{answer[name] or 'no limit'}" for name in ("max_group_size", "max_num_groups"))
    merges = "" if answer["pad_merged_kernels"] else ", merged kernels of one size"
    source = [] if answer["prices"] == _RECORDED else [f"prices: {answer['prices']}"]
    lines = [
        "{}: strategies {}, max group size {}, max groups {}, {} endings{}; costs in ns".format(
            answer["problem"], answer["strategies"], *limits, answer["endings"], merges
        ),
        *source,
        f"{'part':>5} {'sequential':>12} {'greedy':>12} {'ios':>12} {'stages':>6} {'states':>8} "
        f"{'transitions':>11} {'priced / possible':>17} {'schedules':>9} {'seconds':>8}",
    ]
    for number, part in enumerate(answer["parts"]):
        priced = f"{part['priced']} / {part['distinct_stages']}"
        lines.append(
            f"{number:>5} {part['sequential_cost']:>12} {part['greedy_cost']:>12} "
            f"{part['cost']:>12} {len(part['schedule']):>6} {part['states']:>8} "
            f"{part['transitions']:>11} {priced:>17} {_short(part['num_schedules']):>9} "
            f"{part['seconds']:>8.3f}"
        )
    lines.append(
        f"{'total':>5} {answer['sequential_cost']:>12} {answer['greedy_cost']:>12} "
        f"{answer['cost']:>12} {'':>65} {answer['seconds']:>8.3f}"
    )
    for number, part in enumerate(answer["parts"]):
        lines += [f"note on part {number}: {note}" for note in part["notes"]]
    return "\n".join(lines)


def _short(count: int) -> str:
    """A count in at most nine characters; counts may exceed what a float holds."""
    digits = str(count)
    return digits if len(digits) <= 9 else f"{digits[0]}.{digits[1:3]}e{len(digits) - 1}"
