"""An empty figure of matplotlib, which is optional and loaded only for drawing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tvm_ios.errors import HostError
from tvm_ios.support.extras import install_command

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["agg_figure"]


def agg_figure(size: tuple[float, float], what: str, **options: Any) -> Figure:
    """A figure of so many inches that is drawn without a display, and separate from pyplot's.

    ``what`` says in messages what is drawn; the options are those of matplotlib's ``Figure``.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415
        from matplotlib.figure import Figure  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise HostError(
            f"drawing {what} needs matplotlib, which is not installed; run "
            f"`{install_command('figures')}`"
        ) from error
    figure = Figure(figsize=size, **options)
    FigureCanvasAgg(figure)
    return figure
