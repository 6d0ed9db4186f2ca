"""Charts are drawn from their values, and refuse what does not fit them."""

from __future__ import annotations

import pytest
from matplotlib.figure import Figure

from tvm_ios.errors import ArtifactError, OptionError
from tvm_ios_lab.figures.chart import Bars, Lines, Matrix, Series, draw_panels

BARS = Bars(
    title="Bars",
    y_label="ms",
    groups=("one", "two"),
    series=(
        Series(name="ours", values=(1.0, None)),
        Series(name="theirs", values=(3.0, 4.0)),
        Series(name="ours", values=(2.0, None), published=True),
    ),
)
LINES = Lines(
    title="Lines",
    x_label="batch",
    y_label="ms",
    x=(1.0, 16.0),
    x_ticks=("1", "16"),
    series=(
        Series(name="ours", values=(None, 2.0)),
        Series(name="ours", values=(1, 2), published=True),
    ),
)
MATRIX = Matrix(
    title="Matrix",
    row_label="runs on",
    column_label="found for",
    rows=("a", "b"),
    columns=("a", "b"),
    values=((1.0, 2.0), (None, 4.0)),
    published=((1.5, None), (None, None)),
)


def axes_of(panel):
    axes = Figure().add_subplot()
    panel.draw_on(axes)
    return axes


def test_bars_have_their_heights_and_published_ones_are_diamonds():
    axes = axes_of(BARS)
    assert sorted(bar.get_height() for bar in axes.patches) == [1.0, 3.0, 4.0]
    (diamonds,) = axes.lines
    assert (diamonds.get_marker(), list(diamonds.get_ydata())) == ("D", [2.0])
    own = next(bar for bar in axes.patches if bar.get_height() == 1.0)
    assert own.get_x() < diamonds.get_xdata()[0] < own.get_x() + own.get_width()


def test_lines_leave_out_what_is_missing():
    ours, published = axes_of(LINES).lines
    assert list(ours.get_ydata()) == [2.0]
    assert (published.get_linestyle(), list(published.get_ydata())) == ("--", [1, 2])


def test_a_matrix_writes_every_number():
    words = [text.get_text() for text in axes_of(MATRIX).texts]
    assert words == ["1.00\n(1.50)", "2.00", "-", "4.00"]


def test_panels_make_one_picture(tmp_path):
    draw_panels((BARS, LINES, MATRIX), tmp_path / "new" / "figure.png")
    assert (tmp_path / "new" / "figure.png").read_bytes().startswith(b"\x89PNG")


def test_a_picture_that_cannot_be_written_is_named(tmp_path):
    place = tmp_path / "figure.png"
    place.mkdir()
    with pytest.raises(ArtifactError, match=r"cannot write .*figure\.png: .*; choose another"):
        draw_panels((BARS,), place)


def test_lengths_have_to_fit():
    with pytest.raises(OptionError, match="'ours' has 1 values for 2 places"):
        Bars(title="B", y_label="", groups=("a", "b"), series=(Series(name="ours", values=(1,)),))
    with pytest.raises(OptionError, match="'M' is not 1 by 2"):
        Matrix(
            title="M",
            row_label="",
            column_label="",
            rows=("a",),
            columns=("a", "b"),
            values=((1,),),
        )
