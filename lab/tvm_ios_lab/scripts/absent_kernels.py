"""Kernels that are left out beside oneDNN's calls: how many, what they save, what they would gain.

Run from the root of a checkout, with networks of the catalogue:

    python -m tvm_ios_lab.scripts.absent_kernels inception_v3 squeezenet

Each network is built twice without a kernel cache, in one process. Prices of all operators by both
makers come from the profile database, or are measured. ``docs/adr/0041`` has a table of it.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Collection
from dataclasses import replace
from unittest.mock import patch

from tvm_ios.cli.measuring import prepare_process
from tvm_ios.compile.built_model import BuiltModel, build_prepared
from tvm_ios.devices.library_choice import LibraryChoice
from tvm_ios.devices.traits import CPU
from tvm_ios.host import default_lanes, host_target
from tvm_ios.models import by_name
from tvm_ios.profile.build_candidates import BuildCandidate, changes_for
from tvm_ios.profile.fastest_build import absent_functions
from tvm_ios.profile.image_form import form_by_prices
from tvm_ios.profile.measured_kernels import MeasuredKernels, measure_operators
from tvm_ios.profile.measuring_call import MeasuringCall
from tvm_ios.profile.operator_prices import TVM, OperatorPrices
from tvm_ios.profile.stage_kernels import StageKernels
from tvm_ios.relay.inputs import resolve_target
from tvm_ios.relay.kernels import digest_of_call
from tvm_ios.relay.prepare import PreparedModule, prepare
from tvm_ios.report.table import Table

HEADER = ("network", "operators", "kernels", "left out", "build, s", "before, s", "least", "lost")


def main() -> None:
    """Print a row for each network."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("networks", nargs="+")
    prepare_process(None)
    rows = [_row(network) for network in parser.parse_args().networks]
    print(Table(header=HEADER, rows=tuple(rows)).as_markdown())


def _row(network: str) -> tuple[str, ...]:
    libraries = LibraryChoice(target=None).installed()
    call = MeasuringCall.here(lanes=default_lanes())
    target = resolve_target(host_target())
    mod, params = by_name(network)()
    model = BuildCandidate(mod=mod, params=params)
    choose_form = form_by_prices(call, libraries)
    for change in changes_for(CPU, race_forms=False, libraries=libraries, choose_form=choose_form):
        model = change.of(model, target) or model
    prepared = prepare(model.checked, model.params, target)
    absent = absent_functions(prepared, libraries, call)
    lazy_s, whole_s = (_built_anew(prepared, each) for each in (absent, ()))
    built = replace(build_prepared(prepared), libraries=libraries)
    with (
        call.open() as session,
        StageKernels(built, lanes=call.lanes, session=session, database=call.database) as runner,
    ):
        prices = measure_operators(MeasuredKernels(runner, database=call.database))
    kernels = built.kernels.staged.lowered
    least, lost = _gains(built, prices, absent)
    times = (f"{lazy_s:.1f}", f"{whole_s:.1f}", f"{least:.2f}", f"{lost:.2%}")
    return (network, *map(str, (len(built.graph), len(kernels), len(absent))), *times)


def _built_anew(prepared: PreparedModule, absent: Collection[str]) -> float:
    """Processor seconds of a build without workers and with an empty cache."""
    with (
        tempfile.TemporaryDirectory() as folder,
        patch.dict(os.environ, TVM_IOS_CACHE_DIR=folder),
        patch("tvm_ios.kernels.workers.default_lanes", lambda: 1),
    ):
        begin = time.process_time()
        build_prepared(prepared, absent=absent)
        return time.process_time() - begin


def _gains(
    built: BuiltModel, prices: OperatorPrices, absent: Collection[str]
) -> tuple[float, float]:
    """Least time of an absent kernel over its call, and what all would gain over the network."""
    left = [n for n, each in enumerate(built.extraction.calls) if digest_of_call(each) in absent]
    own_ns = {index: prices.price_ns(index, TVM) for index in left}
    call_ns = {
        index: min(prices.price_ns(index, maker) for maker in prices.by_maker if maker != TVM)
        for index in left
    }
    all_ns = sum(prices.price_ns(n, prices.fastest_maker(n)) for n in range(len(built.graph)))
    gained_ns = sum(max(0, call_ns[index] - own_ns[index]) for index in left)
    least = min((own_ns[index] / call_ns[index] for index in left), default=float("nan"))
    return least, gained_ns / all_ns


if __name__ == "__main__":
    main()
