"""A daemon whose cluster loses its head: ``python -m tests.jobs.ray.lost_head``.

Its words are a folder, the cluster's address and the process that the cluster cannot be without. It
says why the daemon could not go on.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from tests.jobs.ray.clusters import run_on_cluster
from tests.jobs.runs import mock_order
from tvm_ios.errors import JobError
from tvm_ios.jobs.ray import workers
from tvm_ios.jobs.state_folder import StateFolder
from tvm_ios.support.stage_gate import StageKind

ORDER = mock_order("long", 3, profile_s=30.0)


def main(folder, address, head):
    workers.HEAD_SILENT_S = 2.0

    async def act(run):
        run.daemon.submit([ORDER])
        await run.until_in("long", StageKind.PROFILE)
        os.kill(head, signal.SIGKILL)
        await run.daemon.all_ended()

    try:
        run_on_cluster(act, address, folder)
    except JobError as error:
        print(error)


if __name__ == "__main__":
    main(StateFolder(Path(sys.argv[1])), sys.argv[2], int(sys.argv[3]))
