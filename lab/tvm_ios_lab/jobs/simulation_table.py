"""Table of all policies on simulated machines: `python -m tvm_ios_lab.jobs.simulation_table`.

Writes `lab/results/jobs/simulation.json` and prints it as a table. Everything in the file
follows from the seeds; what an event costs lies beside it, in `event_cost.json`. Names of scenarios
as arguments, or parts of them, leave the others as they are in the files.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tvm_ios.jobs.core.limits import Limits
from tvm_ios.jobs.core.policies import PolicyName, policy_named
from tvm_ios.jobs.core.scheduler import Scheduler
from tvm_ios_lab.jobs.simulation.scenarios import SCENARIOS, Knowledge, Scenario, compare
from tvm_ios_lab.measurement import Measurement, program_command
from tvm_ios_lab.places import RESULTS

TABLE = RESULTS / "jobs" / "simulation.json"
COSTS = TABLE.with_name("event_cost.json")
CONTESTANTS = {policy.value: (policy, Knowledge.RIGHT) for policy in PolicyName} | {
    "slack, estimates wrong by two": (PolicyName.SLACK, Knowledge.WRONG),
    "slack, nothing known before": (PolicyName.SLACK, Knowledge.NONE),
}
MANY_JOBS = 100


def seeds(scenario: Scenario) -> range:
    """A thousand jobs are a mean already."""
    return range(1 if scenario.jobs > MANY_JOBS else 3)


def row(scenario: Scenario, contestant: str) -> dict[str, float]:
    """Means over the seeds, rounded to what is shown."""
    policy, known = CONTESTANTS[contestant]
    outcomes = [asdict(compare(scenario, policy, seed, known)[1]) for seed in seeds(scenario)]
    return {
        name: round(statistics.mean(outcome[name] for outcome in outcomes), 4)
        for name in outcomes[0]
    }


def table(results: dict[str, dict[str, dict[str, float]]]) -> Iterator[str]:
    """Lines of a Markdown table."""
    yield "| | " + " | ".join(results) + " |"
    yield "|---" * (len(results) + 1) + "|"
    for contestant in CONTESTANTS:
        cells = []
        for rows in results.values():
            own, base = rows[contestant], rows["sequential"]
            faster = base["makespan_s"] / own["makespan_s"]
            sooner = own["mean_completion_s"] / base["mean_completion_s"]
            cells.append(
                f"{faster:.2f} / {own['busy']:.2f} / {sooner:.2f} / {own['over_bound']:.2f}"
            )
        yield f"| {contestant} | " + " | ".join(cells) + " |"


def cost(scenario: Scenario, policy: PolicyName) -> dict[str, Any]:
    """Cost of an event, with nothing but the scheduler running."""
    run, outcome = compare(scenario, policy, 0)
    limits = Limits(max_active=scenario.max_active, max_wait_s=1e9, max_start_wait_s=1e9)
    scheduler = Scheduler(scenario.machine, policy_named(policy), limits)
    begin = time.process_time()
    for now, event in run.journal:
        scheduler.handle(event, now)
    seconds = time.process_time() - begin
    taken = Measurement.here(program_command("tvm_ios_lab.jobs.simulation_table"))
    return {
        **taken.origin(),
        "policy": policy.value,
        "events": outcome.events,
        "events_a_second": round(outcome.events / outcome.makespan_s, 2),
        "us_an_event": round(seconds / outcome.events * 1e6, 1),
        "share_of_a_core": round(seconds / outcome.makespan_s, 6),
        "processor": taken.processor,
    }


def main() -> None:
    """Fill the file, print the table."""
    wanted = sys.argv[1:] or [""]
    made: dict[str, dict[str, dict[str, float]]] = {}
    for name, scenario in SCENARIOS.items():
        if any(part in name for part in wanted):
            made[name] = {}
            for contestant in CONTESTANTS:
                made[name][contestant] = row(scenario, contestant)
                print(name, contestant, made[name][contestant], flush=True)
    print(*table(merged(TABLE, made)), sep="\n")
    costs = {name: cost(SCENARIOS[name], PolicyName.SLACK) for name in made}
    for name, found in merged(COSTS, costs).items():
        print(name, found)


def merged(path: Path, made: dict[str, Any]) -> dict[str, Any]:
    """Data of a file by scenario, with what was made anew; the file is written."""
    before = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    results = {name: (before | made)[name] for name in SCENARIOS if name in before | made}
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    return results


if __name__ == "__main__":
    main()
