"""``tvm-ios demo``: tunes two networks on this machine and shows what that brings."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from tvm_ios.cli.interrupts import told_interrupts
from tvm_ios.cli.measuring import add_measuring_options, prepare_process

if TYPE_CHECKING:
    from tvm_ios.cli.main import Subparsers

__all__ = ["add_parser", "run"]

NETWORKS = ("squeezenet", "randwire_small")


def add_parser(subparsers: Subparsers) -> None:
    """Describe the verb."""
    parser = subparsers.add_parser(
        "demo",
        description="Tune networks on this machine, race them against stock TVM, and write a trace "
        "and a picture of each schedule.",
    )
    add_measuring_options(parser, NETWORKS)
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("out"),
        metavar="FOLDER",
        help="where traces, pictures, schedules and records go (default: %(default)s)",
    )
    parser.add_argument(
        "--tuned",
        action="store_true",
        help="tune the kernels too, with AutoTVM; stock TVM keeps untuned ones; about ten "
        "minutes on two cores, and less when called again",
    )


@told_interrupts()
def run(arguments: argparse.Namespace) -> int:
    """Run the demo; 0 when all is done."""
    lanes = prepare_process(arguments.lanes)
    # Everything that imports TVM comes after that, and only for this verb.
    from tvm_ios.driver.races.demonstration import demonstrate  # noqa: PLC0415

    demonstrate(
        arguments.networks,
        lanes=lanes,
        folder=arguments.output,
        database=arguments.database,
        tuned=arguments.tuned,
    )
    return 0
