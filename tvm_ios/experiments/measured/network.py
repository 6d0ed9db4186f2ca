"""Networks on this CPU: built, searched and raced for experiments. Loads TVM."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from tvm_ios.compile.model import BuiltModel
from tvm_ios.experiments.harness.cpu_run import CpuRun
from tvm_ios.experiments.harness.protocol import Bench
from tvm_ios.measure.compare import CompareOptions
from tvm_ios.models import inception_v3, nasnet_large, nasnet_small, randwire, randwire_small
from tvm_ios.models.sample import sample_network
from tvm_ios.models.squeezenet import squeezenet
from tvm_ios.models.weights import Network
from tvm_ios.profile.build_candidates import changes_for
from tvm_ios.profile.fastest_build import build_fastest
from tvm_ios.profile.measuring_call import MeasuringCall
from tvm_ios.profile.prices import KernelPrices
from tvm_ios.profile.stage_kernels import RelayStageRunner

__all__ = ["PricedNetwork", "build_network", "call_of", "network_of", "priced_network"]

Factory = Callable[..., Network]
_FULL: Mapping[str, Factory] = {
    "Inception V3": inception_v3,
    "NasNet-A": nasnet_large,
    "RandWire": randwire,
    "Sample": sample_network,
    "SqueezeNet": squeezenet,
}
_SMALL: Mapping[str, Factory] = {
    "Inception V3": partial(inception_v3, image_size=139),
    "NasNet-A": nasnet_small,
    "RandWire": randwire_small,
    "Sample": sample_network,
    "SqueezeNet": partial(squeezenet, image_size=64),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PricedNetwork:
    """A network with its kernels, and a device that prices its stages."""

    built: BuiltModel
    prices: KernelPrices
    call: MeasuringCall


def network_of(name: str, run: CpuRun) -> Network:
    """A network of the paper, at full size or small."""
    return (_SMALL if run.small else _FULL)[name](batch_size=run.batch)


def call_of(run: CpuRun, bench: Bench) -> MeasuringCall:
    """The call of one cell, which begins now."""
    return MeasuringCall.here(
        lanes=run.lanes,
        database=bench.database,
        time_budget=bench.time_budget,
        progress=bench.progress,
        compare=CompareOptions(rounds=run.rounds),
    )


def build_network(name: str, run: CpuRun, call: MeasuringCall) -> BuiltModel:
    """The network in its fastest form, with TVM's kernels."""
    mod, params = network_of(name, run)
    changes = changes_for(call.device.traits)
    return build_fastest(mod, params, None, call, changes=changes, name=name).built


@contextmanager
def priced_network(name: str, run: CpuRun, bench: Bench) -> Iterator[PricedNetwork]:
    """A network whose stages can be priced, until the end of the block."""
    call = call_of(run, bench)
    built = build_network(name, run, call)
    with (
        call.device.open() as session,
        RelayStageRunner(built, lanes=run.lanes, session=session) as runner,
    ):
        prices = KernelPrices(runner, database=call.database)
        yield PricedNetwork(built=built, prices=prices, call=call)
