"""``tvm-ios decisions``: takes what a tuning decided to another machine, without TVM."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tvm_ios.errors import OptionError
from tvm_ios.runtime.artifact.decisions_file import read_decisions
from tvm_ios.support.whole_file import write_text

if TYPE_CHECKING:
    from tvm_ios.cli.main import Subparsers

__all__ = ["add_parser", "run"]


def add_parser(subparsers: Subparsers) -> None:
    """Declare the verb, its actions, and the options of each."""
    parser = subparsers.add_parser(
        "decisions",
        description="Take what a tuning decided (who computes each operator, layouts, schedule) to "
        "another machine. There tvm-ios tune --decisions races it against what it finds itself.",
    )
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    export = _add_action(actions, "export", _export, "write the decisions in a model to a file")
    export.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        help="where they go, a .json (default: MODEL.decisions.json)",
    )
    _add_action(actions, "show", _show, "print decisions")


def run(arguments: argparse.Namespace) -> int:
    """Run the chosen action; return its exit status."""
    status: int = arguments.action(arguments)
    return status


def _add_action(
    actions: Subparsers, name: str, action: Any, summary: str
) -> argparse.ArgumentParser:
    parser = actions.add_parser(name, help=summary, description=f"{summary.capitalize()}.")
    parser.add_argument(
        "file",
        type=Path,
        metavar="FILE",
        help="a compiled model (.so), decisions or a schedule (.json)",
    )
    parser.set_defaults(action=action)
    return parser


def _export(arguments: argparse.Namespace) -> int:
    decisions = read_decisions(arguments.file)
    output = arguments.output or Path(f"{arguments.file.stem}.decisions.json")
    if decisions.graph is None:
        raise OptionError(
            f"{arguments.file} is a schedule alone, which tune --decisions takes as it is; give "
            "the compiled model to export its decisions"
        )
    if output.suffix.lower() != ".json":
        raise OptionError(f"--output is {output}; give it the ending .json, by which it is read")
    write_text(output, decisions.to_json() + "\n")
    print(f"wrote {output}")
    print(f"next, on the other machine: tvm-ios tune MODEL --decisions {shlex.quote(str(output))}")
    return 0


def _show(arguments: argparse.Namespace) -> int:
    print(read_decisions(arguments.file).as_text())
    return 0
