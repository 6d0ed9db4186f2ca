"""Completion of typed words: verbs, options, networks, and files of a fitting kind.

A shell asks by running the command with ``_ARGCOMPLETE`` set, at every press of the key: nothing
here may load TVM.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import argcomplete
from argcomplete.completers import FilesCompleter, SuppressCompleter
from argcomplete.lexers import split_line

__all__ = ["LIBRARY", "MODELS", "NETWORKS", "complete", "networks_or_files", "typed_words"]

NETWORKS = (
    "bert_base",
    "dcgan",
    "densenet_121",
    "googlenet",
    "inception_v3",
    "mobilenet_v2",
    "mobilenet_v3_large",
    "nasnet_large",
    "nasnet_small",
    "nasnet_small_c44",
    "randwire",
    "randwire_small",
    "resnet3d_18",
    "resnet_50",
    "squeezenet",
    "unet",
)
"""Names in :mod:`tvm_ios.models`, whose own list cannot be read without TVM."""
MODELS = ("json", "relay", "txt", "onnx")
"""Suffixes of files with models."""
LIBRARY = ("so",)
TOML = ("toml",)
Completer = Callable[..., Any]


def typed_words() -> list[str]:
    """Words after the command and before the one that is being typed."""
    words: list[str] = split_line(os.environ["COMP_LINE"], int(os.environ["COMP_POINT"]))[3]
    # Its value counts the words that start the command, as `python -m tvm_ios` does.
    return words[int(os.environ["_ARGCOMPLETE"]) :]


def complete(parser: argparse.ArgumentParser, verb: str | None) -> NoReturn:
    """Answer the shell, and exit; the parser has the verb that was typed."""
    for each in _parsers(parser):
        for action in each._actions:  # noqa: SLF001 - argparse does not tell of its options
            completer = _completer(action, verb)
            if completer is not None:
                action.completer = completer  # type: ignore[attr-defined]
    argcomplete.autocomplete(parser, always_complete_options=False)
    raise AssertionError("argcomplete leaves by itself where it was asked")


def _parsers(parser: argparse.ArgumentParser) -> Sequence[argparse.ArgumentParser]:
    """A parser, and the parsers of its verbs."""
    found = [parser]
    for action in parser._actions:  # noqa: SLF001
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            found += [inner for each in action.choices.values() for inner in _parsers(each)]
    return found


def _completer(action: argparse.Action, verb: str | None) -> Completer | None:
    """Completer of an argument; None for the verb's own, or argcomplete's: choices, or any file."""
    if action.choices is not None or hasattr(action, "completer"):
        return None
    if action.type in (int, float):
        return SuppressCompleter()
    if action.dest == "networks":
        return _networks
    if action.dest in ("model", "models"):
        return networks_or_files(MODELS)
    suffixes = _SUFFIXES.get((verb, action.dest)) or _SUFFIXES.get((None, action.dest))
    return None if suffixes is None else FilesCompleter(suffixes)


_SUFFIXES: dict[tuple[str | None, str], tuple[str, ...]] = {
    (None, "config"): TOML,
    ("grid", "grid"): TOML,
    ("jobs", "file"): TOML,
    ("run", "file"): LIBRARY,
    ("show", "file"): (*LIBRARY, "json"),
    ("decisions", "file"): (*LIBRARY, "json"),
    ("tune", "decisions"): (*LIBRARY, "json"),
    ("compare", "first"): LIBRARY,
    ("compare", "second"): LIBRARY,
}
"""Suffixes of the files that an argument takes, by verb (None: any verb) and argument."""


def _networks(prefix: str, **_: Any) -> list[str]:
    return [name for name in NETWORKS if name.startswith(prefix)]


def networks_or_files(suffixes: tuple[str, ...]) -> Completer:
    """Completer of networks of ours and of files with these endings."""
    files = FilesCompleter(suffixes)

    def both(prefix: str, **asked: Any) -> list[str]:
        return [*_networks(prefix), *files(prefix, **asked)]

    return both
