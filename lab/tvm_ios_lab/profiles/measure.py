"""Profile networks that ``tvm_ios_lab.peers.export`` wrote, by one contestant after the other.

Each environment asks the profilers that it has: ours runs in the project's, the others in that of
the peers.

::

    python -m tvm_ios_lab.profiles.measure --who ours --networks unet
    FOLDER/bin/python -m tvm_ios_lab.profiles.measure --who openvino onnxruntime --networks unet
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tvm_ios.errors import TvmIosError
from tvm_ios_lab.measurement import program_command
from tvm_ios_lab.peers.network import read_case
from tvm_ios_lab.peers.subject import Subject, add_subject_options
from tvm_ios_lab.profiles.profile import Profile
from tvm_ios_lab.profiles.profilers import PROFILERS, Asked

__all__ = ["FOLDER", "main"]

FOLDER = Path("lab/results/profiles")
"""Folder of profiles unless another one is given."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Write profiles of networks; 0 when all are done. One that fails does not stop the others."""
    options = _parser().parse_args(arguments)
    if "ours" in options.who:
        # TVM makes its threads when it is imported.
        from tvm_ios.cli.measuring import prepare_process  # noqa: PLC0415

        prepare_process(options.threads)
    failed = False
    for subject in options.networks:
        for who in options.who:
            try:
                profile = _profile(subject, who, options)
                profile.write(options.output)
            except (OSError, ImportError, TvmIosError) as error:
                print(f"error: {subject.stem}, {who}: {error}", file=sys.stderr)
                failed = True
                continue
            total_us = sum(operator.us for operator in profile.operators)
            print(
                f"{subject.stem}, {profile.who}: {profile.run_us / 1e3:.3f} ms a run, "
                f"{total_us / 1e3:.3f} in {len(profile.operators)} operators",
                flush=True,
            )
            if any(each.alone_us is not None for each in profile.operators):
                print(profile.losses_text(), flush=True)
    return int(failed)


def _profile(subject: Subject, who: str, options: argparse.Namespace) -> Profile:
    folder = options.folder / subject.stem
    case = read_case(folder)
    if who != "ours":
        from tvm_ios_lab.peers.onnx_file import current_onnx  # noqa: PLC0415 - needs onnx

        current_onnx(case, folder)
    asked = Asked(
        subject=subject,
        case=case,
        folder=folder,
        threads=options.threads,
        runs=options.runs,
        build=options.build,
    )
    told = PROFILERS[who](asked)
    return Profile.here(
        program_command("tvm_ios_lab.profiles.measure"),
        network=subject.network,
        batch_size=subject.batch_size,
        who=options.name if who == "ours" else who,
        threads=options.threads,
        runs=options.runs,
        run_us=round(told.run_us, 3),
        reorder_us=round(told.reorder_us, 3),
        operators=told.operators,
        versions=dict([told.version]),
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tvm_ios_lab.profiles.measure",
        description="Write the time of every operator, as each contestant's profiler says it.",
    )
    add_subject_options(parser)
    add = parser.add_argument
    add("--who", nargs="+", choices=list(PROFILERS), default=["ours"], help="whose profiler")
    add("--build", default="", help="an exported build of ours, in place of one made here")
    add("--name", default="ours", help="what that build is called in the results (%(default)s)")
    add("--threads", type=int, default=1, help="of everybody (%(default)s)")
    add("--runs", type=int, default=40, help="of which the shortest counts (%(default)s)")
    add("--output", type=Path, default=FOLDER, metavar="FOLDER", help="gets the files")
    return parser


if __name__ == "__main__":
    sys.exit(main())
