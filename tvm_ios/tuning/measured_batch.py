"""Measurement of a batch of candidates on a device that may be lost meanwhile.

All measurements count. A device that no longer answers is given back, and the rest of its batch
goes to another one without a record of failure. The candidate that ran when the device died is
suspect: at its second time it is recorded as failed, so it cannot bring down device after device.
Without another device it is recorded at once, with all results before it.
"""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from tvm import TVMError, rpc

from tvm_ios.errors import DeviceLostError, TuningError
from tvm_ios.kernels.workers import SafeWorker
from tvm_ios.runtime.rpc.address import DeviceAddress, last_line
from tvm_ios.support.stage_gate import GrantedStage, StageGate, StageNeed
from tvm_ios.tuning.remote import require_tracker

__all__ = ["BatchDevice", "ask_device", "device_answers", "measure_batch"]

MOST_DEATHS = 2
"""Number of workers or devices that a candidate may bring down before it counts as failed."""
LOAD_S = 120
"""Seconds that a process may take to load TVM."""
ANSWER_S = 10
"""Seconds after which a device that gives no session does not answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchDevice:
    """Functions with which a tuner measures candidates on the device it is granted."""

    run: Callable[[GrantedStage, Sequence[int]], Iterable[Any]]
    """Measures candidates, given by their places in the batch, in order. It had better be lazy and
    measure one for each result asked for: then none is tried on a device that is gone."""
    died: Callable[[Any], bool]
    """True for a result of a candidate whose worker or device died or hung."""
    lost: Callable[[GrantedStage], bool]
    """True if the device is gone; asked when a candidate died. Raises TuningError if it is gone and
    no other one will do."""
    keep: Callable[[Sequence[int], Sequence[Any]], None]
    """Writes results, given with their places in the batch, into the log, and reports them."""


def measure_batch(
    gate: StageGate,
    need: StageNeed,
    size: int,
    device: BatchDevice,
    known: Mapping[int, Any] | None = None,
) -> list[Any]:
    """Results of all candidates of a batch, in the log before the device is free again.

    ``known`` results, by place, need no device, such as those of candidates that do not compile.
    """
    results = dict(known or {})
    deaths: Counter[int] = Counter()
    if len(results) == size:
        _keep(device, results)
    while len(results) < size:
        waiting = [place for place in range(size) if place not in results]
        with suppress(DeviceLostError), gate.stage(need) as granted:
            is_lost = False
            for place, result in zip(waiting, device.run(granted, waiting), strict=False):
                results[place] = result
                if device.died(result):
                    deaths[place] += 1
                    is_lost = _is_lost(device, granted, results)
                    if deaths[place] < MOST_DEATHS and (is_lost or granted.second_try):
                        del results[place]
                if is_lost:
                    break
            if len(results) == size:
                _keep(device, results)
            if is_lost:
                raise DeviceLostError(
                    f"device {granted.device or granted.address or 'of this process'!r} no longer "
                    f"answers; {size - len(results)} of {size} candidates go to another one"
                )
    return [results[place] for place in range(size)]


def _is_lost(device: BatchDevice, granted: GrantedStage, results: Mapping[int, Any]) -> bool:
    try:
        return device.lost(granted)
    except TuningError:
        # Else the same call would bring the device down with the same candidate for ever.
        _keep(device, results)
        raise


def _keep(device: BatchDevice, results: Mapping[int, Any]) -> None:
    places = sorted(results)
    device.keep(places, [results[place] for place in places])


def device_answers(address: DeviceAddress) -> bool:
    """True if the tracker has the device, and it gives a session soon."""
    try:
        ask_device(address, _open_session, limit_s=ANSWER_S)
    except DeviceLostError:
        return False
    return True


def ask_device(
    address: DeviceAddress, question: Callable[[str, int, str], Any], *, limit_s: float
) -> Any:
    """Answer of a device to a question: a function of the tracker's host and port, and the key.

    A process of its own asks: TVM waits without end for a device that others have, and for a
    machine that has lost power.
    """
    worker = SafeWorker(stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        require_tracker(address.tracker, address.key)
        worker.send(_load, timeout=LOAD_S)  # on a busy machine that takes longer than any answer
        worker.recv()
        worker.send(question, (address.host, address.port, address.key), timeout=limit_s)
        return worker.recv()
    except (TuningError, TimeoutError, ChildProcessError, RuntimeError, TVMError) as error:
        late = isinstance(error, TimeoutError)
        why = f"not within {limit_s:g} s" if late else last_line(error)
        raise DeviceLostError(
            f"{address.as_text()} does not answer: {why}; {address.commands}"
        ) from error
    finally:
        worker.kill()


def _load() -> None:
    """Do nothing: the process has loaded this file by then, and TVM with it."""


def _open_session(host: str, port: int, key: str) -> None:
    rpc.connect_tracker(host, port).request(key, session_timeout=ANSWER_S, max_retry=1)
