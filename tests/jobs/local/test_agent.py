"""What an agent hears of a worker, whose line is in the test."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

from tests.jobs.runs import MACHINE
from tvm_ios.jobs.core.events import JobEnded, StageReleased
from tvm_ios.jobs.local.agent import LocalAgent
from tvm_ios.jobs.local.worker import shortened
from tvm_ios.jobs.local.worker_gate import FromWorker
from tvm_ios.support.json_nouns import to_json

LIMIT = 1 << 10


def test_a_line_that_is_too_long_is_passed_over(tmp_path, caplog):
    told, worker = [], SimpleNamespace(ended=None)
    released, ended = StageReleased(job="net", epoch=1), JobEnded("net", "no space")

    async def hear():
        reader = asyncio.StreamReader(limit=LIMIT)
        for text in (to_json(FromWorker, released), "x" * 3 * LIMIT, to_json(FromWorker, ended)):
            reader.feed_data(text.encode() + b"\n")
        reader.feed_eof()
        await LocalAgent(MACHINE, tmp_path, told.append)._hear(worker, reader)

    asyncio.run(hear())
    assert told == [released]
    assert worker.ended == ended
    assert "a worker said more than" in caplog.text


def test_a_reason_that_quotes_a_whole_source_keeps_its_beginning_and_its_end():
    assert shortened("no space") == "no space"
    reason = shortened("nvcc: " + "x" * (1 << 20) + " line 7")
    assert reason.startswith("nvcc: ")
    assert "line 7; the log has all of it" in reason
    assert len(to_json(FromWorker, JobEnded("net", reason))) < 1 << 15
