"""What no list is shorter than."""

from __future__ import annotations

from tvm_ios.search.list_decoder import ListProblem


def lower_bound_ns(problem: ListProblem) -> int:
    """Time that no schedule of these tasks is below: the longest chain, and the work shared.

    A task that idle lanes help with counts as the smaller of its times on one lane and on all.
    """
    done_ns: list[int] = []
    work_ns = 0
    for task in problem.tasks:
        shortest_ns = min(task.alone_ns, task.helped_ns)
        begin_ns = max((done_ns[source.task] for source in task.sources), default=0)
        done_ns.append(begin_ns + shortest_ns)
        work_ns += min(task.alone_ns, problem.lanes * task.helped_ns)
    return max(0, -(-work_ns // problem.lanes), *done_ns)
