"""The option ``--dialect``: which TVM a process imports, said before it does. No TVM here."""

from __future__ import annotations

import argparse
import os
from importlib.util import find_spec

from tvm_ios.errors import HostError
from tvm_ios.host.relax_tvm import RELAX_RELEASE
from tvm_ios.install.finder import CHOICE_VARIABLE, has_relay

__all__ = ["RELAX", "RELAY", "add_dialect", "take_dialect"]

RELAX, RELAY = "relax", "relay"


def add_dialect(parser: argparse.ArgumentParser) -> None:
    """Declare the option."""
    parser.add_argument(
        "--dialect",
        choices=(RELAY, RELAX),
        help=f"TVM to work with: one with Relay, or apache-tvm {RELAX_RELEASE} with Relax "
        "(default: what is installed, Relay where both are)",
    )


def take_dialect(wanted: str | None) -> str:
    """Have ``import tvm`` find a TVM of this dialect, or any where None; return the dialect.

    Raises
    ------
    HostError
        If no TVM of the dialect is installed.
    """
    if wanted is not None:
        os.environ[CHOICE_VARIABLE] = "path" if wanted == RELAX else "auto"
    spec = find_spec("tvm")
    if spec is None and wanted is None:
        return RELAY  # whoever imports it says what is missing
    found = RELAY if has_relay(spec) else RELAX
    if wanted is None or (spec is not None and wanted == found):
        return found
    there = "there is no TVM" if spec is None else f"the TVM at {spec.origin} has {found.title()}"
    install = (
        f"pip install 'tvm-ios[relax]', for apache-tvm {RELAX_RELEASE}"
        if wanted == RELAX
        else "tvm-ios install-tvm"
    )
    raise HostError(f"--dialect {wanted}: {there}; run: {install}")
