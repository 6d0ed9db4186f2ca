"""``jobs.toml``: what the machine has, how it is shared, and the jobs.

``[scheduler]`` and ``[[device]]`` may be left out, a ``[[job]]`` needs a ``model``. Free of TVM, so
that a bad file is refused before anything is loaded.
"""

from __future__ import annotations

import os
import sys
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar

from tvm_ios.driver.config import TuneConfig, known_value, require_known
from tvm_ios.errors import JobError, OptionError
from tvm_ios.jobs.core.job_state import JobSpec
from tvm_ios.jobs.core.limits import Limits
from tvm_ios.jobs.core.policies import PolicyName
from tvm_ios.jobs.core.resources import Device, DeviceKind, Machine
from tvm_ios.jobs.order import JobOrder
from tvm_ios.jobs.tracker import TrackerAddress
from tvm_ios.jobs.tune_work import TuneWork

__all__ = ["ExecutorName", "JobsFile", "SchedulerTable", "read_jobs_file"]

MemberT = TypeVar("MemberT", bound=Enum)
_CONFIG_KEYS = ("time_budget", "search", "measure", "compare", "conversion", "build", "tuning")
_DEVICE_KEYS: Mapping[str, Any] = {
    "name": str,
    "kind": str,
    "core": int,
    "rpc_tracker": str,
    "rpc_key": str,
    "escorted": bool,
}
_SCHEDULER_KEYS: Mapping[str, Any] = {
    "policy": str,
    "executor": str,
    "max_active": int,
    "max_wait_s": float,
    "max_start_wait_s": float,
}
_JOB_KEYS: Mapping[str, Any] = {
    "name": str,
    "model": str,
    "params": str,
    "config": str,
    "device": str,
    "sla_ms": float,
    "lanes": int,
    "target": str,
}


class ExecutorName(Enum):
    """Where workers run."""

    LOCAL = "local"
    """On the machine of the daemon."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerTable:
    """``[scheduler]``."""

    policy: PolicyName = PolicyName.SLACK
    executor: ExecutorName = ExecutorName.LOCAL
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobsFile:
    """All that a file says."""

    scheduler: SchedulerTable
    machine: Machine
    orders: tuple[JobOrder, ...]


def read_jobs_file(path: Path) -> JobsFile:
    """Read a file. Paths in it are relative to its folder.

    Raises
    ------
    JobError
        If it cannot be read, or a key or a value is unfit; the message names file, thing and value.
    """
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise JobError(f"cannot read the jobs in {path}: {error}; see docs/jobs.md") from error
    try:
        require_known(tables, ("scheduler", "device", "job"), "")
        scheduler = _scheduler(_table(tables.get("scheduler", {}), "scheduler"))
        devices = [_device(each) for each in _rows(tables.get("device", []), "device")]
        machine = _machine(devices)
        rows = _rows(tables.get("job", []), "job")
        orders = [_order(row, machine, path.parent) for row in rows]
        _require_jobs([order.spec.name for order in orders])
    except (JobError, OptionError) as error:
        raise JobError(f"{path}: {error}") from error
    return JobsFile(scheduler=scheduler, machine=machine, orders=tuple(orders))


def _scheduler(table: Mapping[str, Any]) -> SchedulerTable:
    known = _checked(table, _SCHEDULER_KEYS, "[scheduler] ")
    policy = _member(PolicyName, known.pop("policy", "slack"), "[scheduler] policy")
    executor = _member(ExecutorName, known.pop("executor", "local"), "[scheduler] executor")
    return SchedulerTable(policy=policy, executor=executor, limits=Limits(**known))


def _device(table: Mapping[str, Any]) -> Device:
    name = table.get("name")
    if not isinstance(name, str) or not name:
        raise JobError(f'a [[device]] has the name {name!r}; give name = "cpu0"')
    where = f"device {name!r}: "
    known = _checked(table, _DEVICE_KEYS, where)
    kind = _member(DeviceKind, known.pop("kind", "core"), f"{where}kind")
    tracker, key = known.pop("rpc_tracker", ""), known.pop("rpc_key", "")
    if bool(tracker and key) != (kind is DeviceKind.RPC) or bool(tracker) != bool(key):
        raise JobError(
            f"{where}kind is {kind.value!r}, rpc_tracker {tracker!r} and rpc_key {key!r}; a device "
            'of kind "rpc" has both, such as "127.0.0.1:9190" and "board-7", and others have none'
        )
    address = f"{tracker}:{key}" if tracker else ""
    if address:
        TrackerAddress.of(address)
    return Device(kind=kind, address=address, **known)


def _machine(devices: Sequence[Device]) -> Machine:
    cores = tuple(sorted(os.sched_getaffinity(0)))
    # The last core: interrupts and the daemon mostly live on the first.
    usual = Device(name="cpu0", kind=DeviceKind.CORE, core=cores[-1])
    return Machine(cores=cores, devices=tuple(devices) or (usual,))


def _order(table: Mapping[str, Any], machine: Machine, folder: Path) -> JobOrder:
    model = table.get("model")
    if not isinstance(model, str) or not model:
        raise JobError(
            f'a [[job]] has the model {model!r}; give a network or a file: model = "squeezenet"'
        )
    name = table.get("name", Path(model).stem)
    where = f"job {name!r}: "
    inline = {key: value for key, value in table.items() if key not in _JOB_KEYS}
    require_known(inline, _CONFIG_KEYS, where)
    known = _checked({key: table[key] for key in table if key in _JOB_KEYS}, _JOB_KEYS, where)
    config = _config(known.get("config"), inline, folder, where)
    device = _chosen(known.get("device", ""), machine, where)
    sla_ms = known.get("sla_ms")
    if sla_ms is not None and not 0 < sla_ms < float("inf"):
        raise JobError(f"{where}sla_ms is {sla_ms!r}; give milliseconds above 0")
    lanes, kind = known.get("lanes"), device.kind if device is not None else DeviceKind.CORE
    most = len(machine.cores) if kind is DeviceKind.CORE else sys.maxsize
    if lanes is not None and not 1 <= lanes <= most:
        raise JobError(f"{where}lanes is {lanes}; give 1 to {len(machine.cores)}, the cores here")
    tracker, _, key = device.address.rpartition(":") if device is not None else ("", "", "")
    params = known.get("params", "")
    return JobOrder(
        spec=JobSpec(
            name=name,
            model=_model(model, folder),
            config=known.get("config", ""),
            device=device.name if device is not None else "",
            trials=_trials(config),
            sla_ms=sla_ms,
        ),
        work=TuneWork(
            config=config,
            params=str(folder / params) if params else "",
            target=known.get("target", "cuda" if kind is DeviceKind.GPU else ""),
            lanes=lanes,
            rpc_tracker=tracker,
            rpc_key=key,
        ),
    )


def _config(
    file: str | None, inline: Mapping[str, Any], folder: Path, where: str
) -> Mapping[str, Any]:
    """The tables of a job's configuration, known to be right."""
    if file is not None and inline:
        raise JobError(
            f"{where}config is {file!r}, and {', '.join(inline)} stand beside it; keep one of both"
        )
    tables = dict(inline)
    if file is not None:
        path = _found(file, folder)
        TuneConfig.load(path)
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    try:
        TuneConfig.of_tables(tables)
    except OptionError as error:
        raise JobError(f"{where}{error}") from error
    return tables


def _chosen(name: str, machine: Machine, where: str) -> Device | None:
    """The device that a job must have; None: any."""
    by_name = {device.name: device for device in machine.devices}
    if name:
        if name not in by_name:
            raise JobError(f"{where}there is no device {name!r}; there are {', '.join(by_name)}")
        return by_name[name]
    if len(by_name) == 1:
        return machine.devices[0]
    if any(device.kind is not DeviceKind.CORE for device in machine.devices):
        raise JobError(
            f"{where}it is tuned for one device; name one of {', '.join(by_name)}: "
            f'device = "{machine.devices[0].name}"'
        )
    return None


def _model(name: str, folder: Path) -> str:
    """A network's name, or the path of a file."""
    if not Path(name).suffix:
        return name
    found = _found(name, folder)
    if not found.exists():
        raise JobError(f"there is no model {found}; name a network, or a file that is there")
    return str(found)


def _trials(config: Mapping[str, Any]) -> int | None:
    """Candidates of a whole job, where its configuration says how many; AutoTVM's are a task's."""
    tuning = config.get("tuning", {})
    if tuning.get("backend") != "auto_scheduler":
        return None
    trials: int | None = tuning.get("trials")
    return trials


def _found(name: str, folder: Path) -> Path:
    """A file beside the one that names it, else one in the present folder."""
    beside = folder / name
    return (beside if beside.exists() else Path(name)).resolve()


def _checked(table: Mapping[str, Any], hints: Mapping[str, Any], where: str) -> dict[str, Any]:
    require_known(table, tuple(hints), where)
    try:
        return {key: known_value(key, value, hints[key]) for key, value in table.items()}
    except OptionError as error:
        raise JobError(f"{where}{error}") from error


def _member(kind: type[MemberT], value: Any, where: str) -> MemberT:
    for member in kind:
        if member.value == value:
            return member
    names = ", ".join(f'"{member.value}"' for member in kind)
    raise JobError(f"{where} is {value!r}; choose from {names}")


def _table(value: Any, name: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise JobError(f"{name} is {value!r}; make it a table, [{name}]")
    return value


def _rows(value: Any, name: str) -> list[Mapping[str, Any]]:
    if not isinstance(value, list) or not all(isinstance(row, dict) for row in value):
        raise JobError(f"{name} is no list of tables; begin each with [[{name}]]")
    return value


def _require_jobs(names: Sequence[str]) -> None:
    if not names:
        raise JobError('there is no job; add [[job]] with model = "squeezenet"')
    for name, count in Counter(names).items():
        if count > 1:
            raise JobError(
                f"job {name!r} is there {count} times; give each a name of its own: "
                f'name = "{name}-2"'
            )
