"""Origin of stored numbers: command, commit, machine, versions and time of a measurement."""

from __future__ import annotations

import platform
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Self

from tvm_ios.host.machine import machine_facts, package_version, source_commit, version_facts
from tvm_ios.support.stored_value import StoredValue

__all__ = ["Measurement", "now_text", "program_command", "text_fields", "versions_here"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """Origin of a stored number; records of all kinds derive from it."""

    command: str
    """Command that makes the record."""
    machine: Mapping[str, str]
    """Facts of the machine: processor, cores, memory, kernel, …."""
    versions: Mapping[str, str]
    """Versions of tvm-ios, TVM, LLVM, Python, …."""
    taken_at: str
    """Time of the measurement, ISO 8601, in UTC."""
    commit: str = ""
    """Commit of tvm-ios, ``-dirty`` where files differ from it; empty where it is not known."""

    @classmethod
    def here(cls, command: str, **others: Any) -> Self:
        """Measurement of this moment, on this machine.

        Parameters
        ----------
        others
            Fields of a class that derives from this one, and those to have another value.
        """
        found = {
            "machine": machine_facts(),
            "versions": versions_here(),
            "taken_at": now_text(),
            "commit": source_commit(),
        }
        return cls(command=command, **(found | others))

    @property
    def processor(self) -> str:
        """Name of the processor; empty where it is not known."""
        return self.machine.get("processor", "")

    def origin(self) -> dict[str, Any]:
        """Plain data for JSON: the fields that all measurements have."""
        return {
            "command": self.command,
            "machine": dict(self.machine),
            "versions": dict(self.versions),
            "taken_at": self.taken_at,
            "commit": self.commit,
        }

    @staticmethod
    def read_origin(stored: StoredValue) -> dict[str, Any]:
        """Fields of :meth:`origin` in a stored record; older ones have no commit."""
        commit = stored.optional_field("commit")
        return {
            "command": stored.field("command").text(),
            "machine": text_fields(stored.field("machine")),
            "versions": text_fields(stored.field("versions")),
            "taken_at": stored.field("taken_at").text(),
            "commit": "" if commit is None else commit.text(),
        }


def text_fields(stored: StoredValue) -> dict[str, str]:
    """Texts of a stored object, by name."""
    return {name: value.text() for name, value in stored.fields().items()}


def now_text() -> str:
    """Time of this moment, ISO 8601, in UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def program_command(module: str) -> str:
    """Command line of this process, which runs a module of the lab."""
    return shlex.join(("python", "-m", module, *sys.argv[1:]))


def versions_here() -> dict[str, str]:
    """Versions of tvm-ios and Python, and of TVM where something has loaded it."""
    if "tvm" in sys.modules:
        return version_facts()
    return {"tvm-ios": package_version(), "python": platform.python_version()}
