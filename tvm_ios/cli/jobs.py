"""``tvm-ios jobs``: tunes many models on shared cores and devices."""

from __future__ import annotations

import argparse
import json
import logging
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tvm_ios.errors import JobError, OptionError, UnknownJobError
from tvm_ios.jobs.core.job_state import JobState
from tvm_ios.jobs.core.resources import Machine
from tvm_ios.jobs.core.status import JobStatus
from tvm_ios.jobs.daemon.daemon import sole_daemon
from tvm_ios.jobs.daemon.serve import run_daemon
from tvm_ios.jobs.daemon.service import (
    AskMachine,
    AskStatus,
    AskTrace,
    CancelJob,
    JobStatuses,
    SubmitJobs,
    Submitted,
    TracedStages,
)
from tvm_ios.jobs.daemon.unix_socket import ask_daemon
from tvm_ios.jobs.jobs_file import JobsFile, read_jobs_file, read_orders_file
from tvm_ios.jobs.local.agent import log_path
from tvm_ios.jobs.state_folder import StateFolder
from tvm_ios.jobs.status_table import status_table
from tvm_ios.jobs.store import JobStore
from tvm_ios.jobs.timeline import timeline_json
from tvm_ios.jobs.timeline_figure import draw_timeline
from tvm_ios.support.json_nouns import noun_record

if TYPE_CHECKING:
    from tvm_ios.cli.main import Subparsers

__all__ = ["add_parser", "run"]

_LOG = logging.getLogger(__name__)

EXIT_FAILED = 1


def add_parser(subparsers: Subparsers) -> None:
    """Declare the verb's verbs."""
    parser = subparsers.add_parser(
        "jobs",
        description="Tune many models on shared cores and devices. State lies in the folder jobs "
        "of the cache (TVM_IOS_CACHE_DIR): what is interrupted goes on.",
    )
    verbs = parser.add_subparsers(metavar="VERB", required=True, dest="jobs_verb")
    file = argparse.ArgumentParser(add_help=False)
    file.add_argument("file", type=Path, metavar="FILE", help="jobs in TOML, such as jobs.toml")
    name = argparse.ArgumentParser(add_help=False)
    name.add_argument("name", metavar="NAME", help="the job's")
    verbs.add_parser("run", parents=[file], help="run a file's jobs, and leave when all have ended")
    verbs.add_parser("serve", parents=[file], help="run a file's jobs, and wait for more")
    verbs.add_parser("submit", parents=[file], help="give a file's jobs to whoever serves")
    status = verbs.add_parser("status", help="how all jobs stand")
    status.add_argument("--json", action="store_true", help="as a list in JSON")
    verbs.add_parser("logs", parents=[name], help="print what a job's workers printed")
    verbs.add_parser("cancel", parents=[name], help="end a job")
    trace = verbs.add_parser("trace", help="write who had which core when")
    trace.add_argument(
        "output", type=Path, metavar="FILE", nargs="?", help="Chrome JSON, for ui.perfetto.dev"
    )
    trace.add_argument("--figure", type=Path, metavar="FILE", help="a picture of the latest run")


def run(arguments: argparse.Namespace) -> int:
    """Run the chosen verb; return 0 when it is done, 1 if a job that was run has failed."""
    return _VERBS[arguments.jobs_verb](arguments, StateFolder())


def _run(arguments: argparse.Namespace, folder: StateFolder) -> int:
    file = read_jobs_file(arguments.file)
    jobs = _daemon(arguments.file, file, folder, verb="run")
    print(status_table(jobs).as_text())
    names = {order.spec.name for order in file.orders}
    failed = [job for job in jobs if job.name in names and job.state is JobState.FAILED]
    for job in failed:
        print(
            f"tvm-ios: job {job.name} failed: {job.reason}; see tvm-ios jobs logs {job.name}",
            file=sys.stderr,
        )
    print(f"results are in {folder.jobs}")
    return EXIT_FAILED if failed else 0


def _serve(arguments: argparse.Namespace, folder: StateFolder) -> int:
    _daemon(arguments.file, read_jobs_file(arguments.file), folder, verb="serve")
    return 0


def _daemon(path: Path, file: JobsFile, folder: StateFolder, *, verb: str) -> Sequence[JobStatus]:
    try:
        return run_daemon(file, folder, stays=verb == "serve", tell=_LOG.warning)
    except KeyboardInterrupt as interrupt:
        interrupt.add_note(
            f"all that was measured is kept; tvm-ios jobs {verb} {path} goes on from there"
        )
        raise


def _submit(arguments: argparse.Namespace, folder: StateFolder) -> int:
    answer = ask_daemon(folder, AskMachine())
    if isinstance(answer, Machine):
        answer = ask_daemon(folder, SubmitJobs(read_orders_file(arguments.file, answer)))
    if not isinstance(answer, Submitted):
        raise JobError(
            f"no daemon serves {folder.path}; start one: tvm-ios jobs serve {arguments.file}"
        )
    print(f"submitted: {', '.join(answer.names) or 'nothing, all were known'}")
    return 0


def _status(arguments: argparse.Namespace, folder: StateFolder) -> int:
    answer = ask_daemon(folder, AskStatus())
    jobs = answer.jobs if isinstance(answer, JobStatuses) else _stored_status(folder)
    if arguments.json:
        print(json.dumps([noun_record(JobStatus, job) for job in jobs], indent=1))
    else:
        print(status_table(jobs).as_text())
    return 0


def _logs(arguments: argparse.Namespace, folder: StateFolder) -> int:
    path = log_path(folder.jobs / arguments.name)
    try:
        log = path.open(encoding="utf-8", errors="replace")
    except OSError as error:
        names = ", ".join(job.name for job in _stored_status(folder))
        raise JobError(
            f"job {arguments.name!r} has no log, {path} ({error.strerror}); jobs are {names}"
        ) from error
    with log:
        shutil.copyfileobj(log, sys.stdout)
    return 0


def _cancel(arguments: argparse.Namespace, folder: StateFolder) -> int:
    if ask_daemon(folder, CancelJob(arguments.name)) is None:
        _cancel_stored(arguments.name, folder)
    print(f"cancelled: {arguments.name}")
    return 0


def _trace(arguments: argparse.Namespace, folder: StateFolder) -> int:
    if arguments.output is None and arguments.figure is None:
        raise OptionError("name a FILE for the trace, or --figure FILE for a picture, or both")
    answer = ask_daemon(folder, AskTrace())
    machine = None
    if isinstance(answer, TracedStages):
        machine, spans = answer.machine, answer.spans
    else:
        with JobStore(_database(folder)) as store:
            spans = store.spans()
    now_s = time.time()
    if arguments.output is not None:
        _write(arguments.output, timeline_json(machine, spans, now_s=now_s) + "\n")
        print(f"wrote {arguments.output}; open it at https://ui.perfetto.dev")
    if arguments.figure is not None:
        draw_timeline(machine, spans, arguments.figure, now_s=now_s)
        print(f"drew {arguments.figure}")
    return 0


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise JobError(
            f"cannot write {path}: {error.strerror}; name a file in a folder that is there and "
            "writable"
        ) from error


_VERBS: Mapping[str, Callable[[argparse.Namespace, StateFolder], int]] = {
    "run": _run,
    "serve": _serve,
    "submit": _submit,
    "status": _status,
    "logs": _logs,
    "cancel": _cancel,
    "trace": _trace,
}


def _stored_status(folder: StateFolder) -> tuple[JobStatus, ...]:
    with JobStore(_database(folder)) as store:
        return tuple(job.status() for job in store.jobs())


def _cancel_stored(name: str, folder: StateFolder) -> None:
    """Cancel a job while no daemon lives."""
    with sole_daemon(folder), JobStore(_database(folder)) as store:
        states = {job.order.spec.name: job.state for job in store.jobs()}
        if name not in states:
            names = ", ".join(states) or "none"
            raise UnknownJobError(f"there is no job {name!r}; there are {names}")
        if not states[name].ended:
            store.change(name, JobState.CANCELLED, "", time.time())


def _database(folder: StateFolder) -> Path:
    if not folder.database.exists():
        raise JobError(
            f"there are no jobs in {folder.path}; start some: tvm-ios jobs run jobs.toml, or set "
            "TVM_IOS_CACHE_DIR to the folder that was used"
        )
    return folder.database
