# SPDX-License-Identifier: Apache-2.0
"""One side of compare_predict.py: inference of the same model in PyTorch under inference_mode, from tokens to probabilities.

`plain` is the model of pytorch_step.py as it stands; `encoder` is nn.TransformerEncoder, whose layers take PyTorch's fast path in inference.
"""
import argparse
import json
import statistics
import time

import numpy
import torch
from torch import nn

from pytorch_step import CLASSES, VOCAB, Classifier, HeadAttention, attend_full, batches, load, memory_mib, padded


class Encoder(nn.Module):
    def __init__(self, case):
        super().__init__()
        dim = case["dim"]
        self.tokens, self.positions = nn.Embedding(VOCAB, dim), nn.Embedding(case["length"], dim)
        layer = nn.TransformerEncoderLayer(dim, case["heads"], case["ff"], dropout=0.0, activation="gelu", batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, case["layers"], norm=nn.LayerNorm(dim), enable_nested_tensor=False)
        self.head = nn.Linear(dim, CLASSES)

    def forward(self, tokens, mask, weights):
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1]))
        return self.head(self.encoder(x).mean(1))


def as_encoder(case, plain):
    """The plain model's weights in an Encoder."""
    names = {"attention_norm": "norm1", "feed_forward_norm": "norm2", "attention.qkv.weight": "self_attn.in_proj_weight",
             "attention.qkv.bias": "self_attn.in_proj_bias", "attention.output": "self_attn.out_proj", "up": "linear1", "down": "linear2"}
    state = {}
    for name, value in plain.state_dict().items():
        if name.startswith("layers."):
            _, number, rest = name.split(".", 2)
            old = next(n for n in names if rest.startswith(n))
            name = f"encoder.layers.{number}.{names[old]}{rest[len(old):]}"
        state[name.replace("final_norm", "encoder.norm")] = value
    model = Encoder(case)
    model.load_state_dict(state, strict=True)
    return model


def run(case, kind, steps, warmup, checkpoint, outputs):
    model = Classifier(case, 0.0, lambda _: HeadAttention(case, attend_full))
    load(model, checkpoint)
    if kind == "encoder":
        model = as_encoder(case, model)
    model.eval()
    with open("/proc/self/clear_refs", "w", encoding="ascii") as reset:
        reset.write("5")
    before, times = memory_mib("VmRSS"), []
    with torch.inference_mode(), open(outputs, "wb") as out:
        for number, (lengths, _, rows) in enumerate(batches(case, warmup + steps), 1):
            began = time.perf_counter()
            tokens, mask, weights = padded(case, lengths, rows)
            probabilities = torch.softmax(model(tokens, mask, weights), -1)
            elapsed = (time.perf_counter() - began) * 1000
            out.write(probabilities.numpy().astype(numpy.float32).tobytes())
            if number > warmup:
                times.append(elapsed)
    return {"median_ms": statistics.median(times), "peak_mib": memory_mib("VmHWM") - before}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("case")
    parser.add_argument("--model", choices=["plain", "encoder"], required=True)
    parser.add_argument("--steps", type=int, default=15)
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--outputs", required=True, help="the probabilities of every step go there as float32")
    arguments = parser.parse_args()
    torch.set_num_threads(2)
    print(json.dumps(run(json.loads(arguments.case), arguments.model, arguments.steps, arguments.warmup, arguments.checkpoint, arguments.outputs)))


if __name__ == "__main__":
    main()
