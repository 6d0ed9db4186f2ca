"""Outcomes of steps: one file each, written whole or not at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tvm_ios_lab.gpu.agenda import Step
from tvm_ios_lab.harness.ledger import Status, read_noun, write_noun

__all__ = ["Ledger", "Outcome"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The end of one step."""

    step: str
    status: Status
    seconds: float
    reason: str = ""
    """Reason why the step was not done, in a line."""
    data: Mapping[str, Any] = field(default_factory=dict)
    """Data that later steps and the table read."""


class Ledger:
    """The outcomes in a folder.

    Parameters
    ----------
    folder
        Folder of the evaluation.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "steps"
        self.folder.mkdir(parents=True, exist_ok=True)

    def outcome(self, step: str) -> Outcome | None:
        """Outcome of a step; None where it never ended."""
        return read_noun(Outcome, self.path(step), remedy="delete it to do the step again")

    def data(self, step: str) -> Mapping[str, Any]:
        """Data that a step left for later ones; empty where it was not done."""
        outcome = self.outcome(step)
        return {} if outcome is None else outcome.data

    def is_done(self, step: str) -> bool:
        """Whether it was done."""
        outcome = self.outcome(step)
        return outcome is not None and outcome.status is Status.DONE

    def is_settled(self, step: str) -> bool:
        """Whether nothing more will come of it."""
        outcome = self.outcome(step)
        return outcome is not None and outcome.status is not Status.CUT

    def lost(self, steps: Sequence[Step]) -> dict[str, list[str]]:
        """Steps that cannot be done any more, and what each would need.

        Parameters
        ----------
        steps
            Steps in an order in which each comes after what it needs.
        """
        lost: dict[str, list[str]] = {}
        for step in steps:
            if not self.is_settled(step.name):
                missing = [
                    need
                    for need in step.needs
                    if need in lost or (self.is_settled(need) and not self.is_done(need))
                ]
                if missing:
                    lost[step.name] = missing
        return lost

    def forget_gone(self, steps: Sequence[Step]) -> None:
        """Let be done again what left files that are gone and that a network still needs.

        So an evaluation goes on elsewhere from its small files alone.

        Parameters
        ----------
        steps
            Steps in the order of `lost`.
        """
        lost = self.lost(steps)
        unfinished = {
            step.case for step in steps if step.name not in lost and not self.is_settled(step.name)
        }
        for step in steps:
            gone = step.leaves is not None and not (self.folder.parent / step.leaves).exists()
            if gone and step.case in unfinished and self.is_done(step.name):
                self.forget(step.name)

    def write(self, outcome: Outcome) -> None:
        """Keep an outcome."""
        write_noun(self.path(outcome.step), outcome)

    def forget(self, step: str) -> None:
        """Let a step be done again."""
        self.path(step).unlink(missing_ok=True)

    def path(self, step: str) -> Path:
        """File of a step's outcome."""
        return self.folder / f"{step}.json"

    def log(self, step: str) -> Path:
        """File of what a step printed."""
        return self.folder / f"{step}.log"

    def traceback(self, step: str) -> Path:
        """File of the traceback of a step that failed."""
        return self.folder / f"{step}.error.txt"
