"""The search in C by itself: under sanitizers, and on another processor."""

from __future__ import annotations

import pytest

from tests.native_programs import ARM_COMPILER, ARM_EMULATOR, compiled, output_of, require_arm

GRAPHS = 200
SEED = 1


@pytest.mark.slow
def test_the_sanitizers_find_nothing(tmp_path):
    flags = ("-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover")
    program = compiled("search_main.c", tmp_path, *flags)
    if program is None:
        pytest.skip("the C compiler has no sanitizers")
    done = output_of(program, GRAPHS, SEED)
    assert (done.returncode, done.stderr) == (0, "")
    answers = done.stdout.splitlines()
    assert len(answers) == GRAPHS
    assert len(set(answers)) > GRAPHS / 2


@pytest.mark.slow
def test_an_emulated_arm_answers_the_same(tmp_path):
    require_arm()
    here = compiled("search_main.c", tmp_path, "-O2")
    arm = compiled("search_main.c", tmp_path, "-O2", compiler=ARM_COMPILER)
    done = output_of(ARM_EMULATOR, arm, GRAPHS, SEED)
    assert done.stdout == output_of(here, GRAPHS, SEED).stdout != ""
