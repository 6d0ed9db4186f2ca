"""The line and the JSON that tell whose tuning records are in force."""

from __future__ import annotations

import json
from pathlib import Path

from tvm_ios.report.records_in_force import (
    KernelRecord,
    MissingReason,
    RecordFormat,
    RecordsInForce,
)


def records(*found, contexts=(RecordFormat.AUTOTVM,), logs=()):
    kernels = tuple(
        KernelRecord(operators=(f"conv2d_{place}",), shapes=f"1x{place} * 4", found=one)
        for place, one in enumerate(found)
    )
    return RecordsInForce(contexts=contexts, logs=logs, kernels=kernels)


def test_all_in_force_is_a_short_line():
    found = records(RecordFormat.AUTOTVM, RecordFormat.AUTOTVM)
    assert found.as_text() == "records in force: 2 of 2 kernels (context AutoTVM)"


def test_the_first_three_without_are_named_by_reason():
    reasons = MissingReason.NO_RECORD, MissingReason.OTHER_LAYOUT, MissingReason.NO_RECORD
    found = records(
        RecordFormat.AUTO_SCHEDULER,
        *reasons,
        MissingReason.FAILED,
        contexts=(),
        logs=(Path("a/net.log"), Path("b.log")),
    )
    assert found.as_text() == (
        "records in force: 1 of 5 kernels (log net.log, log b.log); 4 without: "
        "conv2d_1 1x1 * 4, conv2d_3 1x3 * 4: no record; "
        "conv2d_2 1x2 * 4: record for another layout; and 1 more"
    )


def test_of_a_build_that_lost_none_is_in_force():
    found = records(RecordFormat.AUTOTVM, MissingReason.OTHER_TARGET).not_used()
    reasons = [kernel.found for kernel in found.missing]
    assert reasons == [MissingReason.NOT_FASTER, MissingReason.OTHER_TARGET]
    assert found.applied == ()


def test_json_names_records_and_reasons():
    found = records(RecordFormat.AUTOTVM, MissingReason.NO_RECORD, logs=(Path("net.log"),))
    data = json.loads(json.dumps(found.as_record()))
    assert data["contexts"] == ["autotvm"]
    assert data["logs"] == ["net.log"]
    assert data["kernels"][1] == {
        "operators": ["conv2d_1"],
        "shapes": "1x1 * 4",
        "applied": False,
        "found": "no_record",
    }
