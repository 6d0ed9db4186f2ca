"""Verdicts on many models, in processes that may crash, each of which judges one after another."""

from __future__ import annotations

import multiprocessing
import random
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from multiprocessing.connection import Connection

from tests.onnx.random_models.drawn_models import DrawnModel, drawn_model
from tests.onnx.random_models.judging import Verdict, verdict_of
from tests.onnx.random_models.left_out import drawable

__all__ = ["few_of_all", "verdicts"]

_MOST_SECONDS = 300
"""Time after which a model that gives no verdict counts as a crash."""


def few_of_all(seed: int) -> list[int]:
    """Numbers of few models in which each operator is, of three that begin with each.

    Taken one after another: the one with the most operators that none before has, for its size.
    """
    drawn = {number: _drawn(seed, number) for number in range(3 * len(drawable()))}
    operators = {number: each.operators for number, each in drawn.items() if each}
    left = {name for names in operators.values() for name in names}
    numbers = []

    def gain(number: int) -> float:
        names = operators[number]
        return len(left.intersection(names)) / (2 + len(names))

    while left:
        numbers.append(max(operators, key=gain))
        left.difference_update(operators[numbers[-1]])
    return numbers


def verdicts(seed: int, numbers: Sequence[int], jobs: int = 1) -> list[Verdict]:
    """A verdict on each of some models, of which as many begin with each operator.

    A model is drawn by the seed and its number, so one can be judged again alone.
    """
    with ThreadPoolExecutor(jobs) as threads:
        rows = [numbers[place::jobs] for place in range(jobs)]
        return [each for row in threads.map(_judged, [seed] * jobs, rows) for each in row]


def _judged(seed: int, numbers: Sequence[int]) -> list[Verdict]:
    """Verdicts by one process after another, each of which goes on where one has crashed."""
    made: list[Verdict] = []
    while len(made) < len(numbers):
        made += _until_crash(seed, numbers[len(made) :])
    return made


def _until_crash(seed: int, numbers: Sequence[int]) -> Iterator[Verdict]:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    worker = context.Process(target=_work, args=(seed, numbers, theirs), daemon=True)
    worker.start()
    theirs.close()
    begun = Verdict(kind="undrawn")
    for _ in numbers:
        try:
            while True:
                if not ours.poll(_MOST_SECONDS):
                    worker.kill()
                begun = ours.recv()
                if begun.kind != "crash":
                    break
        except EOFError:
            worker.join()
            yield replace(begun, reason=f"status {worker.exitcode}")
            return
        yield begun
        begun = Verdict(kind="undrawn")
    worker.join()


def _work(seed: int, numbers: Sequence[int], results: Connection) -> None:
    """Send two verdicts on each model: a crash, before it is judged, and what it is."""
    warnings.simplefilter("ignore")
    for number in numbers:
        drawn = _drawn(seed, number)
        if drawn is None:
            results.send(Verdict(kind="undrawn", operators=[_first(number)]))
            continue
        told = f"model {number}, opset {drawn.opset}\n{drawn.as_text()}"
        results.send(Verdict(kind="crash", operators=drawn.operators, text=told))
        verdict = verdict_of(drawn)
        results.send(replace(verdict, text=told if verdict.reason else ""))


def _drawn(seed: int, number: int) -> DrawnModel | None:
    return drawn_model(random.Random(f"{seed} {number}"), _first(number))


def _first(number: int) -> str:
    operators = drawable()
    return operators[number % len(operators)]
