"""``tvm-ios tune``: tunes and schedules one model and writes it into one file."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tvm_ios.cli.ceiling import shown_ceiling, tell_onnx_ceiling
from tvm_ios.cli.early_file import EarlyFile
from tvm_ios.cli.interrupts import told_interrupts
from tvm_ios.cli.kept_command import KeptCommand
from tvm_ios.cli.measuring import (
    RELAX,
    RELAY,
    add_dialect,
    add_model_options,
    prepare_process,
    take_dialect,
)
from tvm_ios.core.conversion import ACCUMULATORS, LAYOUTS
from tvm_ios.core.parts import named_models, require_part_names
from tvm_ios.core.precision.low_precision import PRECISIONS
from tvm_ios.driver.config import TuneConfig
from tvm_ios.driver.dialects.relax_options import (
    NO_TUNER,
    relax_options,
    require_nothing_of_relay,
)
from tvm_ios.driver.effort import Effort
from tvm_ios.driver.input_shapes import InputShapes
from tvm_ios.driver.kept.store import KeptResults
from tvm_ios.driver.onnx_file import OnnxFile, is_onnx_path
from tvm_ios.driver.options import DEFAULTS
from tvm_ios.errors import ArtifactError, OptionError
from tvm_ios.onnx.rest import RESTS
from tvm_ios.report.html.report_page import write_pages
from tvm_ios.report.html.templates import require_templates
from tvm_ios.runtime.artifact.decisions_file import read_given
from tvm_ios.runtime.artifact.new_artifact import copy_artifact
from tvm_ios.support.terminal import StderrProgress
from tvm_ios.support.time_budget import TimeBudget, process_age_s
from tvm_ios.tuning.options import BACKEND_NAMES, TUNERS

if TYPE_CHECKING:
    from tvm_ios.cli.main import Subparsers
    from tvm_ios.compile.model import CompiledModel
    from tvm_ios.compile.shapes import CompiledShapes

__all__ = ["add_parser", "run"]

FLAGS: Mapping[str, tuple[str, ...]] = {
    "search": (
        "deadlines_ms",
        "list_only",
        "max_group_size",
        "max_num_groups",
        "memory_limit_mb",
        "pad_merged_kernels",
    ),
    "conversion": ("desired_layout", "mixed_precision", "mixed_precision_acc_type"),
    "precision": ("dtype", "max_relative_error"),
    "measure": ("wait_quiet_s",),
    "build": ("pad_channels", "race_forms", "all_kernels", "libraries", "tf32", "exact", "rest"),
    "device": ("rpc_tracker", "rpc_key"),
    "database": ("fresh",),
}
"""Options by noun that flags of the same name set; without the flag, the file's value stays."""
TUNING_FLAGS = {
    "trials": "--trials",
    "early_stopping": "--early-stopping",
    "time_budget_s": "--tuning-time-budget",
    "timeout_s": "--timeout",
    "number": "--number",
    "repeat": "--repeat",
    "min_repeat_ms": "--min-repeat-ms",
    "tuner": "--tuner",
}
"""Flags that set options of kernel tuning, by option."""
RELAY_FLAGS: Mapping[str, str] = {
    "tuning": "--tuning",
    **TUNING_FLAGS,
    "pad_channels": "--pad-channels",
    "pad_merged_kernels": "--pad-merged-kernels",
}
"""Flags that Relax would ignore, by name; what other flags ask of Relay is refused as an option."""


_NAMED = re.compile(r"([^\W\d]\w*)=(.+)", re.ASCII)
"""A model after the name of its part."""


def add_parser(subparsers: Subparsers) -> None:
    """Declare the verb's options."""
    parser = subparsers.add_parser(
        "tune",
        usage="%(prog)s [-h] [options] MODEL [MODEL ...]",  # else 20 lines stand before each error
        description="Tune a model's kernels, find the schedule that runs them best on this "
        "machine, and write the compiled model into one file. Flags are named as in tvmc.",
    )
    add_model_options(parser, several=True)
    parser.add_argument(
        "--share",
        action="extend",
        nargs="+",
        default=[],
        metavar="INPUT",
        help="inputs that are one for all of several models which have them; others are named "
        "part__input",
    )
    add_dialect(parser)
    parser.add_argument(
        "--target", help="such as cuda, or an LLVM target (default: the best for this processor)"
    )
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="where it goes (default: MODEL.so)"
    )
    parser.add_argument(
        "--report",
        type=Path,
        metavar="HTML",
        help="write a page on the result as well: contestants, schedule, stages, lanes, tuning",
    )
    parser.add_argument(
        "--lanes", type=int, help="threads (default: the cores there are), or streams of a GPU (8)"
    )
    parser.add_argument(
        "--database", type=Path, metavar="FILE", help="profile database (default: in the cache)"
    )
    parser.add_argument(
        "--decisions",
        type=Path,
        action="append",
        metavar="FILE",
        help="decisions of another tuning, which race against what is found here: a compiled model "
        "(.so), or what tvm-ios decisions export wrote (.json); may be given several times",
    )
    parser.add_argument(
        "--fresh",
        action="store_true",
        default=None,
        help="measure all anew, in place of a kept result and of what the profile database knows",
    )
    parser.add_argument(
        "--effort",
        choices=[each.value for each in Effort],
        help="time to look for a fast model: seconds, a minute or two, or up to an hour with tuned "
        "kernels; files and other flags go over what it sets "
        f"(default: {Effort.BALANCED.value})",
    )
    parser.add_argument(
        "--precision",
        dest="dtype",
        choices=PRECISIONS,
        help="bfloat16 computes in it what is faster so, on processors that have it (default: "
        f"{DEFAULTS.precision.dtype})",
    )
    parser.add_argument(
        "--max-relative-error",
        type=float,
        metavar="E",
        help="largest difference of an output from float32, by its largest value (default: "
        f"{DEFAULTS.precision.max_relative_error})",
    )
    parser.add_argument(
        "-i",
        "--inputs",
        type=Path,
        metavar="FILE",
        help="check that error on these inputs: arrays by name, as numpy.savez writes them "
        "(default: made-up ones)",
    )
    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help="options in a file, such as configs/tuned.toml; flags go over them",
    )
    parser.add_argument(
        "--rest",
        choices=RESTS,
        help="what becomes of nodes at the end of an ONNX file that cannot be compiled (default: "
        f"{DEFAULTS.build.rest}, where it is installed)",
    )
    _add_search_options(parser.add_argument_group("search of a schedule"))
    _add_tuning_options(parser.add_argument_group("tuning of kernels"))


@told_interrupts()
def run(arguments: argparse.Namespace) -> int:
    """Tune, write the file, print the result; return 0."""
    dialect = take_dialect(arguments.dialect)
    if dialect == RELAX:
        _require_no_relay_flag(arguments)
    config = _config(arguments)
    if dialect == RELAX:
        relax_options(config.options)
    budget = _budget(arguments, config)
    models = _models(arguments)
    title = "_".join(models) if len(models) > 1 else Path(*models.values()).stem
    output = arguments.output or Path(f"{title}.so")
    _require_writable(output, "--output")
    if arguments.report is not None:
        _require_writable(arguments.report, "--report")
        require_templates()
    read_given(arguments.decisions)
    shapes = _shapes(arguments, models)
    line = KeptCommand.of(arguments, config, models, shapes)
    kept = line.find()
    if kept is None:
        compiled = _tuned(arguments, config, models, shapes, output, budget, dialect)
        linked = KeptResults().file_of(compiled.kept_as)
        if linked is None:
            compiled.export_library(output)
        else:  # it was linked a moment ago
            copy_artifact(linked, output)
        line.keep(compiled.kept_as)
        report = compiled.report()
    else:
        copy_artifact(kept.path, output)
        report = kept.result.report
        print(f"{kept.result.as_text()}; its report:")
    if arguments.verbose:
        print(report.as_text())
        print(report.schedules_text())
    else:
        print(report.summary())
    print(f"wrote {output}")
    if arguments.report is not None:
        command = shlex.join(["tvm-ios", *sys.argv[1:]])
        for page in write_pages(report.pages(title=title, command=command), arguments.report):
            print(f"wrote {page}")
    file = shlex.quote(str(output))
    print(f"next: tvm-ios run {file}, or tvm-ios show {file} for the schedule and the full report")
    return 0


def _budget(arguments: argparse.Namespace, config: TuneConfig) -> TimeBudget:
    """Time of the call, counted from the start of the process, or of ``main`` inside of another."""
    began_s = arguments.began_s
    spent_s = process_age_s() if began_s is None else time.monotonic() - began_s
    return TimeBudget(config.time_budget, spent_s=spent_s)


def _tuned(
    arguments: argparse.Namespace,
    config: TuneConfig,
    models: Mapping[str, str],
    shapes: Sequence[InputShapes],
    output: Path,
    budget: TimeBudget,
    dialect: str,
) -> CompiledModel | CompiledShapes:
    """Tuned model of a command line; models so far lie in its output meanwhile."""
    files, told, inputs = [], False, None
    if arguments.inputs is not None:
        # Loads NumPy, which other verbs and equal calls do without.
        from tvm_ios.driver.run_inputs import read_arrays  # noqa: PLC0415

        inputs = read_arrays(arguments.inputs)
    first, *others = models.values()
    if not others and is_onnx_path(first):  # what is wrong with it is told before TVM is loaded
        rest = config.options.build.rest
        files = [OnnxFile.open(first, each, params=arguments.params, rest=rest) for each in shapes]
        told = all(tell_onnx_ceiling(each, arguments, config.options) for each in files)
    # As above.
    from tvm_ios.driver.code_ahead import compile_code_ahead  # noqa: PLC0415

    compile_code_ahead((arguments.target or "llvm").split()[0])
    lanes = None if config.options.device.is_remote else arguments.lanes
    prepare_process(lanes, relay=dialect == RELAY)
    # TVM comes in here, and only for this verb.
    from tvm_ios.driver.model_source import ModelSource  # noqa: PLC0415
    from tvm_ios.driver.several import joined  # noqa: PLC0415
    from tvm_ios.driver.tune import tune  # noqa: PLC0415

    if others:
        network = joined(models, share=arguments.share, shapes=shapes[0])
        sources = [ModelSource(name="", mod=network, params={})]
    else:
        sources = [ModelSource.of_onnx(each) for each in files] or [
            ModelSource.of(first, arguments.params, each) for each in shapes
        ]
    if arguments.report is not None:
        from tvm_ios.driver.races.beside_stock import (  # noqa: PLC0415 - as above
            tune_beside_stock as tune,
        )
    with (
        nullcontext() if told else shown_ceiling(),
        StderrProgress() as shown,
        (early := EarlyFile(output, shown, budget)).left_behind(),
    ):
        given = config.arguments() | {
            "lanes": arguments.lanes,
            "database": arguments.database,
            "tuning_records": arguments.tuning_records,
            "decisions": arguments.decisions,
            "inputs": inputs,
            "progress": early,
            "time_budget": budget,
        }
        if len(sources) > 1:
            from tvm_ios.driver.shapes import tuned_shapes  # noqa: PLC0415 - as above

            return tuned_shapes(sources, arguments.target, tune_one=tune, **given)
        return tune(sources[0].mod, sources[0].params, arguments.target, **given)


def _add_search_options(group: Any) -> None:
    _add_switch(
        group,
        "--list-only",
        "whether to price single operators alone and make a list of them, with no stages",
        default=DEFAULTS.search.list_only,
    )
    group.add_argument(
        "--max-group-size",
        type=int,
        metavar="R",
        help="most units in a group, the paper's r; 0 means no limit "
        f"(default: {DEFAULTS.search.max_group_size})",
    )
    group.add_argument(
        "--max-num-groups",
        type=int,
        metavar="S",
        help="most groups in a stage, the paper's s; 0 means no limit "
        f"(default: {DEFAULTS.search.max_num_groups})",
    )
    group.add_argument(
        "--deadline",
        dest="deadlines_ms",
        type=_deadline,
        action="append",
        metavar="PART=MS",
        help="milliseconds from the start of a run until which a part of several models is to be "
        "done; may be given several times",
    )
    group.add_argument(
        "--memory-limit-mb",
        type=float,
        metavar="MB",
        help="most megabytes of activations that a schedule may plan (default: no limit)",
    )
    group.add_argument(
        "--time-budget",
        type=float,
        metavar="SECONDS",
        help="end the whole call then (default: never)",
    )
    group.add_argument(
        "--wait-quiet",
        dest="wait_quiet_s",
        type=float,
        metavar="SECONDS",
        help="wait so long, before measuring, until nobody else uses the cores (default: "
        f"{DEFAULTS.measure.wait_quiet_s:g})",
    )
    _add_switch(
        group,
        "--pad-channels",
        "whether to try channels and units padded to whole vectors",
        default=DEFAULTS.build.pad_channels,
    )
    _add_switch(
        group,
        "--race-forms",
        "whether to build the model in further forms that only a race can judge",
        default=DEFAULTS.build.race_forms,
    )
    _add_switch(
        group,
        "--all-kernels",
        "whether to compile kernels that cannot beat an operator library as well; stock TVM runs a "
        "file with all kernels only",
        default=DEFAULTS.build.all_kernels,
    )
    _add_switch(
        group,
        "--pad-merged-kernels",
        "whether convolutions of different kernel sizes may merge; padded with zeros, the smaller "
        "ones make NaN of an inf",
        default=DEFAULTS.search.pad_merged_kernels,
    )
    group.add_argument(
        "--libraries",
        type=_library_names,
        metavar="NAMES",
        help="operator libraries that may compute where they are faster: onednn on a CPU, cudnn on "
        "a GPU, or none (default: what is installed)",
    )
    _add_switch(
        group,
        "--tf32",
        "whether cuDNN may round float32 to TF32",
        default=DEFAULTS.build.tf32,
    )
    _add_switch(
        group,
        "--exact",
        "whether results are to have the bits of stock TVM: no faster exp, erf and the like, no "
        "other order of sums, no operator library",
        default=DEFAULTS.build.exact,
    )
    group.add_argument(
        "--desired-layout",
        choices=LAYOUTS,
        help="change the layout of convolutions (default: as in the model; on a CPU, NCHW where "
        "that is faster)",
    )
    _add_switch(
        group,
        "--mixed-precision",
        "whether to compute convolutions and products in float16",
        default=DEFAULTS.conversion.mixed_precision,
    )
    group.add_argument(
        "--mixed-precision-acc-type",
        choices=ACCUMULATORS,
        help=f"what they sum up in (default: {DEFAULTS.conversion.mixed_precision_acc_type})",
    )


def _library_names(text: str) -> tuple[str, ...]:
    """Names in the value of ``--libraries``, which stand between commas."""
    return () if text == "none" else tuple(text.split(","))


def _deadline(text: str) -> tuple[str, float]:
    """Part and milliseconds in a value of ``--deadline``."""
    part, _, deadline_ms = text.partition("=")
    try:
        return part, float(deadline_ms)
    except ValueError as error:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no part and its milliseconds; give them as in detector=5"
        ) from error


def _add_switch(group: Any, flag: str, question: str, *, default: bool) -> None:
    """Declare a flag and its ``--no-`` twin; None if neither is given, so that a file may say."""
    told = f"{question} (default: {'yes' if default else 'no'})"
    group.add_argument(flag, action=argparse.BooleanOptionalAction, default=None, help=told)


def _add_tuning_options(group: Any) -> None:
    group.add_argument(
        "--tuning",
        choices=BACKEND_NAMES,
        help="what tunes the kernels (default: none; autotvm with --effort thorough)",
    )
    group.add_argument(
        "--tuning-records",
        "--records",
        type=Path,
        nargs="+",
        action="extend",
        metavar="FILE",
        help="logs of AutoTVM or auto_scheduler: what they hold is used, and the first one gets "
        "what is measured (default: a log in the cache); in Relax, folders of MetaSchedule",
    )
    group.add_argument(
        "--trials",
        type=int,
        help="candidates: of each task with autotvm, in all with auto_scheduler",
    )
    group.add_argument(
        "--early-stopping", type=int, metavar="N", help="stop after N without a better one"
    )
    group.add_argument(
        "--tuning-time-budget",
        dest="time_budget_s",
        type=float,
        metavar="SECONDS",
        help="end tuning then",
    )
    group.add_argument(
        "--timeout",
        dest="timeout_s",
        type=float,
        metavar="SECONDS",
        help="for one candidate, to compile and to run",
    )
    group.add_argument("--number", type=int, help="runs that a measurement averages")
    group.add_argument("--repeat", type=int, help="measurements of a candidate")
    group.add_argument("--min-repeat-ms", type=int, metavar="MS", help="least of a measurement")
    group.add_argument(
        "--tuner", choices=(*TUNERS, "gridsearch"), help="AutoTVM's (default: layout)"
    )
    group.add_argument(
        "--rpc-tracker",
        metavar="HOST:PORT",
        help="measure on a device of this tracker: kernels, stages and schedules",
    )
    group.add_argument("--rpc-key", "--key", metavar="KEY", help="the key of the device")


def _models(arguments: argparse.Namespace) -> dict[str, str]:
    """Models by the name of their part: that before ``=``, or else that of the file."""
    told = [_NAMED.fullmatch(each) for each in arguments.models]
    plain = [each for each, name in zip(arguments.models, told, strict=True) if name is None]
    of_file = iter(named_models(plain).items())
    pairs = [next(of_file) if each is None else (each[1], each[2]) for each in told]
    if len(pairs) > 1:
        require_part_names([name for name, _ in pairs])
        if arguments.params is not None:
            raise OptionError(
                "--params is for a single Relay file; leave it out, and give several models as "
                "ONNX files, or join Relay modules with tvm_ios.tune in Python"
            )
    elif told[0] or arguments.share:
        raise OptionError(
            "names of parts and --share are for several models, and there is one; leave them out, "
            "or name more models"
        )
    return dict(pairs)


def _shapes(arguments: argparse.Namespace, models: Mapping[str, str]) -> list[InputShapes]:
    """Shapes that a single model is wanted in; of several models, those of them all."""
    texts = arguments.input_shapes or [None]
    if len(texts) > 1 and len(models) > 1:
        raise OptionError(
            f"--input-shapes is given {len(texts)} times, which is for a single model in several "
            f"shapes, and there are {len(models)} models; name all inputs of theirs in one"
        )
    return [InputShapes.parse(each, arguments.batch_size) for each in texts]


def _config(arguments: argparse.Namespace) -> TuneConfig:
    """Configuration of the file, with the given flags over it."""
    config = (
        TuneConfig.of_tables({}, arguments.effort)
        if arguments.config is None
        else TuneConfig.load(arguments.config, arguments.effort)
    )
    backend = config.options.kernels.backend_for(arguments.tuning)
    kernels = _given(arguments, TUNING_FLAGS)
    if kernels and backend is None:
        flags = ", ".join(TUNING_FLAGS[name] for name in kernels)
        raise OptionError(
            f"{flags} given, but no kernels are tuned; give --tuning autotvm or "
            "--tuning auto_scheduler as well"
        )
    if "tuner" in kernels and backend == "auto_scheduler":
        raise OptionError(
            "--tuner is for AutoTVM, and auto_scheduler has its own; leave it out, or give "
            "--tuning autotvm"
        )
    if kernels.get("tuner") == "gridsearch":  # tvmc's name for it
        kernels["tuner"] = "grid"
    if "timeout_s" in kernels:
        kernels["build_timeout_s"] = kernels["timeout_s"]
    given = {noun: _given(arguments, names) for noun, names in FLAGS.items()}
    if "deadlines_ms" in given["search"]:
        given["search"]["deadlines_ms"] = dict(given["search"]["deadlines_ms"])
    given["kernels"] = kernels | {"backend": backend or BACKEND_NAMES[0]}
    return replace(
        config,
        options=config.options.changed(**given),
        **_given(arguments, ("time_budget",)),
    )


def _require_no_relay_flag(arguments: argparse.Namespace) -> None:
    """Refuse flags that Relax would ignore."""
    values = _given(arguments, RELAY_FLAGS)
    require_nothing_of_relay(
        {
            RELAY_FLAGS[name] + ("" if value is True else f" {value}"): (
                value not in (False, BACKEND_NAMES[0]),
                "" if name.startswith("pad_") else NO_TUNER,
            )
            for name, value in values.items()
        }
    )


def _given(arguments: argparse.Namespace, names: Iterable[str]) -> dict[str, Any]:
    """Options by name that stand on the command line."""
    values = {name: getattr(arguments, name) for name in names}
    return {name: value for name, value in values.items() if value is not None}


def _require_writable(output: Path, flag: str) -> None:
    """Refuse an output that cannot be written before hours of work, not after."""
    folder = output.parent
    if output.is_dir() or not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        raise ArtifactError(
            f"cannot write {output}: give {flag} a file in a folder that is there and writable"
        )
