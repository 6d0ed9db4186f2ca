from __future__ import annotations

import math

import numpy as np
import pytest
import tvm

from tvm_ios.errors import OptionError
from tvm_ios.models.activation import Activation
from tvm_ios.models.transformer import TransformerBuilder

BATCH, SEQUENCE, FEATURES, HEADS = 2, 5, 12, 3


@pytest.mark.slow
def test_every_unit_agrees_with_numpy(compare_with_numpy):
    net = TransformerBuilder(batch_size=BATCH, sequence=SEQUENCE, seed=1)
    value = net.normalise("norm", net.embed("embed", 1000, FEATURES))
    query, key, read = (net.dense(name, value, FEATURES) for name in ("q", "k", "v"))
    mixed = net.attend("attend", query, key, read, HEADS)
    wide = net.dense("wide", mixed, 8, activation=Activation.GELU)
    narrow = net.dense("narrow", wide, FEATURES)

    def forward(layers, tokens):
        params = layers.params

        def dense(name, rows):
            return rows @ params[f"{name}.weight"].T.astype(np.float64) + params[f"{name}.bias"]

        def heads(rows):
            return rows.reshape(BATCH, SEQUENCE, HEADS, -1).transpose(0, 2, 1, 3)

        words = params["embed.words"][tokens].astype(np.float64)
        value = words + params["embed.positions"] + params["embed.segment"]
        value = value - value.mean(axis=-1, keepdims=True)
        value /= np.sqrt((value**2).mean(axis=-1, keepdims=True))
        value = value * params["norm.scale"] + params["norm.shift"]
        query, key, read = (heads(dense(name, value)) for name in ("q", "k", "v"))
        scores = np.exp(query @ key.transpose(0, 1, 3, 2) / math.sqrt(FEATURES // HEADS))
        mixed = scores / scores.sum(axis=-1, keepdims=True) @ read
        mixed = mixed.transpose(0, 2, 1, 3).reshape(BATCH, SEQUENCE, FEATURES)
        wide = dense("wide", mixed)
        wide = wide * (1 + np.vectorize(math.erf)(wide / math.sqrt(2))) / 2
        return dense("narrow", wide) + value

    module, params = net.finish("end", net.add("sum", narrow, value))
    # Scores far apart, and a GELU that is no line.
    larger = {
        name: tvm.nd.array(20 * weight.numpy()) if name.endswith(".weight") else weight
        for name, weight in params.items()
    }
    compare_with_numpy((module, larger), forward)


@pytest.mark.parametrize("size", ["batch_size", "sequence"])
def test_an_empty_input_is_refused(size):
    with pytest.raises(OptionError, match="must be at least 1"):
        TransformerBuilder(**({"batch_size": 1, "sequence": 1, "seed": 0} | {size: 0}))
