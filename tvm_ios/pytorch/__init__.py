"""PyTorch: the backend of ``torch.compile``; importing one model is ``relay.frontends.torch``."""
