"""Layout of a Relax model's images: chosen by prices, and never in the way."""

from __future__ import annotations

import pytest
from tvm import relax

from tests.relax.networks import TARGET, Network
from tvm_ios.compile.lower import lower_schedule
from tvm_ios.core.image_layouts import BLOCKS, CHANNELS_LAST, ImageForm
from tvm_ios.driver.compile_schedule import compile_schedule
from tvm_ios.driver.dialects import relax_layout
from tvm_ios.driver.dialects.relax_layout import ModelLayouts
from tvm_ios.errors import ModelError
from tvm_ios.profile.measuring_call import MeasuringCall
from tvm_ios.relax import prepare as prepare_module
from tvm_ios.relax.prepare import fuse
from tvm_ios.relax.target import resolve_target
from tvm_ios.relax.transforms.image_places import sizes_of
from tvm_ios.runtime.libraries.onednn.provider import OnednnLibrary
from tvm_ios.search.baselines import sequential_schedule

LAYOUTS = (None, "NHWC", "NCHW8c")


@pytest.fixture
def mod():
    """Two convolutions, in NCHW."""
    network = Network(1, 8, 6, 6)
    return network.build(lambda net: net.conv(net.conv(net.x, 8, 3), 16, 1))


def layouts(mod, *libraries, **options):
    chosen = resolve_target(TARGET)
    return ModelLayouts(mod=mod, **{"params": None} | options, target=chosen, libraries=libraries)


def layout_of(laid_out, mod) -> str | None:
    """Layout that a model was built in."""
    prints = [
        fuse(mod, None, TARGET, image_layout=each).extraction.graph.fingerprint()
        for each in LAYOUTS
    ]
    return LAYOUTS[prints.index(laid_out.built.graph.fingerprint())]


def kernels_of(built):
    extraction = built.prepared.extraction
    return [extraction.module[each.call.args[0]] for each in extraction.line.calls]


@pytest.fixture
def call(tmp_path):
    return MeasuringCall.here(lanes=1, database=tmp_path / "db")


def priced(monkeypatch, times_ns):
    """Let convolutions take times by their layouts."""

    def library_ns(_self, functions, _libraries):
        found = [function and function.calls[0].attribute("data_layout") for function in functions]
        return [times_ns.get(each) for each in found]

    monkeypatch.setattr(MeasuringCall, "library_ns", library_ns)


@pytest.mark.slow(1)
@pytest.mark.parametrize("kept", ["NHWC", "NCHW8c"])
def test_the_layout_whose_operators_take_least_is_built(kept, mod, call, monkeypatch):
    priced(monkeypatch, {"NHWC": 10**9, "NCHW8c": 10**9} | {kept: 10**6})
    found = layouts(mod, OnednnLibrary()).fastest(call)
    assert layout_of(found, mod) == kept
    assert f"images are in {kept}, by prices of all operators" in found.notes[0]


@pytest.mark.slow(1)
def test_each_convolution_gets_its_cheaper_layout(mod, call, monkeypatch):
    """That of 3 x 3 last and the other in blocks; where TVM cannot join both, one for all."""

    def library_ns(_self, functions, _libraries):
        found = [function and sizes_of(function) for function in functions]
        layouts = [each and each.calls[0].attribute("data_layout") for each in functions]
        return [
            None
            if sizes is None
            else 10**6
            if (sizes.kernel[2] == 3) == (layout == "NHWC")
            else 10**9
            for sizes, layout in zip(found, layouts, strict=True)
        ]

    monkeypatch.setattr(MeasuringCall, "library_ns", library_ns)
    found = layouts(mod, OnednnLibrary()).fastest(call)
    assert found.built.form == ImageForm(layouts=(CHANNELS_LAST, BLOCKS))
    assert "images are in NHWC at 1 convolutions and NCHW8c at 1, by prices" in found.notes[0]
    schedule = lower_schedule(found.built, sequential_schedule(found.built.graph), lanes=1).schedule
    assert schedule.form == found.built.form
    known = compile_schedule(mod, target=TARGET, schedule=schedule)
    assert known.graph.fingerprint() == found.built.graph.fingerprint()

    def unjoined(*args, image_layout=None, **options):
        if isinstance(image_layout, ImageForm):
            raise RuntimeError("no rule")  # noqa: TRY004 - as TVM does
        return fuse(*args, image_layout=image_layout, **options)

    monkeypatch.setattr(relax_layout, "fuse", unjoined)
    assert len({*layouts(mod, OnednnLibrary()).fastest(call).built.form.layouts}) == 1


@pytest.mark.slow(1)
def test_a_layout_for_each_convolution_has_to_gain_something(mod, call, monkeypatch):
    """A move takes 500 ns, so both layouts together gain 0.2 and 0.6 per cent."""
    for gain_ns, count in ((2_500, 1), (6_500, 2)):

        def library_ns(_self, functions, _libraries, gain_ns=gain_ns):
            found = [function and sizes_of(function) for function in functions]
            layouts = [each and each.calls[0].attribute("data_layout") for each in functions]
            return [
                sizes and 500_000 - gain_ns * ((sizes.kernel[2] == 3) == (layout == "NHWC"))
                for sizes, layout in zip(found, layouts, strict=True)
            ]

        monkeypatch.setattr(MeasuringCall, "library_ns", library_ns)
        built = layouts(mod, OnednnLibrary()).fastest(call).built
        assert len({*built.form.layouts}) == count


def test_kernels_get_loops_in_the_layout_that_is_kept_only(mod, call, monkeypatch):
    priced(monkeypatch, {"NHWC": 10**9, "NCHW8c": 10**6})
    seen, own_loops = [], prepare_module.with_own_loops

    def counted(extraction, target):
        seen.append(extraction.graph.fingerprint())
        return own_loops(extraction, target)

    monkeypatch.setattr(prepare_module, "with_own_loops", counted)
    found = layouts(mod, OnednnLibrary()).fastest(call)
    assert seen == [found.built.graph.fingerprint()]
    assert all("tirx.is_scheduled" in each.attrs for each in kernels_of(found.built))


@pytest.mark.parametrize("all_kernels", [False, True])
def test_kernels_that_a_call_surely_beats_are_left_out(all_kernels, mod, call, monkeypatch):
    priced(monkeypatch, {"NHWC": 1, "NCHW8c": 10**9})
    monkeypatch.setattr("tvm_ios.cost.kernel_bound.SLACK_NS", 0)
    found = layouts(mod, OnednnLibrary(), all_kernels=all_kernels).fastest(call)
    assert len(found.built.kernels.staged.absent_nodes) == (0 if all_kernels else 2)


def test_without_libraries_or_images_nothing_is_asked(mod, call):
    assert layout_of(layouts(mod).fastest(call), mod) is None
    network = Network(2, 4)
    plain = network.build(lambda net: net.emit(relax.op.nn.relu(net.x)))
    assert not layouts(plain, OnednnLibrary()).fastest(call).notes


def test_layouts_that_tvm_cannot_make_are_told(mod, call, monkeypatch):
    def failing(*args, image_layout=None, **options):
        if image_layout is not None:
            raise RuntimeError("somewhere\nno rule for it")
        return fuse(*args, **options)

    monkeypatch.setattr(relax_layout, "fuse", failing)
    found = layouts(mod, OnednnLibrary()).fastest(call)
    assert layout_of(found, mod) is None
    told = [f"{layout} cannot be had: no rule for it" for layout in LAYOUTS[1:]]
    assert found.notes == tuple(told)


def test_what_is_wrong_with_the_model_is_told_of_the_model(mod):
    with pytest.raises(ModelError, match="main has no parameter 'w'"):
        _ = layouts(mod, OnednnLibrary(), params={"w": 1.0}).first
