"""``python -m tests.jobs.local.serving run|serve BATCHES NAME...``: a daemon with scripted jobs."""

from __future__ import annotations

import sys

from tests.jobs.local.runs import MACHINE, mock_order
from tvm_ios.jobs.core.job_state import JobState
from tvm_ios.jobs.jobs_file import JobsFile, SchedulerTable
from tvm_ios.jobs.local.serve import run_daemon
from tvm_ios.jobs.state_folder import StateFolder

if __name__ == "__main__":
    verb, batches, *names = sys.argv[1:]
    orders = tuple(mock_order(name, int(batches), burns=True) for name in names)
    file = JobsFile(scheduler=SchedulerTable(), machine=MACHINE, orders=orders)
    try:
        jobs = run_daemon(file, StateFolder(), stays=verb == "serve", tell=print)
    except KeyboardInterrupt:
        sys.exit(130)
    sys.exit(any(job.state is not JobState.DONE for job in jobs))
