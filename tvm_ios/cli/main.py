# PYTHON_ARGCOMPLETE_OK
"""The command ``tvm-ios``: finds the verb, imports only that verb's module, and runs it.

A verb is a module of this package with ``add_parser(subparsers)`` and ``run(arguments)``, which
returns the exit status. Exit status: 0 done, 1 the answer is no, 2 wrong use or an error of ours,
130 interrupted.
"""

from __future__ import annotations

import argparse
import atexit
import errno
import gc
import importlib
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, TypeAlias

from tvm_ios.errors import OptionError, TvmIosError

__all__ = ["VERBS", "Subparsers", "Verb", "main"]

# argparse has no public name for what add_subparsers returns.
Subparsers: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"  # noqa: SLF001


@dataclass(frozen=True, slots=True, kw_only=True)
class Verb:
    """A verb: its name, a line of help, and the module that does it."""

    name: str
    summary: str
    module: str = ""
    """Module with the verb; of this package, and named after it, where empty."""


VERBS = (
    Verb(name="c-api", summary="say how to build C programs that run models"),
    Verb(name="ceiling", summary="say what scheduling can gain for a model"),
    Verb(name="compare", summary="time two compiled models in one race"),
    Verb(name="decisions", summary="take what tuning decided to another machine"),
    Verb(name="demo", summary="tune two networks here and compare with stock TVM"),
    Verb(name="doctor", summary="say what is here and how to mend what is missing"),
    Verb(name="grid", summary="tune with all combinations of values, and a table"),
    Verb(name="install-tvm", summary="install a TVM with Relay"),
    Verb(name="jobs", summary="tune many models on shared cores and devices"),
    Verb(name="records", summary="show, pick, merge and check tuning records"),
    Verb(name="run", summary="run a compiled model: times, profile, trace"),
    Verb(name="show", summary="say what a compiled model is, and draw its schedule"),
    Verb(name="tune", summary="tune and schedule a model into one file"),
)
LAB_VERBS = (
    Verb(name="bench", summary="measure networks into files and a table (tvm-ios-lab)"),
    Verb(name="experiment", summary="run the experiments of the IOS paper (tvm-ios-lab)"),
    Verb(name="solve", summary="solve a recorded problem without a device (tvm-ios-lab)"),
)
"""Verbs that tvm-ios-lab, which a checkout has and the wheel has not, registers as entry points."""
NEW_OBJECTS = 50_000
"""Objects between two searches for cycles, which took 7 % of preparing a network."""
EXIT_ERROR = 2
# Shells say 128 and the signal's number: SIGINT here, SIGPIPE below.
EXIT_INTERRUPTED = 130
INTERRUPTED = "tvm-ios: interrupted"
EXIT_BROKEN_PIPE = 141


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    began_s = time.monotonic()
    if argv is None:
        # Python looks for cycles at every 700 new objects, and once more at the end of a process.
        # TVM's modules are 100,000 objects, and none is garbage.
        gc.set_threshold(NEW_OBJECTS)
        atexit.register(gc.freeze)
    if "_ARGCOMPLETE" in os.environ:  # a shell asks what may be typed
        from tvm_ios.cli.completion import complete, typed_words  # noqa: PLC0415

        verb = _chosen_verb(typed_words())
        complete(_parser(verb), verb)
    words = list(sys.argv[1:] if argv is None else argv)
    debug = False
    try:
        parser = _parser(_chosen_verb(words))
        arguments = parser.parse_args(words)
        arguments.began_s = began_s if argv is not None else None
        debug = arguments.debug
        from tvm_ios.support.messages import Verbosity, shown_messages  # noqa: PLC0415

        with shown_messages(Verbosity(quiet=arguments.quiet, verbose=arguments.verbose)):
            status = int(arguments.run(arguments))
        sys.stdout.flush()  # a reader that went away shows here, not at interpreter exit
    except TvmIosError as error:
        if debug:
            raise
        _tell(f"tvm-ios: error: {error}", *_notes(error))
        return EXIT_ERROR
    except KeyboardInterrupt as interrupt:
        if debug:
            raise
        _tell(INTERRUPTED, *_notes(interrupt))
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # Python flushes standard output again at its end, and would fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return EXIT_BROKEN_PIPE
    except OSError as error:
        if debug or error.errno != errno.ENAMETOOLONG:  # Path.exists() and its like raise it
            raise
        _tell(f"tvm-ios: error: {error.filename}: {error.strerror}; give a shorter one")
        return EXIT_ERROR
    return status


def _tell(*lines: str) -> None:
    from tvm_ios.support.printable import printable  # noqa: PLC0415 - only errors need it

    print(*map(printable, lines), sep="\n  ", file=sys.stderr)


def _notes(error: BaseException) -> list[str]:
    """Notes that were added to an exception on its way, such as how to go on."""
    return list(getattr(error, "__notes__", []))


def _chosen_verb(words: Sequence[str]) -> str | None:
    """First word that is no option; the options before the verb take no values."""
    return next((word for word in words if not word.startswith("-")), None)


def _parser(chosen: str | None) -> argparse.ArgumentParser:
    parser = _Parser(
        prog="tvm-ios", description="IOS, the inter-operator scheduler, as a plugin for TVM."
    )
    parser.add_argument("--version", action=_VersionAction, nargs=0, help="print the version")
    _add_common(parser)
    parser.set_defaults(debug=False, quiet=False, verbose=0)
    subparsers = parser.add_subparsers(
        title="verbs", metavar="VERB", required=True, parser_class=_Parser
    )
    for verb in (*VERBS, *_registered(chosen)):
        if verb.name != chosen:
            subparsers.add_parser(verb.name, help=verb.summary)
            continue
        module = importlib.import_module(
            verb.module or f"tvm_ios.cli.{verb.name.replace('-', '_')}"
        )
        module.add_parser(subparsers)
        chosen_parser = subparsers.choices[verb.name]
        chosen_parser.set_defaults(run=module.run)
        _add_common(chosen_parser)
    return parser


def _registered(chosen: str | None) -> tuple[Verb, ...]:
    """Verbs of other distributions; installed ones are looked up only if one of them is chosen."""
    if chosen is None or chosen in {verb.name for verb in VERBS}:
        return LAB_VERBS
    from importlib.metadata import entry_points  # noqa: PLC0415 - reads all that is installed

    found = [
        Verb(name=each.name, summary="", module=each.module)
        for each in entry_points(group="tvm_ios.verbs")
    ]
    names = {verb.name for verb in found}
    if chosen not in names and chosen in {verb.name for verb in LAB_VERBS}:
        raise OptionError(
            f"{chosen} is a verb of tvm-ios-lab, which lies in the folder lab of a checkout of "
            "tvm-ios; run pip install -e ./lab there"
        )
    return (*found, *(verb for verb in LAB_VERBS if verb.name not in names))


def _add_common(parser: argparse.ArgumentParser) -> None:
    """Declare the options of every verb: before it, after it, and after a verb of its own."""
    # A default of a later parser would go over what was said before it.
    unsaid = argparse.SUPPRESS
    parser.add_argument(
        "--debug", action="store_true", default=unsaid, help="show the traceback of an error"
    )
    parser.add_argument(
        "-q", "--quiet", action="store_true", default=unsaid, help="show only results and errors"
    )
    parser.add_argument(
        "-v",
        "--verbose",
        action="count",
        default=unsaid,
        help="say what was decided and why; twice: everything, with all commands that are run",
    )
    for action in parser._actions:  # noqa: SLF001 - argparse does not tell of a parser's verbs
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            for each in action.choices.values():
                _add_common(each)


class _Parser(argparse.ArgumentParser):
    """A parser whose errors ask whether a known word was meant."""

    def error(self, message: str) -> NoReturn:
        from tvm_ios.cli.mistyped import explained  # noqa: PLC0415 - only errors need it

        super().error(explained(self, message))


class _VersionAction(argparse.Action):
    """Action that reads the version only when asked for."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        from tvm_ios.host.machine import package_version  # noqa: PLC0415 - only this needs it

        print(f"tvm-ios {package_version()}")
        parser.exit()
