"""Parts of joined networks: names of models, inputs and outputs."""

from __future__ import annotations

import pytest

from tvm_ios.core.parts import (
    MOST_PARTS,
    Part,
    named_models,
    output_names,
    parts_named,
    require_part_names,
)
from tvm_ios.errors import OptionError

PARTS = (
    Part(name="detector", inputs=("image",), outputs=(0, 1)),
    Part(name="classifier", inputs=("image", "classifier__mask"), outputs=(2,)),
)


def test_outputs_are_named_after_their_part_and_numbered_where_it_has_several():
    assert output_names(PARTS) == {"detector__0": 0, "detector__1": 1, "classifier": 2}
    assert PARTS[1].as_text() == (
        "part classifier: reads image, classifier__mask; gives classifier"
    )
    assert "gives detector__0, detector__1" in PARTS[0].as_text()


def test_models_are_named_after_their_files_and_told_apart():
    given = ["nets/yolo-v8.2.onnx", "squeezenet", "squeezenet", "8bit.onnx", object()]
    assert list(named_models(given)) == [
        "yolo_v8_2",
        "squeezenet_0",
        "squeezenet_1",
        "model_8bit",
        "model",
    ]
    assert named_models({"a": 1, "b": 2}) == {"a": 1, "b": 2}


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (["a b", "c"], "a part is named 'a b'; give letters"),
        (["a__b", "c"], "'a__b'"),
        (["a_", "c"], "'a_'"),
        (["a", "a"], "two parts are named 'a'"),
        (["a"], "there are 1 models; give 2 to 31"),
        ([f"m{n}" for n in range(MOST_PARTS + 1)], "there are 32 models"),
    ],
)
def test_unfit_names_are_refused(names, told):
    with pytest.raises(OptionError, match=told):
        require_part_names(names)


def test_parts_are_found_by_one_name_or_several():
    assert parts_named(PARTS, "classifier") == PARTS[1:]
    assert parts_named(PARTS, ("classifier", "detector")) == PARTS
    with pytest.raises(OptionError, match="no part 'detctor'.*did you mean 'detector'"):
        parts_named(PARTS, ["detctor"])
    with pytest.raises(OptionError, match="parts is empty"):
        parts_named(PARTS, [])
    with pytest.raises(OptionError, match="the network is one model"):
        parts_named((), "a")
