"""The first models of a call: sequential order of a build, before its operators are priced.

An operator library computes what it can, since it rarely loses by much; prices come later.
"""

from __future__ import annotations

import math
import time
from dataclasses import replace

import tvm

from tvm_ios.compile.built_model import BuiltModel
from tvm_ios.devices.protocol import MeasuringSession
from tvm_ios.profile.in_time.early_answers import FirstAnswer
from tvm_ios.profile.in_time.time_plan import file_s, least_race_s
from tvm_ios.profile.measuring_call import MeasuringCall
from tvm_ios.profile.race import compiled_for, executors_of
from tvm_ios.search.baselines import sequential_schedule
from tvm_ios.support.time_budget import Reserve

__all__ = ["FASTER_FORM", "FIRST", "answer_with"]

FIRST = "sequential order, not measured"
FASTER_FORM = "sequential order of the faster form of the model, makers not measured"


def answer_with(built: BuiltModel, call: MeasuringCall) -> None:
    """Answer with a build in sequential order, if answers are wanted.

    Where there is a budget the first one is run twice, and time is set aside for its file and for
    the least race; what follows is optional.
    """
    answers = call.answers
    if not answers.wanted or (answers.first is not None and not answers.told):
        return
    # Libraries may find out on the device how a call is fastest.
    need = replace(call.to_profile, task="first model")
    with call.stage("lower", need) as granted:
        here = call.at(granted)
        begin_s = time.monotonic()
        with here.open() as session:
            order = sequential_schedule(built.graph)
            model = compiled_for(session, built, order, lanes=call.lanes, database=call.database)
            if answers.first is not None:
                answers.tell(model, FASTER_FORM, call.clock)
                return
            answers.first = FirstAnswer(
                model=model, link_s=0.0, made_s=time.monotonic() - begin_s, run_ns=0
            )
            if answers.needed:
                answers.first = _timed(answers.first, session)
        _set_aside(call, answers.first, built)
        answers.tell(model, FIRST, call.clock)


def _timed(first: FirstAnswer, session: MeasuringSession) -> FirstAnswer:
    """The first answer, linked, loaded and run twice."""
    begin_s = time.monotonic()
    session.export(first.model.kernels)
    linked_s = time.monotonic()
    with executors_of({"first": first.model}, session) as executors:
        loaded_s = time.monotonic()
        executors["first"].time_ns(1)
        run_ns = executors["first"].time_ns(1)
    return replace(
        first,
        link_s=linked_s - begin_s,
        made_s=first.made_s + loaded_s - linked_s,
        run_ns=run_ns,
    )


def _set_aside(call: MeasuringCall, first: FirstAnswer, built: BuiltModel) -> None:
    sizes = (
        math.prod(each.shape) * tvm.DataType(each.dtype).bits // 8
        for each in built.kernels.params.values()
    )
    call.budget.set_aside(Reserve.FILE, file_s(first.link_s, sum(sizes)))
    call.budget.set_aside(Reserve.RACE, least_race_s(first.run_ns, call.compare, contestants=1))
    call.budget.reach_least()
