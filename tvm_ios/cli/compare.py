"""``tvm-ios compare``: times two compiled models against each other in one interleaved race."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from tvm_ios.cli.measuring import RELAX, add_loading_options, prepare_process, take_dialect
from tvm_ios.driver.races.compiled_race import lanes_of_files, race_files
from tvm_ios.driver.races.file_process import is_of_relax
from tvm_ios.errors import OptionError
from tvm_ios.measure.compare import CompareOptions

if TYPE_CHECKING:
    from tvm_ios.cli.main import Subparsers

__all__ = ["add_parser", "run"]


def add_parser(subparsers: Subparsers) -> None:
    """Declare the verb's options."""
    parser = subparsers.add_parser(
        "compare",
        description="Time two compiled models against each other: in each round one sample of "
        "both, and the ratio of their times with its interval. Files of two TVMs take turns in "
        "processes of their own.",
    )
    parser.add_argument("first", type=Path, metavar="A", help="what tvm-ios tune wrote")
    parser.add_argument("second", type=Path, metavar="B", help="another one, for this machine")
    parser.add_argument(
        "--rounds",
        type=int,
        default=CompareOptions().rounds,
        help="rounds that count (default: %(default)s)",
    )
    parser.add_argument("--json", action="store_true", help="print the raw rounds as JSON")
    add_loading_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Race them and print the ratio; 0 when all is done."""
    first, second = arguments.first, arguments.second
    if first.resolve() == second.resolve():
        raise OptionError(f"{first} and {second} are one file; give two")
    options = CompareOptions(rounds=arguments.rounds)
    names = (str(first), str(second))
    files = dict(zip(names, (first, second), strict=True))
    lanes = lanes_of_files(files)
    of_relax = {is_of_relax(path) for path in files.values()}
    if of_relax == {True}:
        take_dialect(RELAX)
    if len(of_relax) == 1:  # else each has a process of its own, and this one needs no TVM
        prepare_process(lanes, relay=False)
    found = race_files(files, options, any_processor_model=arguments.any_processor_model)
    if arguments.json:
        print(json.dumps(found.as_record(), indent=1))
        return 0
    for name in names:
        print(f"{name}: median {found.median_ns(name) / 1e6:.4f} ms")
    print(found.speedup(names[0], over=names[1]).as_text())
    for note in found.notes:
        print(f"note: {note}")
    return 0
