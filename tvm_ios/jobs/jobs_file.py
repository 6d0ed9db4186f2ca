"""``jobs.toml``: what the machine has, how it is shared, and the jobs.

``[scheduler]`` and ``[[device]]`` may be left out, a ``[[job]]`` needs a ``model``. Free of TVM, so
that a bad file is refused before anything is loaded.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tvm_ios.driver.config import TOP_KEYS, TuneConfig
from tvm_ios.driver.input_shapes import InputShapes
from tvm_ios.errors import JobError, OptionError
from tvm_ios.jobs.core.job_state import JobSpec
from tvm_ios.jobs.core.resources import Device, DeviceKind, Machine
from tvm_ios.jobs.device_tables import read_devices, usual_device, wished_device
from tvm_ios.jobs.order import JobOrder
from tvm_ios.jobs.scheduler_table import ExecutorName, SchedulerTable, read_scheduler
from tvm_ios.jobs.table_values import checked, rows_of
from tvm_ios.jobs.tune_work import TuneWork
from tvm_ios.support.near_name import require_known
from tvm_ios.support.toml_tables import read_toml

__all__ = ["JobsFile", "read_jobs_file", "read_orders_file"]

_CONFIG_KEYS = (
    *TOP_KEYS,
    *("search", "measure", "compare", "conversion", "precision", "build", "tuning"),
)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class JobsFile:
    """The contents of a jobs file."""

    scheduler: SchedulerTable
    machine: Machine
    """The daemon's own machine; without devices where workers run elsewhere."""
    orders: tuple[JobOrder, ...]
    devices: tuple[Device, ...] = ()
    """Devices on nodes of a cluster."""


def read_jobs_file(path: Path) -> JobsFile:
    """Read a file. Paths in it are relative to its folder."""
    with _tables_of(path) as tables:
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
            orders = _read_orders(tables, machine, path.parent)
    return JobsFile(
        scheduler=scheduler, machine=machine, orders=orders, devices=devices if remote else ()
    )


def read_orders_file(path: Path, machine: Machine) -> tuple[JobOrder, ...]:
    """Read the jobs of a file for a machine that is there already.

    What the file says of scheduler and devices is passed over.
    """
    with _tables_of(path) as tables:
        return _read_orders(tables, machine, path.parent)


@contextmanager
def _tables_of(path: Path) -> Iterator[Mapping[str, Any]]:
    """The tables of a file; inside, errors name it."""
    try:
        tables = read_toml(path)
    except (OSError, ValueError) as error:
        raise JobError(f"cannot read the jobs in {path}: {error}; see docs/jobs.md") from error
    try:
        yield tables
    except (JobError, OptionError) as error:
        raise JobError(f"{path}: {error}") from error


def _read_orders(tables: Mapping[str, Any], machine: Machine, folder: Path) -> tuple[JobOrder, ...]:
    if any(not device.node for device in machine.devices):
        return _orders(tables, machine.devices, folder, len(machine.cores), on_nodes=False)
    # Of a cluster what nobody named counts for no more than it did when it was served.
    named = [device for device in machine.devices if device.name != device.node]
    return _orders(tables, named, folder, sys.maxsize, on_nodes=True)


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
            params=_file(params, folder, "file of parameters") if params else "",
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
        tables = read_toml(path)
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
    return _file(name, folder, "model")


def _file(name: str, folder: Path, what: str) -> str:
    found = _found(name, folder)
    if not found.is_file():
        raise JobError(f"there is no {what} {found}; name a file that is there")
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
