"""BERT-base (Devlin et al., NAACL 2019): from tokens to the last hidden states, without the pooler.

All tokens belong to the first segment and none is padding, so there is no mask, and the tables of
positions and segments hold only the rows that are read.
"""

from __future__ import annotations

from tvm_ios.models.activation import Activation
from tvm_ios.models.transformer import Rows, TransformerBuilder
from tvm_ios.models.weights import Network

__all__ = ["bert_base"]

_VOCABULARY = 30522
_FEATURES, _HEADS, _WIDE = 768, 12, 3072


def bert_base(
    *, batch_size: int = 1, sequence: int = 128, layers: int = 12, seed: int = 0
) -> Network:
    """BERT-base without the pooler; 12 encoder layers are published.

    ``main`` maps ``sequence`` tokens, numbers below 30522 in an int64 tensor of
    ``(batch_size, sequence)``, to ``(batch_size, sequence, 768)``.
    """
    net = TransformerBuilder(batch_size=batch_size, sequence=sequence, seed=seed)
    value = net.normalise("embeddings.norm", net.embed("embeddings", _VOCABULARY, _FEATURES))
    for layer in range(1, layers + 1):
        value = _layer(net, f"layer{layer}", value)
    return net.finish("output", value)


def _layer(net: TransformerBuilder, name: str, value: Rows) -> Rows:
    query, key, read = (
        net.dense(f"{name}.{label}", value, _FEATURES) for label in ("query", "key", "value")
    )
    mixed = net.attend(f"{name}.attention", query, key, read, _HEADS)
    mixed = net.dense(f"{name}.mix", mixed, _FEATURES)
    value = net.normalise(f"{name}.norm1", net.add(f"{name}.sum1", mixed, value))
    wide = net.dense(f"{name}.wide", value, _WIDE, activation=Activation.GELU)
    narrow = net.dense(f"{name}.narrow", wide, _FEATURES)
    return net.normalise(f"{name}.norm2", net.add(f"{name}.sum2", narrow, value))
