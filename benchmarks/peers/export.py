"""Write networks as the peers need them; runs in the project's environment, which has TVM.

The reference is TVM without any optimisation, so that it shares no pass with what is measured.
Weights of the benchmark networks are random and shrink their signal layer by layer until only the
biases are left, and every wrong network would look right. So the fixed input is scaled until it
outweighs the biases in the output.

::

    python -m benchmarks.peers.export [--networks NAME ...]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import tvm
from tvm import relay
from tvm.contrib import graph_executor

from benchmarks.peers.errors import PeerError
from benchmarks.peers.network import (
    EXPORTED,
    NETWORKS,
    Case,
    Floats,
    Network,
    Node,
    Operator,
    write_case,
)
from tvm_ios.errors import TvmIosError
from tvm_ios.host import host_target
from tvm_ios.models import by_name

__all__ = ["describe", "export_case", "main"]

_LARGEST_EXPONENT = 20
_SEED = 0

_PLAIN = {
    "nn.relu": Operator.RELU,
    "add": Operator.ADD,
    "concatenate": Operator.CONCATENATE,
    "nn.global_avg_pool2d": Operator.GLOBAL_AVERAGE_POOL,
}
_POOLS = {"nn.max_pool2d": Operator.MAX_POOL, "nn.avg_pool2d": Operator.AVERAGE_POOL}
# Attributes that the description has no word for, and the only value each may have.
_EXPECTED: Mapping[str, Mapping[str, object]] = {
    "nn.conv2d": {"data_layout": "NCHW", "kernel_layout": "OIHW", "dilation": (1, 1)},
    "nn.bias_add": {"axis": 1},
    "concatenate": {"axis": 1},
    "nn.max_pool2d": {"layout": "NCHW", "ceil_mode": False, "dilation": (1, 1)},
    "nn.avg_pool2d": {
        "layout": "NCHW",
        "ceil_mode": False,
        "dilation": (1, 1),
        "count_include_pad": True,
    },
    "nn.global_avg_pool2d": {"layout": "NCHW"},
}


def describe(module: tvm.IRModule, *, name: str, batch_size: int = 1) -> Network:
    """Describe a network that a function of :mod:`tvm_ios.models` returned.

    Parameters
    ----------
    module
        Type-checked; the first parameter of ``main`` is the image, the others are weights.
    name
        Of the network.
    batch_size
        Images in the input.

    Raises
    ------
    PeerError
        If it has an operator, or an attribute of one, that the description has no word for.
    """
    function = module["main"]
    image = function.params[0]
    names = {parameter: parameter.name_hint for parameter in function.params}
    nodes: list[Node] = []

    def note(expr: relay.Expr) -> None:
        if isinstance(expr, relay.Call) and expr.op.name != "nn.conv2d":
            names[expr] = f"t{len(nodes)}"
            nodes.append(_node(expr, names))

    relay.analysis.post_order_visit(function, note)
    if not nodes or names.get(function.body) != nodes[-1].output:
        raise PeerError(f"{name}: the output is not that of an operator the peers have")
    return Network(
        name=name,
        batch_size=batch_size,
        input=image.name_hint,
        input_shape=_shape(image),
        nodes=tuple(nodes),
    )


def export_case(name: str, folder: Path) -> Case:
    """Build a network, compute its reference and write both to ``folder``.

    Raises
    ------
    PeerError
        If it cannot be described, or its output does not depend on its input.
    OptionError
        If there is no such network.
    """
    module, params = by_name(name)()
    network = describe(module, name=name)
    run = _unoptimised(module, params, network.input)
    image = _outweighing(run, network)
    case = Case(
        network=network,
        weights={key: value.numpy() for key, value in params.items()},
        input=image,
        reference=run(image),
    )
    write_case(case, folder)
    return case


def main(arguments: Sequence[str] | None = None) -> int:
    """Export networks, each to a folder of its name; 0 when all is done."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.peers.export",
        description="Write networks, an input each and what TVM makes of it, for the peers.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = parser.add_argument
    add("--folder", type=Path, default=EXPORTED, help="gets one folder a network")
    add("--networks", nargs="+", default=list(NETWORKS), metavar="NAME", help="which of them")
    options = parser.parse_args(arguments)
    try:
        for name in options.networks:
            network = export_case(name, options.folder / name).network
            print(f"{name}: {len(network.nodes)} nodes, {network.macs / 1e9:.3f} GMAC", flush=True)
    except (OSError, TvmIosError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _node(call: relay.Call, names: Mapping[relay.Expr, str]) -> Node:
    operator = call.op.name
    _require_expected(call)
    shape = _shape(call)
    output = names[call]
    if operator == "nn.bias_add":
        return _convolution(call, names)
    if operator in _POOLS:
        attributes = call.attrs
        return Node(
            operator=_POOLS[operator],
            output=output,
            inputs=(_name(call.args[0], names),),
            shape=shape,
            kernel=_pair(attributes.pool_size),
            strides=_pair(attributes.strides),
            padding=_padding(call),
        )
    if operator not in _PLAIN:
        raise PeerError(f"operator {operator} has no word in the description; add it to export.py")
    operands = call.args[0].fields if operator == "concatenate" else call.args
    return Node(
        operator=_PLAIN[operator],
        output=output,
        inputs=tuple(_name(operand, names) for operand in operands),
        shape=shape,
    )


def _convolution(biased: relay.Call, names: Mapping[relay.Expr, str]) -> Node:
    call, bias = biased.args
    if not (isinstance(call, relay.Call) and call.op.name == "nn.conv2d"):
        raise PeerError("a bias is added to something else than a convolution; extend export.py")
    _require_expected(call)
    operand, weight = call.args
    return Node(
        operator=Operator.CONVOLUTION,
        output=names[biased],
        inputs=(_name(operand, names),),
        shape=_shape(biased),
        weight=_name(weight, names),
        bias=_name(bias, names),
        kernel=_pair(_shape(weight)[2:]),
        strides=_pair(call.attrs.strides),
        padding=_padding(call),
        groups=int(call.attrs.groups),
        channels_read=_shape(weight)[1],
    )


def _name(expr: relay.Expr, names: Mapping[relay.Expr, str]) -> str:
    if expr not in names:
        raise PeerError(
            f"an operator reads {type(expr).__name__} {expr.checked_type}, which is no input, "
            "weight or biased convolution; extend export.py"
        )
    return names[expr]


def _require_expected(call: relay.Call) -> None:
    for attribute, expected in _EXPECTED.get(call.op.name, {}).items():
        value = getattr(call.attrs, attribute)
        plain = tuple(map(int, value)) if isinstance(expected, tuple) else value
        if plain != expected:
            raise PeerError(
                f"{call.op.name} has {attribute} {plain}, and the description only knows "
                f"{expected}; extend network.py and every peer"
            )


def _padding(call: relay.Call) -> tuple[int, int]:
    top, left, *others = (int(size) for size in call.attrs.padding)
    if others not in ([], [top, left]):
        raise PeerError(
            f"{call.op.name} has padding {[top, left, *others]}, which differs between opposite "
            "sides; extend network.py and every peer"
        )
    return top, left


def _pair(sizes: Sequence[int]) -> tuple[int, int]:
    first, second = sizes
    return int(first), int(second)


def _shape(expr: relay.Expr) -> tuple[int, ...]:
    return tuple(int(extent) for extent in expr.checked_type.shape)


def _unoptimised(
    module: tvm.IRModule, params: Mapping[str, tvm.nd.NDArray], input_name: str
) -> Callable[[Floats], Floats]:
    with tvm.transform.PassContext(opt_level=0):
        built = relay.build(module, target=host_target(), params=dict(params))
    executor = graph_executor.GraphModule(built["default"](tvm.cpu()))

    def run(image: Floats) -> Floats:
        executor.set_input(input_name, image)
        executor.run()
        output: Floats = executor.get_output(0).numpy()
        return output

    return run


def _outweighing(run: Callable[[Floats], Floats], network: Network) -> Floats:
    """An input that makes up at least half of the output's largest value."""
    noise = np.random.default_rng(_SEED).standard_normal(network.input_shape, dtype=np.float32)
    biases_alone = run(np.zeros_like(noise))
    for exponent in range(_LARGEST_EXPONENT + 1):
        image = noise * np.float32(10**exponent)
        output = run(image)
        if np.max(np.abs(output - biases_alone)) >= 0.5 * np.max(np.abs(output)):
            return image
    raise PeerError(
        f"{network.name}: inputs up to 1e{_LARGEST_EXPONENT} do not show in the output, so no "
        "peer can be checked; look at the weights"
    )


if __name__ == "__main__":
    sys.exit(main())
