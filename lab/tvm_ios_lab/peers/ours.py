"""Build networks as we run them, for ``measure``; runs in the project's environment, which has TVM.

Each set of kernels is one ``tune``: its options are a TOML file, as ``tvm-ios tune`` reads it.
Sequential order, greedy and IOS on these kernels are exported, whichever ``tune`` would keep.

::

    python -m tvm_ios_lab.peers.ours --kernels untuned tuned=FILE [--networks NAME[:BATCH] ...]
    python -m tvm_ios_lab.peers.ours --kernels relax --dialect relax
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from tvm_ios.cli.measuring import RELAY, add_dialect, prepare_process, take_dialect
from tvm_ios.driver.config import TuneConfig
from tvm_ios.errors import TvmIosError
from tvm_ios.host.machine import version_facts
from tvm_ios.report.contestants import Contestant
from tvm_ios.support.terminal import StderrProgress
from tvm_ios.support.time_budget import TimeBudget
from tvm_ios_lab.measurement import program_command
from tvm_ios_lab.peers.build import Build, Kernels, forget_kernels, kernels_of, write_kernels
from tvm_ios_lab.peers.errors import PeerError
from tvm_ios_lab.peers.network import Network, read_case, shared_inputs
from tvm_ios_lab.peers.subject import Subject, add_subject_options, member_folders

__all__ = ["Recipe", "build_kernels", "main"]

TABLED = (Contestant.SEQUENTIAL, Contestant.GREEDY, Contestant.IOS)
"""Contestants that are exported, whichever is kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """Recipe of a set of kernels."""

    name: str
    config: TuneConfig
    text: str
    """Text of the file with options; empty for the defaults."""
    log: Path | None = None
    """Tuning records that are used though nothing is tuned."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``NAME``, ``NAME=FILE`` or ``NAME=FILE+LOG``, as a command line has it."""
        name, _, path = text.partition("=")
        path, _, log = path.partition("+")
        if not name.replace("_", "").isalnum():
            raise PeerError(f"{name!r} cannot name kernels; use letters, digits and underscores")
        if not path:
            return cls(name=name, config=TuneConfig(), text="")
        return cls(
            name=name,
            config=TuneConfig.load(path),
            text=Path(path).read_text(),
            log=Path(log) if log else None,
        )


def build_kernels(
    subject: Subject, recipe: Recipe, folder: Path, *, lanes: int, records: Path
) -> Kernels:
    """Tune a network and export every schedule that was raced.

    Parameters
    ----------
    subject
        Network to build.
    recipe
        Recipe of the kernels.
    folder
        Folder of the network; what was there of these kernels is replaced.
    lanes
        Threads that run it.
    records
        A folder of tuning logs, read and written: ``NETWORK.BACKEND.log``, for larger batches
        ``NETWORK_bsBATCH.BACKEND.log``.
    """
    # TVM comes in here, after the process was prepared for it.
    from tvm_ios.driver.tune import TuneCall, tune_race  # noqa: PLC0415

    begin = time.perf_counter()
    mod, params = _model(subject, folder)
    given = recipe.config.arguments()
    given["time_budget"] = TimeBudget.of(given["time_budget"])
    if recipe.log is not None:
        given["tuning_records"] = recipe.log
    if recipe.config.tuning is not None:
        records.mkdir(parents=True, exist_ok=True)
        stem = subject.network if subject.batch_size == 1 else subject.stem
        given["tuning_records"] = records / f"{stem}.{recipe.config.tuning}.log"
    with StderrProgress() as progress:
        raced = tune_race(TuneCall(mod=mod, params=params, lanes=lanes, progress=progress, **given))
    report = raced.kept.report()
    builds = []
    for who, model in raced.models.items():
        kept = who is report.kept
        if who not in TABLED and not kept:
            continue
        build = Build(
            kernels=recipe.name,
            schedule=who.value,
            lanes=lanes,
            kept=kept,
            precision=recipe.config.options.precision.dtype,
        )
        build.path(folder).parent.mkdir(parents=True, exist_ok=True)
        model.export_library(build.path(folder))
        builds.append(build)
    kernels = Kernels(
        name=recipe.name,
        builds=tuple(builds),
        configuration=recipe.text,
        target=str(raced.kept.kernels.target),
        command=program_command("tvm_ios_lab.peers.ours"),
        versions=tuple(_versions().items()),
        seconds=round(time.perf_counter() - begin, 1),
        report=report.as_text(),
    )
    write_kernels(kernels, folder)
    return kernels


def main(arguments: Sequence[str] | None = None) -> int:
    """Build kernels of networks; 0 when all are there. One that fails does not stop the others."""
    options = _parser().parse_args(arguments)
    failed = False
    try:
        recipes = [Recipe.parse(text) for text in options.kernels]
        dialect = take_dialect(options.dialect)
        lanes = prepare_process(options.lanes, relay=dialect == RELAY)
    except (OSError, TvmIosError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    for subject in options.networks:
        folder = options.folder / subject.stem
        for recipe in recipes:
            try:
                if not options.again and _is_done(recipe, folder, lanes):
                    print(f"{subject.stem}, {recipe.name}: built before", flush=True)
                    continue
                forget_kernels(recipe.name, folder)  # they raced, too, should the new ones fail
                built = build_kernels(subject, recipe, folder, lanes=lanes, records=options.records)
            except (OSError, TvmIosError) as error:
                print(f"error: {subject.stem}, {recipe.name}: {error}", file=sys.stderr)
                failed = True
                continue
            names = ", ".join(build.name + " (kept)" * build.kept for build in built.builds)
            print(f"{subject.stem}: {names}; {built.seconds:.0f} s", flush=True)
    return int(failed)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tvm_ios_lab.peers.ours",
        description="Tune networks and export sequential order, greedy and IOS, for measure.",
    )
    add_subject_options(parser)
    add_dialect(parser)
    parser.add_argument(
        "--kernels",
        nargs="+",
        default=["untuned"],
        metavar="NAME[=FILE[+LOG]]",
        help="sets of kernels, each with its options as `tvm-ios tune --config` reads them, and "
        "with the records of a log where nothing is to be tuned (untuned, with the defaults)",
    )
    parser.add_argument(
        "--records",
        type=Path,
        default=Path("lab/records"),
        metavar="FOLDER",
        help="where tuning logs are read and written (%(default)s)",
    )
    parser.add_argument("--lanes", type=int, help="threads (the cores there are)")
    parser.add_argument("--again", action="store_true", help="build what was built before, too")
    return parser


def _model(subject: Subject, folder: Path) -> tuple[Any, Mapping[str, Any]]:
    """A network of ours, that of the ONNX file in its folder, or one of several such."""
    from tvm_ios.driver.model_source import from_onnx  # noqa: PLC0415 - brings TVM in
    from tvm_ios.driver.several import joined  # noqa: PLC0415
    from tvm_ios.models import by_name  # noqa: PLC0415

    if len(subject.members) > 1:
        folders = member_folders(folder)
        pairs = zip(subject.members, folders, strict=True)
        models = {member.network: _model(member, place) for member, place in pairs}
        return joined(models, share=shared_inputs([read_case(place) for place in folders])), {}
    path = folder / "network.json"
    if path.exists() and not Network.from_json(path.read_text()).is_described:
        mod, params = from_onnx(folder / "network.onnx")
        return mod, params or {}
    found: tuple[Any, Mapping[str, Any]] = by_name(subject.network)(batch_size=subject.batch_size)
    return found


def _is_done(recipe: Recipe, folder: Path, lanes: int) -> bool:
    """Whether these very kernels are there: other options or lanes, other kernels."""
    try:
        found = kernels_of(folder)
    except PeerError:  # damaged ones are made anew
        return False
    return any(
        (kernels.name, kernels.configuration) == (recipe.name, recipe.text)
        and all(build.lanes == lanes for build in kernels.builds)
        for kernels in found
    )


def _versions() -> Mapping[str, str]:
    versions = version_facts()
    return {"tvm-ios python": versions.pop("python"), **versions}


if __name__ == "__main__":
    sys.exit(main())
