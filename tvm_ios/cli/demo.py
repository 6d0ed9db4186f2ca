"""``tvm-ios demo``: tunes a network that gains by scheduling and one that cannot, and shows why."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from tvm_ios.cli.interrupts import told_interrupts
from tvm_ios.cli.measuring import (
    RELAY,
    add_dialect,
    add_measuring_options,
    prepare_process,
    take_dialect,
)
from tvm_ios.driver.effort import Effort

if TYPE_CHECKING:
    from tvm_ios.cli.main import Subparsers

__all__ = ["add_parser", "run"]

NETWORKS = ("nasnet_small", "mobilenet_v2")
"""A network of many small branches, and a chain."""


def add_parser(subparsers: Subparsers) -> None:
    """Describe the verb."""
    parser = subparsers.add_parser(
        "demo",
        description="Tune networks on this machine, race them against stock TVM and what else is "
        "installed, say why they gain or not, and draw their runs.",
    )
    add_measuring_options(parser, NETWORKS)
    add_dialect(parser)
    parser.add_argument(
        "--effort",
        choices=[each.value for each in Effort],
        default=Effort.QUICK.value,
        help="time to look for a fast model, as of tune (default: %(default)s)",
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("out"),
        metavar="FOLDER",
        help="where traces, pictures and schedules go (default: %(default)s)",
    )


@told_interrupts()
def run(arguments: argparse.Namespace) -> int:
    """Run the demo; 0 when all is done."""
    dialect = take_dialect(arguments.dialect)
    lanes = prepare_process(arguments.lanes, relay=dialect == RELAY)
    # Everything that imports TVM comes after that, and only for this verb.
    from tvm_ios.driver.races.demonstration import demonstrate  # noqa: PLC0415

    demonstrate(
        arguments.networks,
        lanes=lanes,
        folder=arguments.output,
        database=arguments.database,
        effort=arguments.effort,
    )
    return 0
