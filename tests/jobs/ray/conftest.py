"""The Ray cluster that tests share."""

from __future__ import annotations

import pytest

pytest.importorskip("ray.cluster_utils")

from tests.jobs.ray.clusters import running_cluster


@pytest.fixture(scope="module")
def ray_cluster(project_root):
    with running_cluster(project_root) as cluster:
        yield cluster
