"""The folder that holds the state of all jobs."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path

from tvm_ios.errors import JobError
from tvm_ios.support.cache_folder import cache_directory, own_folder

__all__ = ["DAEMON_MARK", "StateFolder"]

DAEMON_MARK = "TVM_IOS_JOBS"
"""Environment variable that all processes of a daemon inherit; its value tells the folder."""


@dataclass(frozen=True, slots=True)
class StateFolder:
    """``jobs`` in the cache folder of tvm-ios, or another folder."""

    path: Path = field(default_factory=lambda: own_folder(cache_directory() / "jobs"))

    @property
    def database(self) -> Path:
        """The file of all jobs that were submitted, and of how far each is."""
        return self.path / "jobs.sqlite"

    @property
    def lock(self) -> Path:
        """Locked by the daemon, if one lives; holds its process id."""
        return self.path / "daemon.lock"

    @property
    def socket(self) -> Path:
        """The Unix socket on which the daemon listens."""
        return self.path / "daemon.sock"

    @property
    def jobs(self) -> Path:
        """A folder for each job, with its log and its result."""
        return self.path / "work"

    @property
    def mark(self) -> str:
        """The mark that all processes of its daemons carry in their environment."""
        return hashlib.sha256(str(self.path.resolve()).encode()).hexdigest()[:32]

    def make(self) -> None:
        """Make it where it is missing."""
        try:
            self.jobs.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise JobError(
                f"cannot keep jobs in {self.path}: {error}; set TVM_IOS_CACHE_DIR to a folder you "
                "can write"
            ) from error
