"""A grid as a file: lists of values, and the cells that their product has.

Free of TVM, so that every cell of a grid is checked before the first one runs.
"""

from __future__ import annotations

import copy
import hashlib
import itertools
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from tvm_ios.driver.config import TOP_KEYS, TuneConfig
from tvm_ios.driver.input_shapes import InputShapes
from tvm_ios.errors import JobError, OptionError
from tvm_ios.jobs.core.limits import Limits
from tvm_ios.jobs.core.policies import PolicyName
from tvm_ios.jobs.core.resources import Device
from tvm_ios.jobs.device_tables import read_devices
from tvm_ios.jobs.scheduler_table import ExecutorName, SchedulerTable, read_scheduler
from tvm_ios.jobs.table_values import rows_of
from tvm_ios.support.near_name import did_you_mean
from tvm_ios.support.stored_value import UnreadableValueError
from tvm_ios.support.toml_tables import read_toml
from tvm_ios.support.whole_number import require_whole

__all__ = ["CELL_KEYS", "Cell", "GridFile", "Value"]

Value = str | int | float | bool
"""Value of a parameter, as TOML has it."""
CELL_KEYS = ("model", "input_shapes", "batch_size", "target", "lanes", "sla_ms")
"""Parameters of a cell that no configuration file has."""
SHORT = {"tuner": "tuning.backend", "trials": "tuning.trials"}
"""Short names of keys of configuration files."""
FILE_KEYS = (
    "base",
    "cell_timeout_s",
    "device",
    "grid",
    "repeats",
    "scheduler",
    "servers",
    "shared_cache",
)
ONE_BY_ONE = SchedulerTable(policy=PolicyName.FIFO, limits=Limits(max_active=1))
"""A cell begins when the one before it is over, and has all cores."""
MOST_CELLS = 10_000
LONGEST_STEM = 60
_ODD = re.compile(r"^[.+-]|[^A-Za-z0-9_.+-]")
"""Characters that names of jobs do not have."""
STARTED_BY_US = "127.0.0.1:1"
"""Stands for a tracker that is yet to be started, where cells are only checked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A combination of values, in one of its repeats."""

    parameters: Mapping[str, Value]
    """Values by name, as the grid file has them, in its order."""
    repeat: int
    """Repeat number, from 1."""
    base: Mapping[str, Any]
    """Tables of the configuration that all cells have in common."""

    @property
    def cell_id(self) -> str:
        """Name of the cell's result and job: the same wherever values and base are the same."""
        said = json.dumps([dict(self.parameters), self.base], sort_keys=True)
        digest = hashlib.sha256(said.encode()).hexdigest()[:12]
        stem = _ODD.sub("_", Path(str(self.parameters["model"])).stem)[:LONGEST_STEM]
        return f"{stem}-{digest}-r{self.repeat}"

    @property
    def tables(self) -> dict[str, Any]:
        """The whole configuration: the base, with the cell's own values over it."""
        tables = copy.deepcopy(dict(self.base))
        for name, value in self.parameters.items():
            if name in CELL_KEYS:
                continue
            *path, key = SHORT.get(name, name).split(".")
            table: Any = tables
            for part in path:
                table = table.setdefault(part, {})
                if not isinstance(table, dict):
                    raise OptionError(f"{part} is {table!r} in the base, so there is no {name!r}")
            table[key] = value
        return tables

    @property
    def wants_device(self) -> bool:
        """Whether it is measured on a device whose tracker we start: a key without a tracker."""
        device = self.tables.get("device", {})
        return bool(device.get("rpc_key")) and not device.get("rpc_tracker")

    def tables_with(self, tracker: str | None) -> dict[str, Any]:
        """The whole configuration, with the address of the tracker started for the grid."""
        tables = self.tables
        if self.wants_device:
            tables["device"]["rpc_tracker"] = tracker or STARTED_BY_US
        return tables

    def as_text(self) -> str:
        """The values and the repeat, on one line."""
        values = " ".join(f"{name}={value}" for name, value in self.parameters.items())
        return f"{values} repeat {self.repeat}"


@dataclass(frozen=True, slots=True, kw_only=True)
class GridFile:
    """Everything that a grid file says.

    Raises
    ------
    OptionError
        If a value makes no sense.
    """

    path: Path
    grid: Mapping[str, tuple[Value, ...]]
    """Values by parameter; their product, the last one changing fastest, are the cells."""
    base: Mapping[str, Any] = field(default_factory=dict)
    """Tables of a configuration that all cells have in common."""
    repeats: int = 1
    """Number of runs of each cell; one repeat of all goes before the next."""
    servers: int = 1
    """Servers to start beside the tracker, where cells name a key of devices and no tracker."""
    shared_cache: bool = False
    """Whether cells share the cache folder. Compiled kernels and prices of one cell make the next
    faster then, so that seconds of different cells do not compare."""
    cell_timeout_s: float | None = None
    """Seconds after which a cell is ended, and counts as failed."""
    scheduler: SchedulerTable = ONE_BY_ONE
    """Policy and limits by which cells share cores and devices."""
    devices: tuple[Device, ...] = ()
    """Devices that cells are measured on; those that they need besides are added."""

    def __post_init__(self) -> None:
        require_whole("repeats", self.repeats, least=1)
        cells = self.repeats * math.prod(map(len, self.grid.values()))
        if cells > MOST_CELLS:
            raise OptionError(
                f"has {cells} cells, more than {MOST_CELLS}; leave out values or repeats"
            )
        require_whole("servers", self.servers, least=1)
        if not isinstance(self.shared_cache, bool):
            raise OptionError(f"shared_cache is {self.shared_cache!r}; give true or false")
        limit = self.cell_timeout_s
        number = isinstance(limit, int | float) and not isinstance(limit, bool)
        if limit is not None and (not number or not limit > 0):
            raise OptionError(f"cell_timeout_s is {limit!r}; give seconds above 0")

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a grid file and check all of its cells."""
        path = Path(path)
        try:
            grid = cls._of(path, read_toml(path))
            for cell in grid.cells():
                _check(cell)
        except (OSError, UnicodeDecodeError) as error:
            raise OptionError(f"cannot read the grid {path}: {error}; give a TOML file") from error
        except (JobError, OptionError, UnreadableValueError) as error:
            raise OptionError(f"{path}: {error}") from error
        return grid

    @classmethod
    def _of(cls, path: Path, data: dict[str, Any]) -> Self:
        unknown = [key for key in data if key not in FILE_KEYS]
        if unknown:
            raise OptionError(
                f"has no key {unknown[0]!r}; there are {', '.join(FILE_KEYS)}"
                f"{did_you_mean(unknown[0], FILE_KEYS)}"
            )
        lists = data.pop("grid", None)
        if not isinstance(lists, dict) or "model" not in lists:
            raise OptionError('has no models; add [grid] with model = ["squeezenet"]')
        named = tuple(_flat(lists))
        _require_once([name for name, _ in named])
        grid = {name: _values(name, values) for name, values in named}
        base = _base(path, data.pop("base", {}))
        devices = read_devices(rows_of(data.pop("device", []), "device"), on_nodes=False)
        if "scheduler" in data:
            data["scheduler"] = _scheduler(data["scheduler"])
        return cls(path=path, grid=grid, base=base, devices=devices, **data)

    @property
    def results(self) -> Path:
        """The folder that results lie in: ``grid.results`` beside ``grid.toml``."""
        return self.path.with_suffix(".results")

    def cells(self) -> tuple[Cell, ...]:
        """The cells, in the order in which they run."""
        return tuple(
            Cell(
                parameters=dict(zip(self.grid, values, strict=True)), repeat=repeat, base=self.base
            )
            for repeat in range(1, self.repeats + 1)
            for values in itertools.product(*self.grid.values())
        )

    def model_path(self, model: str) -> str:
        """A model as it is named from anywhere: files are beside the grid file."""
        beside = self.path.resolve().parent / model
        return str(beside) if beside.is_file() else model


def _flat(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Names with dots: ``tuning.trials`` may also be written as a key of ``[grid.tuning]``."""
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _require_once(names: Sequence[str]) -> None:
    first: dict[str, str] = {}
    for name in names:
        key = SHORT.get(name, name)
        if key in first:
            raise OptionError(
                f"[grid] has {first[key]!r} and {name!r}, which are one key; leave out one of them"
            )
        first[key] = name


def _values(name: str, values: Any) -> tuple[Value, ...]:
    listed: Sequence[Any] = values if isinstance(values, list) else [values]
    if not listed:
        raise OptionError(f"[grid] {name} is an empty list; give at least one value")
    for value in listed:
        if not isinstance(value, Value):
            raise OptionError(f"[grid] {name} has {value!r}; give strings, numbers, true or false")
    # Python takes 1, 1.0 and True for equal, and here they are three values.
    if len({(type(value), value) for value in listed}) < len(listed):
        raise OptionError(f"[grid] {name} has a value twice; repeats says how often cells are run")
    return tuple(listed)


def _scheduler(table: Any) -> SchedulerTable:
    scheduler = read_scheduler(table)
    if scheduler.executor is not ExecutorName.LOCAL:
        raise OptionError(
            f"[scheduler] executor is {scheduler.executor.value!r}; cells run on this machine: "
            'leave it out, or write their jobs into a file for "tvm-ios jobs run"'
        )
    return scheduler


def _base(path: Path, base: Any) -> dict[str, Any]:
    if isinstance(base, dict):
        return base
    if not isinstance(base, str):
        raise OptionError(f"base is {base!r}; give a file such as tuned.toml, or a table [base]")
    file = path.parent / base
    try:
        return read_toml(file)
    except (OSError, ValueError) as error:
        raise OptionError(f"base: cannot read {file}: {error}") from error


def _check(cell: Cell) -> None:
    """Refuse a cell whose values nobody can honour; whether there is such a model is seen later."""
    for name in cell.parameters:
        if name not in (*CELL_KEYS, *TOP_KEYS) and "." not in SHORT.get(name, name):
            known = ", ".join([*CELL_KEYS, *SHORT, *TOP_KEYS])
            raise OptionError(
                f"[grid] has no key {name!r}; there are {known}, and keys of configuration files "
                f"such as 'tuning.trials'{did_you_mean(name, known.split(', '))}"
            )
    if "lanes" in cell.parameters:
        require_whole("[grid] lanes", cell.parameters["lanes"], least=1)
    batch_size = cell.parameters.get("batch_size")
    if batch_size is not None:
        batch_size = require_whole("[grid] batch_size", batch_size, least=1)
    InputShapes.parse(str(cell.parameters.get("input_shapes", "")), batch_size)
    for name in ("model", "target"):
        value = cell.parameters.get(name, "")
        if not isinstance(value, str):
            raise OptionError(f"[grid] {name} has {value!r}; give strings")
    config = TuneConfig.of_tables(cell.tables_with(None))
    if "sla_ms" in cell.parameters and config.tuning is None:
        raise OptionError(
            "[grid] sla_ms is for cells that are tuned; give tuner = ['autotvm'] or "
            "['auto_scheduler']"
        )
