"""``tvm-ios bench``: measures networks, models in files and compiled models, and tables of them."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tvm_ios.cli.completion import LIBRARY, MODELS, networks_or_files
from tvm_ios.cli.interrupts import told_interrupts
from tvm_ios.cli.measuring import add_loading_options, add_measuring_options, prepare_process
from tvm_ios.driver.chain.run_folder import RunFolder, runs_directory
from tvm_ios.driver.races.compiled_race import lanes_of_files, race_files
from tvm_ios.errors import OptionError
from tvm_ios.host import default_lanes
from tvm_ios.measure.compare import CompareOptions
from tvm_ios.support.whole_file import make_output_folder, write_text

if TYPE_CHECKING:
    from tvm_ios.cli.main import Subparsers
    from tvm_ios.measure.comparison import Comparison
    from tvm_ios_lab.bench.benchmark import BenchmarkSettings

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
FOLDER, TABLE = Path("lab/results"), Path("lab/README.md")
"""Folder and table file for results of networks where the user names none."""
RACE = "compiled.json"
"""The file of ``--output`` that holds the race of compiled models."""


def add_parser(subparsers: Subparsers) -> None:
    """Declare the verb's options."""
    parser = subparsers.add_parser(
        "bench",
        description="Measure models against stock TVM: every contestant in one interleaved run. "
        "Compiled models are timed against each other instead. Results of MODELs are printed, and "
        "written where --output says; without a MODEL, networks are measured, raw rounds go into "
        "OUTPUT/NETWORK.json and medians into the table file.",
    )
    models = parser.add_argument(
        "models",
        nargs="*",
        metavar="MODEL",
        help="a network of tvm_ios.models, a file in Relay (.json, .relay, .txt) or ONNX (.onnx), "
        "or a compiled model: a file (.so) or a saved run",
    )
    models.completer = networks_or_files((*MODELS, *LIBRARY))  # type: ignore[attr-defined]
    add_measuring_options(parser, NETWORKS)
    parser.add_argument(
        "--batch-size",
        type=int,
        metavar="N",
        help="extent of first dimensions that an ONNX file leaves open; of our networks, images, "
        "1 where omitted",
    )
    parser.add_argument(
        "--output",
        type=Path,
        metavar="FOLDER",
        help=f"where the JSON files go (default: {FOLDER}; of MODELs nowhere)",
    )
    parser.add_argument(
        "--table",
        type=Path,
        metavar="FILE",
        help="Markdown file whose table is written anew from all JSON files of OUTPUT (default: "
        f"{TABLE}; of MODELs none)",
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
        default=Path("lab/records"),
        metavar="FOLDER",
        help="where logs are read and written, one a network (default: %(default)s)",
    )
    parser.add_argument(
        "--trials", type=int, help="candidates: a task with autotvm, in all with auto_scheduler"
    )
    parser.add_argument(
        "--only-table", action="store_true", help="measure nothing, write the table anew"
    )
    parser.add_argument(
        "--json", action="store_true", help="print raw rounds as JSON, nothing else"
    )
    add_loading_options(parser)


@told_interrupts()
def run(arguments: argparse.Namespace) -> int:
    """Measure, print and write; 0 when all is done."""
    files = {word: path for word in arguments.models if (path := _compiled_file(word)) is not None}
    models = [word for word in arguments.models if word not in files]
    if not arguments.models:
        models = list(arguments.networks)
    _require_sense(arguments, files, models)
    races = CompareOptions(rounds=arguments.rounds)
    compiled_for = lanes_of_files(files) if files else 0
    given, here = arguments.lanes, default_lanes() if models else 0
    # TVM's threads are made once, for whoever has the most.
    prepare_process(max(compiled_for, here) if given is None else given)
    records = _measure(arguments, models, here if given is None else given) if models else []
    race = _race(arguments, files, races) if files else None
    if arguments.json:
        told = {
            "models": [json.loads(record) for record in records],
            "compiled": None if race is None else race.as_record(),
        }
        print(json.dumps(told, indent=1))
    elif race is not None:
        print(race.as_text())
        if arguments.output is not None:
            _say(f"wrote {arguments.output / RACE}")
    return 0


def _compiled_file(word: str) -> Path | None:
    """The compiled model that a user names by its file or its run; None: this is no such name."""
    if Path(word).suffix == ".so":
        return Path(word)
    if not Path(word).exists() and (runs_directory() / word / "run.json").is_file():
        return RunFolder.find(word).library
    return None


def _require_sense(
    arguments: argparse.Namespace, files: Mapping[str, Path], models: Sequence[str]
) -> None:
    """Refuse options that contradict each other, or that these models have no use for."""
    if arguments.any_processor_model and not files:
        raise OptionError(
            "--any-processor-model is of compiled models, and none is given; leave it out"
        )
    if arguments.table is not None and not models:
        raise OptionError(
            "--table is of models that are measured against stock TVM, and all MODELs are "
            f"compiled; leave it out: {RACE} in --output has their raw rounds"
        )
    if arguments.models and arguments.networks != list(NETWORKS):
        raise OptionError("there are MODELs and --networks; give all of them as MODELs")
    if arguments.models and arguments.table is not None and arguments.output is None:
        raise OptionError(
            "--table is made of the JSON files of --output, and MODELs write none without it; give "
            "--output FOLDER"
        )
    if arguments.json and (arguments.tuning is not None or arguments.only_table):
        raise OptionError(
            "--json prints what is measured of untuned kernels; leave out --tuning and --only-table"
        )
    if arguments.trials is not None and arguments.tuning is None:
        raise OptionError(
            "--trials given, but no kernels are tuned; give --tuning autotvm or --tuning "
            "auto_scheduler as well"
        )
    if arguments.models and (arguments.tuning is not None or arguments.only_table):
        raise OptionError(
            "--tuning and --only-table are for networks, whose results go into files; give them as "
            "--networks NAME ..., and leave out MODELs"
        )


def _measure(arguments: argparse.Namespace, models: Sequence[str], lanes: int) -> list[str]:
    """Measure models against stock TVM; the records in JSON."""
    # Everything that imports TVM comes after the process is prepared, and only for this verb.
    from tvm_ios_lab.bench.benchmark import (  # noqa: PLC0415
        BenchmarkSettings,
        around_table,
        measure_models,
        write_table,
    )

    folder, table = arguments.output, arguments.table
    if not arguments.models:
        folder, table = folder or FOLDER, table or TABLE
    settings = BenchmarkSettings(
        batch_size=arguments.batch_size,
        lanes=lanes,
        rounds=arguments.rounds,
        time_budget=arguments.time_budget,
        database=arguments.database,
        folder=folder,
    )
    if arguments.tuning is not None:
        _measure_tuned(arguments, models, settings)
        return []
    if table is not None:
        around_table(table)  # refused before hours of work, not after
    records = []
    if not arguments.only_table:
        say = _say_nothing if arguments.json else _say
        records = measure_models(models, settings, say)
    if table is not None:
        write_table(folder or FOLDER, table)
    return [record.to_json() for record in records]


def _race(
    arguments: argparse.Namespace, files: Mapping[str, Path], options: CompareOptions
) -> Comparison:
    """Race compiled models, and write the rounds where ``--output`` says."""
    folder = arguments.output
    if folder is not None:
        make_output_folder(folder)
    race = race_files(
        files,
        options,
        lanes=arguments.lanes,
        any_processor_model=arguments.any_processor_model,
    )
    if folder is not None:
        write_text(folder / RACE, json.dumps(race.as_record(), indent=1) + "\n")
    return race


def _say(words: str) -> None:
    print(words, flush=True)


def _say_nothing(_words: str) -> None:
    """Standard output is for JSON."""


def _measure_tuned(
    arguments: argparse.Namespace, networks: Sequence[str], settings: BenchmarkSettings
) -> None:
    from tvm_ios.tuning.options import TuningOptions  # noqa: PLC0415
    from tvm_ios.tuning.tuned_kernels import TuningRequest  # noqa: PLC0415
    from tvm_ios_lab.bench.benchmark import around_table  # noqa: PLC0415
    from tvm_ios_lab.bench.tuned_benchmark import measure_tuned  # noqa: PLC0415
    from tvm_ios_lab.bench.tuned_table import MARKERS, write_tuned_table  # noqa: PLC0415

    table, folder = arguments.table or TABLE, (arguments.output or FOLDER) / "tuned"
    around_table(table, MARKERS)
    tuned = replace(settings, folder=folder)
    if not arguments.only_table:
        request = TuningRequest(
            backend=arguments.tuning, options=TuningOptions(trials=arguments.trials)
        )
        measure_tuned(networks, tuned, request, arguments.tuning_records)
    write_tuned_table(folder, table)
