"""``tvm-ios bench``: measures networks into one JSON file each, and a table in Markdown."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tvm_ios.cli.measuring import add_measuring_options, prepare_process

if TYPE_CHECKING:
    from tvm_ios.cli.main import Subparsers
    from tvm_ios.experiments.benchmark import BenchmarkSettings

__all__ = ["add_parser", "run"]

NETWORKS = (
    "randwire_small",
    "nasnet_small",
    "nasnet_small_c44",
    "squeezenet",
    "inception_v3",
    "randwire",
    "nasnet_large",
)


def add_parser(subparsers: Subparsers) -> None:
    """Declare the verb's options."""
    parser = subparsers.add_parser(
        "bench",
        description="Measure networks against stock TVM: every contestant in one interleaved run, "
        "raw rounds into OUTPUT/NETWORK.json, medians into the table file.",
    )
    add_measuring_options(parser, NETWORKS)
    parser.add_argument("--batch-size", type=int, default=1, help="images (default: 1)")
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("benchmarks/results"),
        metavar="FOLDER",
        help="where the JSON files go (default: %(default)s)",
    )
    parser.add_argument(
        "--table",
        type=Path,
        default=Path("benchmarks/README.md"),
        metavar="FILE",
        help="Markdown file whose table is written anew from all JSON files (default: %(default)s)",
    )
    parser.add_argument("--rounds", type=int, default=40, help="rounds that count (default: 40)")
    parser.add_argument(
        "--time-budget",
        type=float,
        metavar="SECONDS",
        default=900.0,
        help="seconds for each network; the last race is never cut (default: %(default)s)",
    )
    parser.add_argument(
        "--tuning",
        choices=("autotvm", "auto_scheduler"),
        help="measure untuned and tuned kernels, into OUTPUT/tuned and the file's second table",
    )
    parser.add_argument(
        "--tuning-records",
        type=Path,
        default=Path("benchmarks/records"),
        metavar="FOLDER",
        help="where logs are read and written, one a network (default: %(default)s)",
    )
    parser.add_argument(
        "--trials", type=int, help="candidates: a task with autotvm, in all with auto_scheduler"
    )
    parser.add_argument(
        "--only-table", action="store_true", help="measure nothing, write the table anew"
    )


def run(arguments: argparse.Namespace) -> int:
    """Measure and write; 0 when all is done."""
    lanes = prepare_process(arguments.lanes)
    # Everything that imports TVM comes after that, and only for this verb.
    from tvm_ios.experiments.benchmark import (  # noqa: PLC0415
        BenchmarkSettings,
        around_table,
        measure_networks,
        write_table,
    )

    settings = BenchmarkSettings(
        batch_size=arguments.batch_size,
        lanes=lanes,
        rounds=arguments.rounds,
        time_budget=arguments.time_budget,
        database=arguments.database,
        folder=arguments.output,
    )
    if arguments.tuning is not None:
        return _run_tuned(arguments, settings)
    around_table(arguments.table)  # refused before hours of work, not after
    if not arguments.only_table:
        measure_networks(arguments.networks, settings)
    write_table(arguments.output, arguments.table)
    return 0


def _run_tuned(arguments: argparse.Namespace, settings: BenchmarkSettings) -> int:
    from tvm_ios.experiments.benchmark import around_table  # noqa: PLC0415
    from tvm_ios.experiments.tuned_benchmark import measure_tuned  # noqa: PLC0415
    from tvm_ios.experiments.tuned_table import MARKERS, write_tuned_table  # noqa: PLC0415
    from tvm_ios.tuning.options import TuningOptions  # noqa: PLC0415
    from tvm_ios.tuning.tuned_kernels import TuningRequest  # noqa: PLC0415

    around_table(arguments.table, MARKERS)
    tuned = replace(settings, folder=settings.folder / "tuned")
    if not arguments.only_table:
        request = TuningRequest(
            backend=arguments.tuning, options=TuningOptions(trials=arguments.trials)
        )
        measure_tuned(arguments.networks, tuned, request, arguments.tuning_records)
    write_tuned_table(tuned.folder, arguments.table)
    return 0
