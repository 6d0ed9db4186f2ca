"""Builds a network of ours for its profile: sequential order, every operator in its fastest way.

No schedule is searched and no form of the model raced: a profile shows kernels. Channels stay as
they are, and transposed convolutions are written as convolutions.
"""

from __future__ import annotations

from dataclasses import replace

from tvm_ios.compile.built_model import build_model
from tvm_ios.compile.lower import lower_schedule
from tvm_ios.compile.model import CompiledModel
from tvm_ios.cost.database import open_database
from tvm_ios.devices.local import LocalCpu
from tvm_ios.models import by_name
from tvm_ios.profile.measured_kernels import MeasuredKernels
from tvm_ios.profile.stage_kernels import StageKernels
from tvm_ios.profile.way_choice import settled_prices
from tvm_ios.relay.transforms.transposed_convolution import convolve_transposed
from tvm_ios.runtime.libraries.onednn.provider import OnednnLibrary
from tvm_ios.search.baselines import sequential_schedule
from tvm_ios_lab.peers.subject import Subject

__all__ = ["build_for_profile"]


def build_for_profile(subject: Subject, lanes: int) -> CompiledModel:
    """The network for so many lanes, each operator by TVM's kernel or by oneDNN."""
    mod, _ = convolve_transposed(*by_name(subject.network)(batch_size=subject.batch_size))
    device = LocalCpu()
    built = build_model(mod, None, device.target)
    built = replace(built, libraries=(OnednnLibrary(),))
    database = open_database(None)
    with device.open() as session:
        with StageKernels(built, lanes=lanes, session=session, database=database) as runner:
            prices = settled_prices(MeasuredKernels(runner, database=database))
            schedule = prices.annotate(sequential_schedule(built.graph))
        model = lower_schedule(built, schedule, lanes=lanes)
        return replace(model, plan=session.libraries(database).complete(model.plan))
