"""Networks of torchvision with random weights."""

from __future__ import annotations

import torch

SIZES = {"inception_v3": 299}
# Where weights are drawn slowly, which no test needs.
PLAIN = {"googlenet": {"init_weights": False}, "inception_v3": {"init_weights": False}}


def network(name):
    """A network by its name in torchvision, in evaluation mode, and an image for it."""
    if not hasattr(torch.ops.torchvision, "nms"):
        # Beside a torch without CUDA, a torchvision with it loads no operators, and fails for want
        # of two that none of these networks has.
        for operator in ("nms", "qnms"):
            torch.library.define(
                f"torchvision::{operator}",
                "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
            )
    from torchvision import models

    torch.manual_seed(0)
    model = getattr(models, name)(weights=None, **PLAIN.get(name, {})).eval()
    size = SIZES.get(name, 224)
    return model, torch.randn(1, 3, size, size)
