"""A daemon whose cluster loses its head: ``python -m tests.jobs.ray.lost_head FOLDER``.

It says why the daemon could not go on.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.jobs.ray.clusters import run_on_cluster, running_cluster
from tests.jobs.runs import mock_order
from tvm_ios.errors import JobError
from tvm_ios.jobs.ray import workers
from tvm_ios.jobs.state_folder import StateFolder
from tvm_ios.support.stage_gate import StageKind

ORDER = mock_order("long", 3, profile_s=30.0)
ROOT = Path(__file__).resolve().parents[3]


def main(folder):
    workers.HEAD_SILENT_S = 2.0
    with running_cluster(ROOT, "a") as cluster:

        async def act(run):
            run.daemon.submit([ORDER])
            await run.until_in("long", StageKind.PROFILE)
            cluster.kill_head()
            await run.daemon.all_ended()

        try:
            run_on_cluster(act, cluster, folder)
        except JobError as error:
            print(error)


if __name__ == "__main__":
    main(StateFolder(Path(sys.argv[1])))
