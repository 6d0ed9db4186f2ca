"""All policies of jobs on simulated machines: `python -m benchmarks.jobs_simulation`.

Writes `benchmarks/results/jobs/simulation.json` and prints it as a table. Everything in the file
follows from the seeds; what an event costs is only printed. Names of scenarios as arguments, or
parts of them, leave the others as they are in the file.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from tvm_ios.jobs.core.limits import Limits
from tvm_ios.jobs.core.policies import PolicyName, policy_named
from tvm_ios.jobs.core.scheduler import Scheduler
from tvm_ios.jobs.simulation.scenarios import SCENARIOS, Knowledge, Outcome, Scenario, compare

RESULTS = Path(__file__).parent / "results" / "jobs" / "simulation.json"
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


def cost_us(scenario: Scenario, policy: PolicyName) -> tuple[float, Outcome]:
    """Microseconds of a core for an event, with nothing but the scheduler running."""
    run, outcome = compare(scenario, policy, 0)
    limits = Limits(max_active=scenario.max_active, max_wait_s=1e9, max_start_wait_s=1e9)
    scheduler = Scheduler(scenario.machine, policy_named(policy), limits)
    begin = time.process_time()
    for now, event in run.journal:
        scheduler.handle(event, now)
    return (time.process_time() - begin) / len(run.journal) * 1e6, outcome


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
    before = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    results = {name: (before | made)[name] for name in SCENARIOS if name in before | made}
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    print(*table(results), sep="\n")
    for name, scenario in SCENARIOS.items():
        if any(part in name for part in wanted):
            micros, outcome = cost_us(scenario, PolicyName.SLACK)
            share = micros * 1e-6 * outcome.events / outcome.makespan_s
            print(f"{name}: {micros:.0f} us an event, {100 * share:.3f} % of a core")


if __name__ == "__main__":
    main()
