"""Windows that slide over images, by loops of ours: convolutions, depthwise ones and pools."""
