"""Write networks as the peers need them; runs in the project's environment, which has TVM.

The reference is TVM without any optimisation, so that it shares no pass with what is measured.
Weights of some networks are random in a way that shrinks their signal layer by layer until only the
biases are left, and every wrong network would look right. So the fixed image is scaled until it
outweighs the biases in the output.

::

    python -m tvm_ios_lab.peers.export [--networks NAME[:BATCH] ...]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from numpy.typing import NDArray
from tvm import relay
from tvm.contrib import graph_executor

from tvm_ios.errors import TvmIosError
from tvm_ios.host import host_target
from tvm_ios.models import by_name
from tvm_ios_lab.peers.describe import describe
from tvm_ios_lab.peers.errors import PeerError
from tvm_ios_lab.peers.network import Case, Floats, Network, relative_error, write_case
from tvm_ios_lab.peers.normal_form import normal_form
from tvm_ios_lab.peers.subject import Subject, add_subject_options

__all__ = ["export_case", "main", "outweighing_image", "unoptimised"]

_LARGEST_EXPONENT = 20
_SEED = 0
_SHARE = 0.5
"""Share of the output's largest value that an image should make up."""
_LEAST_SHARE = 0.1
"""Share that will do where larger images bring no more: a hundred times what is tolerated."""
_SATURATED = 4
"""Powers of ten after which activations that are bounded have reached their bounds."""
_FEWEST_ROWS = 10_000
"""Numbers of tokens stay below it: no vocabulary is smaller."""

_Data = NDArray[Any]


def export_case(subject: Subject, folder: Path) -> Case:
    """Build a network, compute its reference and write both to ``folder``."""
    module, params = by_name(subject.network)(batch_size=subject.batch_size)
    described, weights = normal_form(module, params)
    network = describe(described, name=subject.network, batch_size=subject.batch_size)
    run = unoptimised(module, params, network.input)
    data = _tokens(run, network) if network.reads_tokens else outweighing_image(run, network)
    case = Case(
        network=network,
        weights={key: value.numpy() for key, value in weights.items()},
        input=data,
        reference=run(data),
    )
    write_case(case, folder)
    return case


def main(arguments: Sequence[str] | None = None) -> int:
    """Export networks, each to a folder of its own; 0 when all is done."""
    parser = argparse.ArgumentParser(
        prog="python -m tvm_ios_lab.peers.export",
        description="Write networks, an input each and what TVM makes of it, for the peers.",
    )
    add_subject_options(parser)
    options = parser.parse_args(arguments)
    try:
        for subject in options.networks:
            network = export_case(subject, options.folder / subject.stem).network
            print(
                f"{subject.stem}: {len(network.nodes)} nodes, {network.macs / 1e9:.3f} GMAC",
                flush=True,
            )
    except (OSError, TvmIosError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def unoptimised(
    module: tvm.IRModule, params: Mapping[str, tvm.nd.NDArray], input_name: str
) -> Callable[[_Data], Floats]:
    """A module with one input and one output as a function, compiled without any optimisation."""
    with tvm.transform.PassContext(opt_level=0):
        built = relay.build(module, target=host_target(), params=dict(params))
    executor = graph_executor.GraphModule(built["default"](tvm.cpu()))

    def run(data: _Data) -> Floats:
        executor.set_input(input_name, data)
        executor.run()
        output: Floats = executor.get_output(0).numpy()
        return output

    return run


def outweighing_image(run: Callable[[_Data], Floats], network: Network) -> Floats:
    """An image that shows in the output's largest value."""
    noise = np.random.default_rng(_SEED).standard_normal(network.input_shape, dtype=np.float32)
    biases_alone = run(np.zeros_like(noise))
    shares: dict[int, float] = {}
    for exponent in range(_LARGEST_EXPONENT + 1):
        image = noise * np.float32(10**exponent)
        shares[exponent] = relative_error(biases_alone, run(image))
        if shares[exponent] >= _SHARE:
            return image
        # Activations that end at a largest value let no larger image through.
        if exponent >= _SATURATED and shares[exponent] >= _LEAST_SHARE:
            return noise
    raise PeerError(
        f"{network.name}: inputs up to 1e{_LARGEST_EXPONENT} do not show in the output, so no "
        "peer can be checked; look at the weights"
    )


def _tokens(run: Callable[[_Data], Floats], network: Network) -> _Data:
    """Numbers of tokens, of which others give another output."""
    random = np.random.default_rng(_SEED)
    first, second = (
        random.integers(_FEWEST_ROWS, size=network.input_shape, dtype=network.input_dtype)
        for _ in range(2)
    )
    share = relative_error(run(second), run(first))
    if share >= _LEAST_SHARE:
        return first
    raise PeerError(
        f"{network.name}: other tokens change {share:.2g} of the output, so no peer can be "
        "checked; look at the weights"
    )


if __name__ == "__main__":
    sys.exit(main())
