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
from typing import Any

from tvm_ios.driver.config import TuneConfig, require_known
from tvm_ios.driver.input_shapes import InputShapes
from tvm_ios.errors import JobError, OptionError
from tvm_ios.jobs.core.job_state import JobSpec
from tvm_ios.jobs.core.limits import Limits
from tvm_ios.jobs.core.policies import PolicyName
from tvm_ios.jobs.core.resources import Device, DeviceKind, Machine
from tvm_ios.jobs.device_tables import read_devices, usual_device, wished_device
from tvm_ios.jobs.order import JobOrder
from tvm_ios.jobs.table_values import checked, member, rows_of, table_of
from tvm_ios.jobs.tune_work import TuneWork

__all__ = [
    "ExecutorName",
    "JobsFile",
    "SchedulerTable",
    "read_jobs_file",
    "read_orders",
    "read_scheduler",
]

_CONFIG_KEYS = ("time_budget", "search", "measure", "compare", "conversion", "build", "tuning")
_SCHEDULER_KEYS: Mapping[str, Any] = {
    "policy": str,
    "executor": str,
    "ray_address": str,
    "max_active": int,
    "max_wait_s": float,
    "max_start_wait_s": float,
}
_JOB_KEYS: Mapping[str, Any] = {
    "name": str,
    "model": str,
    "params": str,
    "input_shapes": str,
    "batch_size": int,
    "config": str,
    "device": str,
    "rpc_key": str,
    "sla_ms": float,
    "lanes": int,
    "target": str,
}


class ExecutorName(Enum):
    """Where workers run."""

    LOCAL = "local"
    """On the machine of the daemon."""
    RAY = "ray"
    """On the nodes of a Ray cluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerTable:
    """``[scheduler]``."""

    policy: PolicyName = PolicyName.SLACK
    executor: ExecutorName = ExecutorName.LOCAL
    limits: Limits = field(default_factory=Limits)
    """With Ray, those of each node."""
    ray_address: str = ""
    """``HOST:PORT`` of a Ray cluster; empty: that of ``RAY_ADDRESS``, or of this machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobsFile:
    """All that a file says."""

    scheduler: SchedulerTable
    machine: Machine
    """The daemon's own; without devices where workers run elsewhere."""
    orders: tuple[JobOrder, ...]
    devices: tuple[Device, ...] = ()
    """Those on nodes of a cluster."""


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
        scheduler = read_scheduler(tables.get("scheduler", {}))
        remote = scheduler.executor is ExecutorName.RAY
        given = rows_of(tables.get("device", []), "device")
        devices = read_devices(given, on_nodes=remote)
        cores = tuple(sorted(os.sched_getaffinity(0)))
        here = () if remote else devices or (usual_device(cores),)
        machine = Machine(cores=cores, devices=here)
        if remote:
            orders = _orders(tables, devices, path.parent, sys.maxsize, on_nodes=True)
        else:
            orders = read_orders(tables, machine, path.parent)
    except (JobError, OptionError) as error:
        raise JobError(f"{path}: {error}") from error
    return JobsFile(
        scheduler=scheduler, machine=machine, orders=orders, devices=devices if remote else ()
    )


def read_orders(tables: Mapping[str, Any], machine: Machine, folder: Path) -> tuple[JobOrder, ...]:
    """The jobs of a file's tables, for a machine that is there already.

    Parameters
    ----------
    tables
        As ``tomllib`` reads them. What they say of scheduler and devices is passed over.
    machine
        What the jobs will share.
    folder
        Where relative paths lead from.

    Raises
    ------
    JobError, OptionError
        A key or a value is unfit; the message names thing and value.
    """
    return _orders(tables, machine.devices, folder, len(machine.cores), on_nodes=False)


def _orders(
    tables: Mapping[str, Any],
    devices: Sequence[Device],
    folder: Path,
    cores: int,
    *,
    on_nodes: bool,
) -> tuple[JobOrder, ...]:
    require_known(tables, ("scheduler", "device", "job"), "")
    rows = rows_of(tables.get("job", []), "job")
    orders = [_order(row, devices, folder, cores, on_nodes=on_nodes) for row in rows]
    _require_jobs([order.spec.name for order in orders])
    return tuple(orders)


def read_scheduler(table: Any) -> SchedulerTable:
    """How jobs share what there is.

    Parameters
    ----------
    table
        ``[scheduler]``, as ``tomllib`` reads it.

    Raises
    ------
    JobError
        If it is no table, or a key or a value is unfit.
    """
    known = checked(table_of(table, "scheduler"), _SCHEDULER_KEYS, "[scheduler] ")
    policy = member(PolicyName, known.pop("policy", "slack"), "[scheduler] policy")
    executor = member(ExecutorName, known.pop("executor", "local"), "[scheduler] executor")
    address = known.pop("ray_address", "")
    if address and executor is not ExecutorName.RAY:
        raise JobError(f'[scheduler] ray_address is {address!r}; say executor = "ray" as well')
    return SchedulerTable(
        policy=policy, executor=executor, limits=Limits(**known), ray_address=address
    )


def _order(
    table: Mapping[str, Any],
    devices: Sequence[Device],
    folder: Path,
    cores: int,
    *,
    on_nodes: bool,
) -> JobOrder:
    model = table.get("model")
    if not isinstance(model, str) or not model:
        raise JobError(
            f'a [[job]] has the model {model!r}; give a network or a file: model = "squeezenet"'
        )
    name = table.get("name", Path(model).stem)
    where = f"job {name!r}: "
    inline = {key: value for key, value in table.items() if key not in _JOB_KEYS}
    require_known(inline, _CONFIG_KEYS, where)
    known = checked({key: table[key] for key in table if key in _JOB_KEYS}, _JOB_KEYS, where)
    config = _config(known.get("config"), inline, folder, where)
    target = known.get("target", "")
    wish = wished_device(
        known.get("device", ""),
        known.get("rpc_key", ""),
        target,
        devices,
        where,
        on_nodes=on_nodes,
    )
    sla_ms = known.get("sla_ms")
    if sla_ms is not None and not 0 < sla_ms < float("inf"):
        raise JobError(f"{where}sla_ms is {sla_ms!r}; give milliseconds above 0")
    lanes = known.get("lanes")
    most = cores if wish.kind in (None, DeviceKind.CORE) else sys.maxsize
    if lanes is not None and not 1 <= lanes <= most:
        raise JobError(f"{where}lanes is {lanes}; give 1 to {cores}, the cores here")
    params = known.get("params", "")
    shapes, batch_size = known.get("input_shapes", ""), known.get("batch_size")
    _require_shapes(shapes, batch_size, where)
    return JobOrder(
        spec=JobSpec(
            name=name,
            model=_model(model, folder),
            config=known.get("config", ""),
            device=wish.name,
            kind=wish.kind,
            key=wish.key,
            trials=_trials(config),
            sla_ms=sla_ms,
        ),
        work=TuneWork(
            config=config,
            params=str(folder / params) if params else "",
            input_shapes=shapes,
            batch_size=batch_size,
            target=target or ("cuda" if wish.kind is DeviceKind.GPU else ""),
            lanes=lanes,
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


def _require_shapes(shapes: str, batch_size: int | None, where: str) -> None:
    try:
        InputShapes.parse(shapes, batch_size)
    except OptionError as error:
        raise JobError(f"{where}{error}") from error


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


def _require_jobs(names: Sequence[str]) -> None:
    if not names:
        raise JobError('there is no job; add [[job]] with model = "squeezenet"')
    for name, count in Counter(names).items():
        if count > 1:
            raise JobError(
                f"job {name!r} is there {count} times; give each a name of its own: "
                f'name = "{name}-2"'
            )
