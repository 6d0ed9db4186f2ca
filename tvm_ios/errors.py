"""The exceptions of tvm-ios, all in one place.

::

    TvmIosError
    ├── GraphError            an operator graph breaks a rule
    ├── ScheduleError         a schedule breaks a rule or belongs to another graph
    ├── ProblemError          a recorded scheduling problem cannot be read
    ├── OptionError           an option has a value nobody can honour
    ├── SearchError           the search cannot go on
    ├── CostError             a stage cannot be priced
    │   ├── DatabaseError     a profile database cannot be read or written
    │   ├── OutOfTimeError    a time budget ended a measurement
    │   └── LostSessionError  a device went away while stages were measured on it
    ├── PlanError             an execution plan breaks a rule
    ├── ExecutionError        an operator failed while a plan ran
    ├── ArtifactError         an exported file is unreadable or made for something else
    ├── ModelError            a module cannot be prepared or lowered
    ├── HostError             TVM, the C compiler or a device is missing or unfit
    ├── RecordError           a log of tuning records cannot be read or written
    ├── TuningError           a tuner, a worker or a tracker is missing or fails
    │   └── DeviceLostError   a device no longer answers; its batch is measured on another
    │       └── LostSessionError
    └── JobError              a job, a device or a core cannot be scheduled
        └── UnknownJobError   nobody submitted a job of this name

A message says what is wrong, where (operator, stage, group, file), the values, and the next step.
"""

from __future__ import annotations

__all__ = [
    "ArtifactError",
    "CostError",
    "DatabaseError",
    "DeviceLostError",
    "ExecutionError",
    "GraphError",
    "HostError",
    "JobError",
    "LostSessionError",
    "ModelError",
    "OptionError",
    "OutOfTimeError",
    "PlanError",
    "ProblemError",
    "RecordError",
    "ScheduleError",
    "SearchError",
    "TuningError",
    "TvmIosError",
    "UnknownJobError",
]


class TvmIosError(Exception):
    """Base class of every error that tvm-ios raises on purpose."""


class GraphError(TvmIosError):
    """An operator graph breaks a rule."""


class ScheduleError(TvmIosError):
    """A schedule breaks a rule or belongs to another graph."""


class ProblemError(TvmIosError):
    """A recorded scheduling problem cannot be read."""


class OptionError(TvmIosError):
    """An option has a value nobody can honour."""


class SearchError(TvmIosError):
    """The search cannot go on."""


class CostError(TvmIosError):
    """A stage cannot be priced."""


class DatabaseError(CostError):
    """A profile database cannot be read or written."""


class OutOfTimeError(CostError):
    """A time budget ended a measurement; prices so far are kept."""


class PlanError(TvmIosError):
    """An execution plan breaks a rule."""


class ExecutionError(TvmIosError):
    """An operator failed while a plan ran."""


class ArtifactError(TvmIosError):
    """An exported file is unreadable or made for something else."""


class ModelError(TvmIosError):
    """A module cannot be prepared or lowered."""


class HostError(TvmIosError):
    """TVM, the C compiler or a device is missing or unfit."""


class RecordError(TvmIosError):
    """A log of tuning records cannot be read or written."""


class TuningError(TvmIosError):
    """A tuner, a worker or a tracker is missing or fails."""


class DeviceLostError(TuningError):
    """A device no longer answers; its batch is measured on another."""


class LostSessionError(CostError, DeviceLostError):
    """A device went away while stages were measured on it; prices so far are kept."""


class JobError(TvmIosError):
    """A job, a device or a core cannot be scheduled."""


class UnknownJobError(JobError):
    """Nobody submitted a job of this name."""
