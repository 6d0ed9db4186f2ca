"""Records of a log for a target: a log may hold records of several machines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress

import tvm

from tvm_ios.tuning.records.records import TuningRecord

__all__ = ["is_target", "preferred_records", "records_for", "targets_with_key"]


def preferred_records(
    records: Iterable[TuningRecord], target: tvm.target.Target
) -> list[TuningRecord]:
    """Records that ran: for each workload those of a target, or all where it has none.

    Times of another machine say nothing about this one, but its candidates are better than none; a
    log of a nearly equal target may be given on purpose.
    """
    ran = [record for record in records if record.ok]
    same = {text: is_target(text, target) for text in {record.target for record in ran}}
    own = {(record.format, record.workload) for record in ran if same[record.target]}
    return [
        record
        for record in ran
        if same[record.target] or (record.format, record.workload) not in own
    ]


def records_for(records: Sequence[TuningRecord], target: tvm.target.Target) -> list[TuningRecord]:
    """Records of a target, failures too, in their order."""
    texts = {text for text in {each.target for each in records} if is_target(text, target)}
    return [each for each in records if each.target in texts]


def targets_with_key(records: Iterable[TuningRecord], target: tvm.target.Target) -> frozenset[str]:
    """Targets of records that TVM takes for this one: they share a key with it, such as ``cpu``."""
    keys = set(map(str, target.keys))
    found = set()
    for text in {record.target for record in records}:
        with suppress(tvm.TVMError, ValueError):  # a target of another TVM
            if not keys.isdisjoint(map(str, tvm.target.Target(text).keys)):
                found.add(text)
    return frozenset(found)


def is_target(text: str, target: tvm.target.Target) -> bool:
    """True if a record's target is this one; texts that only another TVM knows are not."""
    with suppress(tvm.TVMError, ValueError):
        return str(tvm.target.Target(text)) == str(target)
    return False
