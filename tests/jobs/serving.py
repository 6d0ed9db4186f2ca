"""``python -m tests.jobs.serving run|serve BATCHES NAME...``: a daemon with scripted jobs."""

from __future__ import annotations

import argparse
import sys
from functools import partial

from tests.jobs.runs import MACHINE, mock_order
from tvm_ios.jobs.core.job_state import JobState
from tvm_ios.jobs.daemon.serve import run_daemon
from tvm_ios.jobs.jobs_file import JobsFile
from tvm_ios.jobs.scheduler_table import SchedulerTable
from tvm_ios.jobs.state_folder import StateFolder

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("verb", choices=["run", "serve"])
    parser.add_argument("batches", type=int)
    parser.add_argument("names", nargs="+")
    given = parser.parse_args()
    orders = tuple(mock_order(name, given.batches, burns=True) for name in given.names)
    file = JobsFile(scheduler=SchedulerTable(), machine=MACHINE, orders=orders)
    tell = partial(print, flush=True)
    try:
        jobs = run_daemon(file, StateFolder(), stays=given.verb == "serve", tell=tell)
    except KeyboardInterrupt:
        sys.exit(130)
    sys.exit(any(job.state is not JobState.DONE for job in jobs))
