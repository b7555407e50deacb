# SPDX-License-Identifier: Apache-2.0
"""One side of compare_pytorch.py: full training steps of the same model in PyTorch, written plainly.

Pre-norm blocks with F.scaled_dot_product_attention, a boolean key mask only where sequences are ragged, padded to the longest of the batch;
linear attention written out; local attention by the faster of two reshapes into blocks; AdamW(fused=True), clip_grad_norm_.
"""
import argparse
import json
import statistics
import sys
import time

import numpy
import torch
import torch.nn.functional as F
from torch import nn

VOCAB, CLASSES = 32, 10


def attend_full(q, k, v, mask):
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def attend_linear(q, k, v, mask):
    q, k = F.elu(q) + 1, F.elu(k) + 1
    if mask is not None:
        k = k * mask.transpose(-1, -2)
    state = k.transpose(-1, -2) @ v
    return (q @ state) / (q @ k.sum(-2).unsqueeze(-1) + 1e-6)


def attend_local_gather(q, k, v, mask, block=128):
    """Blocks as a batch; each sees itself and both neighbours, concatenated."""
    b, h, n, d = q.shape
    blocks = n // block
    q = q.reshape(b, h, blocks, block, d)

    def around(x):
        x = F.pad(x.reshape(b, h, blocks, block, d), (0, 0, 0, 0, 1, 1))
        return torch.cat([x[:, :, :-2], x[:, :, 1:-1], x[:, :, 2:]], dim=3)

    inside = torch.zeros(blocks, 1, 3 * block, dtype=torch.bool)
    inside[:, :, block:2 * block] = True
    inside[1:, :, :block] = True
    inside[:-1, :, 2 * block:] = True
    return F.scaled_dot_product_attention(q, around(k), around(v), attn_mask=inside.to(q.device)).reshape(b, h, n, d)


def attend_local_fold(q, k, v, mask, block=128):
    """The same with the blocks folded into the batch axis."""
    b, h, n, d = q.shape
    blocks = n // block

    def around(x):
        x = F.pad(x, (0, 0, block, block)).unfold(2, 3 * block, block)
        return x.transpose(-1, -2).reshape(b * h * blocks, 1, 3 * block, d)

    inside = torch.ones(blocks, 1, 3 * block, dtype=torch.bool)
    inside[0, :, :block] = False
    inside[-1, :, 2 * block:] = False
    inside = inside.repeat(b * h, 1, 1).unsqueeze(1)
    out = F.scaled_dot_product_attention(q.reshape(b * h * blocks, 1, block, d), around(k), around(v), attn_mask=inside)
    return out.reshape(b, h, n, d)


class BatchNorm(nn.BatchNorm1d):
    """Over all rows of a batch without padding."""

    def forward(self, x):
        return super().forward(x.reshape(-1, x.shape[-1])).reshape(x.shape)


def norm_of(case):
    return {"layer_norm": nn.LayerNorm, "batch_norm": BatchNorm}[case.get("norm", "layer_norm")](case["dim"])


class Attention(nn.Module):
    """What stands in a block: from [B, N, C] to [B, N, C], with projections."""
    auxiliary = None  # a loss of its own, after a forward

    def after_backward(self):
        pass

    def state_of(self, own):
        """Its state dict from our attention's tensors of a checkpoint, which it takes out of `own`."""
        raise NotImplementedError


class HeadAttention(Attention):
    """One product for q, k and v, a function of them, and a product for the output."""

    def __init__(self, case, attend):
        super().__init__()
        dim, self.heads, self.attend = case["dim"], case["heads"], attend
        self.qkv, self.output = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x, mask):
        b, n, c = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        return self.output(self.attend(q, k, v, mask).transpose(1, 2).reshape(b, n, c))

    def state_of(self, own):
        state = {}
        for kind in ("weight", "bias"):
            state[f"qkv.{kind}"] = torch.cat([own.pop(f"{part}.{kind}") for part in ("query", "key", "value")])
            state[f"output.{kind}"] = own.pop(f"output.{kind}")
        return state


class Block(nn.Module):
    def __init__(self, case, dropout, attention):
        super().__init__()
        dim, self.attention = case["dim"], attention
        self.attention_norm, self.feed_forward_norm = norm_of(case), norm_of(case)
        self.up, self.down = nn.Linear(dim, case["ff"]), nn.Linear(case["ff"], dim)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, mask):
        x = x + self.dropout(self.attention(self.attention_norm(x), mask))
        return x + self.dropout(self.down(self.dropout(F.gelu(self.up(self.feed_forward_norm(x))))))


class Classifier(nn.Module):
    """`attention(number)` makes the attention of a layer."""

    def __init__(self, case, dropout, attention):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCAB, case["dim"]), nn.Embedding(case["length"], case["dim"])
        self.layers = nn.ModuleList([Block(case, dropout, attention(number)) for number in range(case["layers"])])
        self.final_norm, self.head = norm_of(case), nn.Linear(case["dim"], CLASSES)
        self.dropout = nn.Dropout(dropout)

    def forward(self, tokens, mask, weights):
        x = self.dropout(self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1])))
        for layer in self.layers:
            x = layer(x, mask)
        x = self.final_norm(x)
        return self.head(x.mean(1) if weights is None else (x * weights).sum(1))


def load(model, checkpoint):
    """Our checkpoint into the model, name by name."""
    import h5py
    with h5py.File(checkpoint, "r") as file:
        ours = {name: torch.from_numpy(numpy.array(value)) for group in ("model", "buffers") if group in file for name, value in file[group].items()}
    state = {"tokens.weight": ours.pop("embedding.tokens.weight"), "positions.weight": ours.pop("embedding.positions.weight")}

    def take_norm(to, name):
        for kind in ("weight", "bias", "running_mean", "running_var", "num_batches_tracked"):
            if f"{name}.{kind}" in ours:
                state[f"{to}.{kind}"] = ours.pop(f"{name}.{kind}").reshape(() if kind == "num_batches_tracked" else (-1,))

    for i, block in enumerate(model.layers):
        prefix, layer = f"layers.{i}.", f"encoder.layers.{i}."
        start = f"{layer}attention."
        own = {name[len(start):]: ours.pop(name) for name in list(ours) if name.startswith(start)}
        state.update({f"{prefix}attention.{name}": value for name, value in block.attention.state_of(own).items()})
        ours.update({start + name: value for name, value in own.items()})
        for kind in ("weight", "bias"):
            for part in ("up", "down"):
                state[f"{prefix}{part}.{kind}"] = ours.pop(f"{layer}feed_forward.{part}.{kind}")
        for norm in ("attention_norm", "feed_forward_norm"):
            take_norm(f"{prefix}{norm}", f"{layer}{norm}")
    take_norm("final_norm", "encoder.final_norm")
    for kind in ("weight", "bias"):
        state[f"head.{kind}"] = ours.pop(f"head.output.{kind}")
    if ours:
        sys.exit(f"not loaded: {sorted(ours)}")
    model.load_state_dict(state, strict=True)


def batches(case, steps):
    """The batches of `tapeformer bench step --data FILE` are written by that program; here the same tokens are read back."""
    with open(case["data"], "rb") as source:
        for _ in range(steps):
            lengths = numpy.fromfile(source, dtype=numpy.int32, count=case["batch"])
            labels = numpy.fromfile(source, dtype=numpy.int32, count=case["batch"])
            rows = numpy.fromfile(source, dtype=numpy.int32, count=int(lengths.sum()))
            yield lengths, labels, rows


def padded(case, lengths, rows):
    longest = int(lengths.max())
    tokens = torch.zeros(len(lengths), longest, dtype=torch.long)
    at = 0
    for i, n in enumerate(lengths):
        tokens[i, :n] = torch.from_numpy(rows[at:at + n].astype(numpy.int64))
        at += n
    if not case.get("ragged"):
        return tokens, None, None
    valid = torch.arange(longest)[None, :] < torch.from_numpy(lengths.astype(numpy.int64))[:, None]
    mask = valid[:, None, None, :]
    if case["attention"] == "linear":
        mask = mask.to(torch.float32)
    weights = valid.to(torch.float32) / torch.from_numpy(lengths.astype(numpy.float32))[:, None]
    return tokens, mask, weights[:, :, None]


def memory_mib(key):
    with open("/proc/self/status", encoding="utf-8") as lines:
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(key + ":"))


def train(case, model, steps, warmup, forward=None):
    """Times and memory of full steps; `forward` stands for a compiled model."""
    forward = model if forward is None else forward  # a compiled module has no truth value
    optimizer = torch.optim.AdamW([{"params": [p for p in model.parameters() if p.ndim >= 2], "weight_decay": 0.01},
                                   {"params": [p for p in model.parameters() if p.ndim < 2], "weight_decay": 0.0}], lr=1e-3, fused=True)
    with open("/proc/self/clear_refs", "w", encoding="ascii") as reset:
        reset.write("5")
    before, times, trace, peak = memory_mib("VmRSS"), [], [], 0
    for number, (lengths, labels, rows) in enumerate(batches(case, warmup + steps), 1):
        began = time.perf_counter()
        tokens, mask, weights = padded(case, lengths, rows)
        optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(forward(tokens, mask, weights), torch.from_numpy(labels.astype(numpy.int64)))
        loss = sum((layer.attention.auxiliary for layer in model.layers if layer.attention.auxiliary is not None), start=loss)
        loss.backward()
        for layer in model.layers:
            layer.attention.after_backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        elapsed = (time.perf_counter() - began) * 1000
        if number == 5 or number == warmup + steps:
            peak = peak or memory_mib("VmHWM") - before
        if number > warmup:
            times.append(elapsed)
        trace.append({"loss": loss.item(), "gradient_norm": norm.item()})
    quartiles = statistics.quantiles(times, n=4) if len(times) > 1 else [times[0]] * 3
    return {"median_ms": statistics.median(times), "quartile1_ms": quartiles[0], "quartile3_ms": quartiles[2], "peak_mib": peak, "trace": trace}


def run(case, mode, steps, warmup, dropout, checkpoint):
    attend = {"full": attend_full, "linear": attend_linear, "local": attend_local_gather, "local_fold": attend_local_fold}[case["attention"]]
    torch.manual_seed(1)
    model = Classifier(case, dropout, lambda _: HeadAttention(case, attend))
    if checkpoint:
        load(model, checkpoint)
    return train(case, model, steps, warmup, torch.compile(model, dynamic=bool(case.get("ragged"))) if mode == "compiled" else None)


def parser_of(description):
    """The options of one side of a comparison."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("case")
    parser.add_argument("--steps", type=int, default=15)
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--checkpoint", help="start from it with dropout 0 and no warm-up")
    return parser


def answer(arguments, measure):
    """Prints what `measure(case, steps, warmup, dropout, checkpoint)` found."""
    torch.set_num_threads(2)
    fixed = arguments.checkpoint is not None
    print(json.dumps(measure(json.loads(arguments.case), arguments.steps, 0 if fixed else arguments.warmup, 0.0 if fixed else 0.1, arguments.checkpoint)))


def main():
    parser = parser_of(__doc__)
    parser.add_argument("--mode", choices=["eager", "compiled"], default="eager")
    arguments = parser.parse_args()
    answer(arguments, lambda case, *rest: run(case, arguments.mode, *rest))


if __name__ == "__main__":
    main()
