"""Options and process setup that all verbs which run models share."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from tvm_ios.errors import HostError
from tvm_ios.host import default_lanes, require_relay_tvm, require_tvm
from tvm_ios.host.relax_tvm import RELAX_RELEASE
from tvm_ios.install.finder import CHOICE_VARIABLE, has_relay

__all__ = [
    "RELAX",
    "RELAY",
    "add_dialect",
    "add_loading_options",
    "add_measuring_options",
    "add_model_options",
    "prepare_process",
    "take_dialect",
]

RELAX, RELAY = "relax", "relay"


def add_measuring_options(parser: argparse.ArgumentParser, networks: Sequence[str]) -> None:
    """Declare options for the networks to measure, their prices, and the number of lanes.

    ``networks`` are measured where none are given.
    """
    parser.add_argument(
        "--networks",
        nargs="+",
        metavar="NAME",
        default=list(networks),
        help="networks of tvm_ios.models (default: %(default)s)",
    )
    parser.add_argument(
        "--database", type=Path, metavar="FILE", help="profile database (default: in the cache)"
    )
    parser.add_argument("--lanes", type=int, help="threads (default: the cores there are)")


def add_model_options(parser: argparse.ArgumentParser, *, several: bool = False) -> None:
    """Declare a model to read, its parameters and its shapes; ``several`` allows many models."""
    told = (
        "a network of tvm_ios.models, or a file: Relay in JSON (.json) or as text (.relay, .txt), "
        "or ONNX (.onnx)"
    )
    if several:
        parser.add_argument(
            "models",
            nargs="+",
            metavar="MODEL",
            help=f"{told}; several become one network of named parts: NAME=MODEL names one",
        )
    else:
        parser.add_argument("model", metavar="MODEL", help=told)
    parser.add_argument(
        "--params",
        type=Path,
        metavar="FILE",
        help="parameters of a Relay file: .npz, or what tvm.runtime.save_param_dict gives",
    )
    shapes = "shapes of inputs that an ONNX file leaves open: 'x:[1,3,224,224] mask:[1,128]'"
    if several:
        shapes += "; given several times, one file has the model in each of these shapes"
    parser.add_argument(
        "--input-shapes",
        action="append" if several else "store",
        metavar="SHAPES",
        help=shapes,
    )
    parser.add_argument(
        "--batch-size",
        type=int,
        metavar="N",
        help="extent of first dimensions that an ONNX file leaves open; of our networks, images",
    )


def add_loading_options(parser: argparse.ArgumentParser) -> None:
    """Declare options for loading compiled models."""
    parser.add_argument(
        "--any-processor-model",
        action="store_true",
        help="take files tuned on another processor model, if this one has their instruction sets",
    )


def prepare_process(lanes: int | None, *, relay: bool = True) -> int:
    """Set TVM's threads and import it; return the number of lanes. TVM must not be imported before.

    Without a number from the user, lanes are as many as the usable cores. Any TVM will do where
    ``relay`` is False, as for exported files.
    """
    chosen = default_lanes() if lanes is None else lanes
    # TVM makes its thread pool once, with half of the cores unless it is told otherwise.
    os.environ.setdefault("TVM_NUM_THREADS", str(chosen))
    if relay:
        require_relay_tvm()
    else:
        require_tvm()
    return chosen


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
