"""Schedules of several devices that are all this CPU: lanes, and whose kernels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from tvm_ios.runtime.libraries.onednn.provider import OnednnLibrary
from tvm_ios_lab.cells.device_specialization import CpuDevice, Transferred
from tvm_ios_lab.harness.cpu_run import CpuRun
from tvm_ios_lab.harness.protocol import Bench
from tvm_ios_lab.measured.network import PricedNetwork, priced_network

__all__ = ["transferred"]


def transferred(
    name: str, here: CpuDevice, devices: Sequence[CpuDevice], run: CpuRun, bench: Bench
) -> Transferred:
    """Schedules found on each device, all run on one."""
    found = {}
    for device in devices:
        with _on(device, name, run, bench) as other:
            found[device.name] = (other.ios(), other.graph)
    with _on(here, name, run, bench) as network:
        network.ios()  # decides which operators idle lanes or libraries help with
        race = network.race({each: network.carried(*found[each]) for each in found})
    return Transferred(
        found_for=tuple(found),
        ms=tuple(race.median_ns(each) / 1e6 for each in found),
        race=race,
    )


@contextmanager
def _on(device: CpuDevice, name: str, run: CpuRun, bench: Bench) -> Iterator[PricedNetwork]:
    libraries = (OnednnLibrary(),) if device.onednn else ()
    lanes = replace(run, lanes=device.lanes)
    with priced_network(name, lanes, bench, as_it_is=True, libraries=libraries) as network:
        yield network
