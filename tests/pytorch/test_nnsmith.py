"""Networks of NNSmith, a generator of others: as torch runs them, so do we.

A network is right where its outputs are torch's, wrong in TVM where TVM without us gives what we
give (optimized, it rounds float64 numbers in code to float32), and refused where TVM's importer
says why. Some 40 networks by default, and 1,000 more with those marked ``full``, the same in each
run.
"""

from __future__ import annotations

import warnings
from collections import Counter
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relay
from tvm.contrib import graph_executor

torch = pytest.importorskip("torch", reason="needs PyTorch; `make test-torch` has it")
pytest.importorskip("nnsmith", reason="needs NNSmith; `make test-torch` has it")

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # there is no Graphviz, and Hydra's parser is of its time
    from nnsmith.graph_gen import model_gen
    from nnsmith.materialize.torch import TorchModelCPU
    from nnsmith.narrow_spec import auto_opset

import tvm_ios  # noqa: E402
from tvm_ios.errors import ModelError  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.slow(60)]
TARGET = "llvm -opt-level=0"
"""LLVM need not optimise what runs once."""
LEAST_RIGHT = 0.5
"""Of all networks: NNSmith draws operators and data types that TVM's importer does not know."""


class Straight(torch.nn.Module):
    """A network of NNSmith without what it checks and notes as it runs."""

    def __init__(self, net: Any) -> None:
        super().__init__()
        self.layers = net.mlist
        self.steps = [(call, reads, writes) for call, reads, writes, _ in net.instructions]
        self.reads, self.writes = list(net.input_like), list(net.output_like)

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Run all operators in order."""
        values = dict(zip(self.reads, inputs, strict=True))
        for call, reads, writes in self.steps:
            found = call(*[values[name] for name in reads])
            found = found if isinstance(found, list) else [found]
            values.update(zip(writes, found, strict=True))
        return tuple(values[name] for name in self.writes)


@dataclass(frozen=True)
class Drawn:
    """A network, inputs for it and what torch gives."""

    net: Straight
    inputs: tuple[torch.Tensor, ...]
    outputs: tuple[np.ndarray, ...]


@cache
def operators() -> list[Any]:
    """Operators that are defined for all that they are given, and their data types in torch."""
    return auto_opset(TorchModelCPU, vulops=False)


def drawn(seed: int) -> Drawn:
    """A network that follows from a seed."""
    torch.manual_seed(seed)
    generator = model_gen(
        opset=operators(),
        method="symbolic-cinit",
        seed=seed,
        max_nodes=4 + seed % 12,
        max_elem_per_tensor=4096,
        timeout_ms=60_000,
        rank_choices=None,
        dtype_choices=["float32", "float64", "int32", "int64", "bool"],
    )
    made = TorchModelCPU.from_gir(generator.make_concrete()).native_model.eval()
    net = Straight(made).eval()
    inputs = tuple(made.get_random_inps().values())
    with torch.no_grad():
        outputs = tuple(each.numpy() for each in net(*inputs))
    return Drawn(net, inputs, outputs)


def difference(found: np.ndarray, wanted: np.ndarray) -> float:
    """The largest difference by the largest value; infinite for another kind of array."""
    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        return np.inf
    found, wanted = found.astype("float64"), wanted.astype("float64")
    with np.errstate(invalid="ignore"):
        apart = np.where(found == wanted, 0.0, np.abs(found - wanted))
    apart[np.isnan(found) & np.isnan(wanted)] = 0.0
    usual = np.abs(wanted[np.isfinite(wanted)])
    return float(np.nan_to_num(apart, nan=np.inf).max(initial=0) / max(usual.max(initial=0), 1e-3))


def verdict(seed: int) -> tuple[str, str]:
    """Whether the network of a seed is right, refused or wrong, and why."""
    network = drawn(seed)
    try:
        mod, params = tvm_ios.from_torch(network.net, network.inputs)
        model = tvm_ios.compile_schedule(mod, params, TARGET, lanes=2)
    except ModelError as error:
        return "refused", str(error)
    names = [each.name_hint for each in mod["main"].params[: len(network.inputs)]]
    given = dict(zip(names, (each.numpy() for each in network.inputs), strict=True))
    with model.executor() as executor:
        executor.run(**given)
        found = [executor.get_output(n).numpy() for n in range(executor.get_num_outputs())]
    far = [difference(*pair) for pair in zip(found, network.outputs, strict=True)]
    if max(far) <= 1e-3:
        return "right", ""
    kinds = [
        f"{one.dtype}{list(one.shape)} for {other.dtype}{list(other.shape)}"
        for one, other in zip(found, network.outputs, strict=True)
        if (one.dtype, one.shape) != (other.dtype, other.shape)
    ]
    for level in (0, 3):
        alike = zip(found, stock(mod, params, given, level), strict=True)
        theirs = [difference(*pair) for pair in alike]
        if max(theirs) <= 1e-5:
            why = "; ".join(kinds) or f"outputs differ from torch's by {max(far):.2g}"
            return "wrong in TVM", why
    return "wrong", f"outputs differ from torch's by {far}, from stock TVM's by {theirs}"


def stock(
    mod: tvm.IRModule, params: dict[str, Any], given: dict[str, np.ndarray], level: int
) -> list[np.ndarray]:
    """What TVM without us computes at a level of optimization."""
    with tvm.transform.PassContext(opt_level=level):
        library = relay.build(mod, TARGET, params=params)
    module = graph_executor.GraphModule(library["default"](tvm.cpu()))
    module.run(**given)
    return [module.get_output(n).numpy() for n in range(module.get_num_outputs())]


@pytest.mark.parametrize(
    "seeds",
    [
        range(40),
        *(
            pytest.param(range(first, first + 250), marks=pytest.mark.full)
            for first in range(40, 1040, 250)
        ),
    ],
    ids=lambda seeds: f"{seeds[0]}-{seeds[-1]}",
)
def test_random_networks_give_what_torch_gives(seeds):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = {seed: verdict(seed) for seed in seeds}
    counts = Counter(kind for kind, _ in found.values())
    for (kind, why), count in Counter(found.values()).most_common():
        print(count, kind, why[:300])
    assert not {seed: why for seed, (kind, why) in found.items() if kind == "wrong"}
    assert counts["right"] >= LEAST_RIGHT * len(seeds), counts
