"""``tvm-ios install-tvm``: puts a TVM with Relay into this environment."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from tvm_ios.install.wheel import install_relay_tvm

if TYPE_CHECKING:
    from tvm_ios.cli.main import Subparsers

__all__ = ["add_parser", "run"]


def add_parser(subparsers: Subparsers) -> None:
    """Declare the verb's options."""
    parser = subparsers.add_parser(
        "install-tvm",
        description="Install a TVM with Relay into this environment, so that a plain "
        "`import tvm` finds it. Does nothing where a TVM with Relay is there already.",
    )
    parser.add_argument(
        "--force", action="store_true", help="install it although you bring a TVM with Relay"
    )


def run(arguments: argparse.Namespace) -> int:
    """Install and print the steps; return 0."""
    print(install_relay_tvm(force=arguments.force).as_text())
    return 0
