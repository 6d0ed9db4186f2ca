"""``tvm-ios ceiling``: says what scheduling can gain for a model, before anything is compiled."""

from __future__ import annotations

import argparse
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING

from tvm_ios.cli.measuring import add_model_options, prepare_process
from tvm_ios.driver.input_shapes import InputShapes
from tvm_ios.driver.onnx_file import OnnxFile, is_onnx_path
from tvm_ios.driver.options import DEFAULTS, TuneOptions
from tvm_ios.errors import OptionError
from tvm_ios.host import default_lanes, has_products_of_bytes
from tvm_ios.host.lane_speeds import lane_speeds

if TYPE_CHECKING:
    from tvm_ios.cli.main import Subparsers
    from tvm_ios.core.graph import OperatorGraph

__all__ = ["add_parser", "run", "shown_ceiling", "tell_onnx_ceiling"]


def add_parser(subparsers: Subparsers) -> None:
    """Declare the verb's options."""
    parser = subparsers.add_parser(
        "ceiling",
        description="Print the work of a model, its critical path, and the most that scheduling "
        "between operators can gain on CPUs, by rough speeds. Nothing of the model is compiled or "
        "timed; an ONNX file does not even need TVM.",
    )
    add_model_options(parser)
    parser.add_argument(
        "--lanes",
        default="2,4,8,16",
        metavar="N,N",
        help="numbers of lanes, which are threads (default: %(default)s)",
    )
    parser.add_argument("--json", action="store_true", help="print it as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Print the ceiling; return 0."""
    lanes = _lanes(arguments.lanes)
    graph = _graph(arguments)
    from tvm_ios.driver.ceiling import Arithmetic, graph_ceiling  # noqa: PLC0415 - it needs NumPy

    arithmetic = Arithmetic(in_bytes=has_products_of_bytes())
    found = graph_ceiling(graph, lanes, speeds=lane_speeds(), arithmetic=arithmetic)
    if arguments.json:
        print(json.dumps(asdict(found), indent=1))
    else:
        from tvm_ios.report.ceiling_text import ceiling_text  # noqa: PLC0415 - as above

        print(ceiling_text(found, arguments.model))
    return 0


@contextmanager
def shown_ceiling() -> Iterator[None]:
    """Context in which lines on ceilings are shown, unless no messages are wanted."""
    from tvm_ios.driver.ceiling import LOG  # noqa: PLC0415 - as in run

    level = LOG.level
    LOG.setLevel(logging.INFO)
    try:
        yield
    finally:
        LOG.setLevel(level)


def tell_onnx_ceiling(file: OnnxFile, arguments: argparse.Namespace, options: TuneOptions) -> bool:
    """Show the ceiling of what ``tune`` is about to tune; False where its target is no CPU here."""
    if (arguments.target or "").startswith("cuda") or arguments.rpc_tracker:
        return False
    from tvm_ios.driver.ceiling import Arithmetic, onnx_graph, told_ceiling  # noqa: PLC0415

    arithmetic = Arithmetic(
        in_bytes=(arguments.target is None and not options.build.exact and has_products_of_bytes()),
        in_bfloat16=options.precision.is_low,
    )
    with shown_ceiling():
        lanes = arguments.lanes or default_lanes()
        graph_of = partial(onnx_graph, file)
        told_ceiling(graph_of, lanes, speeds=lane_speeds(), arithmetic=arithmetic)
    return True


def _lanes(text: str) -> tuple[int, ...]:
    """Numbers between commas, each above zero."""
    try:
        numbers = tuple(int(each) for each in text.split(","))
    except ValueError:
        numbers = ()
    if not numbers or min(numbers) < 1:
        raise OptionError(f"--lanes has {text!r}; give whole numbers above 0, such as 2,4,8")
    return numbers


def _graph(arguments: argparse.Namespace) -> OperatorGraph:
    """Operators of the model; TVM is loaded where it is no ONNX file."""
    shapes = InputShapes.parse(arguments.input_shapes, arguments.batch_size)
    from tvm_ios.driver.ceiling import module_graph, onnx_graph  # noqa: PLC0415 - as in run

    if is_onnx_path(arguments.model):
        rest = DEFAULTS.build.rest  # nodes that only onnxruntime runs count as well
        file = OnnxFile.open(arguments.model, shapes, params=arguments.params, rest=rest)
        return onnx_graph(file)
    prepare_process(None)
    from tvm_ios.driver.model_source import ModelSource  # noqa: PLC0415 - TVM comes in here

    source = ModelSource.of(arguments.model, arguments.params, shapes)
    return module_graph(source.mod, source.params, source.name)
