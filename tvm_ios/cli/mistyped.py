"""Verbs, choices and flags that argparse does not know: which one was meant."""

from __future__ import annotations

import argparse
import re

from tvm_ios.support.near_name import did_you_mean
from tvm_ios.support.printable import printable

__all__ = ["explained"]

_CHOICE = re.compile(r"invalid choice: '(.*)' \(choose from (.*)\)")
_FLAG = re.compile(r"unrecognized arguments: .*?(--?[\w-]+)")


def explained(parser: argparse.ArgumentParser, message: str) -> str:
    """A message of this parser, printable, which ends with the known word that is near, if any."""
    return printable(f"{message}{_question(parser, message)}")


def _question(parser: argparse.ArgumentParser, message: str) -> str:
    if choice := _CHOICE.search(message):
        return did_you_mean(choice[1], re.findall(r"[\w.-]+", choice[2]))
    if flag := _FLAG.search(message):
        return did_you_mean(flag[1], _flags(parser))
    return ""


def _flags(parser: argparse.ArgumentParser) -> set[str]:
    """The flags of a parser and of its verbs."""
    found = set(parser._option_string_actions)  # noqa: SLF001 - argparse does not tell
    for action in parser._actions:  # noqa: SLF001
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            found.update(*(_flags(each) for each in action.choices.values()))
    return found
