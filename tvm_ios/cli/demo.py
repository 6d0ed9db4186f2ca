"""``tvm-ios demo``: tunes two networks on this machine and shows what that brings."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from tvm_ios.host import default_lanes, require_relay_tvm

if TYPE_CHECKING:
    from tvm_ios.cli.main import Subparsers

__all__ = ["add_parser", "run"]

NETWORKS = ("squeezenet", "randwire_small")


def add_parser(subparsers: Subparsers) -> None:
    """Describe the verb."""
    parser = subparsers.add_parser(
        "demo",
        description="Tune networks on this machine, compare with stock TVM, and write a trace "
        "and a picture of each schedule.",
    )
    parser.add_argument(
        "--networks",
        nargs="+",
        metavar="NAME",
        default=list(NETWORKS),
        help="networks of tvm_ios.models (default: %(default)s)",
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("out"),
        metavar="FOLDER",
        help="where traces, pictures and schedules go (default: %(default)s)",
    )
    parser.add_argument(
        "--database", type=Path, metavar="FILE", help="profile database (default: in the cache)"
    )
    parser.add_argument("--lanes", type=int, help="threads (default: the cores there are)")


def run(arguments: argparse.Namespace) -> int:
    """Run the demo; 0 when all is done."""
    lanes = default_lanes() if arguments.lanes is None else arguments.lanes
    # TVM makes its thread pool once, with half of the cores unless it is told otherwise.
    os.environ.setdefault("TVM_NUM_THREADS", str(lanes))
    require_relay_tvm()
    # Everything that imports TVM comes after that, and only for this verb.
    from tvm_ios.demonstration import demonstrate  # noqa: PLC0415

    demonstrate(
        arguments.networks, lanes=lanes, folder=arguments.output, database=arguments.database
    )
    return 0
