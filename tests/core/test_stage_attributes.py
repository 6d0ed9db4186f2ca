from __future__ import annotations

from dataclasses import replace

import pytest

from tests.operator_graphs import diamond_graph
from tvm_ios.core.schedule import LibraryOperators
from tvm_ios.core.stage_attributes import (
    PlacedKernel,
    has_schedule,
    is_stage,
    kernels_of_stage,
    main_attributes,
    schedule_from,
    stage_attributes,
)
from tvm_ios.errors import ModelError
from tvm_ios.search.baselines import greedy_schedule
