#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Inference against PyTorch from PyPI, same machine, same tokens, same weights, same threads, alternating in separate processes.

    tools/bench/compare_predict.py [--cases predict128_layer_norm,...] [--rounds 3] [--steps 15] [--json build/compare_predict.json]

The `mini` model of compare_pytorch.py, batch 32, from tokens to probabilities. It stops unless the probabilities of every batch agree to 1e-4.
PyTorch runs under inference_mode, as plain blocks and, where the model has LayerNorm, as nn.TransformerEncoder on its fast path (it knows no
BatchNorm); the better one counts. BatchNorm has the statistics of one batch, and is folded here.
"""
import array
import json
import os
import tempfile

from compare_pytorch import BINARY, MINI, ROOT, compare, config_of, median, parser_of, run_json

PEER = os.path.join(ROOT, "tools", "bench", "pytorch_predict.py")
CASES = {f"predict{length}_{norm}": dict(MINI, length=length, batch=32, attention="full", norm=norm)
         for norm in ("layer_norm", "batch_norm") for length in (128, 512)}


def check_equal_outputs(ours, theirs, kind):
    sides = []
    for path in (ours, theirs):
        values = array.array("f")
        with open(path, "rb") as source:
            values.frombytes(source.read())
        sides.append(values)
    if len(sides[0]) != len(sides[1]) or not sides[0]:
        raise SystemExit(f"{kind}: {len(sides[0])} and {len(sides[1])} probabilities")
    worst = max(abs(a - b) for a, b in zip(*sides))
    spread = max(sides[0]) - min(sides[0])
    if not worst <= 1e-4 or spread < 1e-2:
        raise SystemExit(f"{kind}: probabilities differ by {worst} (they range over {spread})")
    return worst


def measure(python, name, arguments):
    case, sides = CASES[name], {}
    kinds = ["plain", "encoder"] if case["norm"] == "layer_norm" else ["plain"]
    with tempfile.TemporaryDirectory() as folder:
        path = {n: os.path.join(folder, n) for n in ("config.yaml", "start.h5", "batches", "ours", "theirs")}
        case = dict(case, data=path["batches"])
        with open(path["config.yaml"], "w", encoding="utf-8") as out:
            out.write(config_of(case, 0.0))
        row = {"case": name, "difference": 0.0}
        for _ in range(arguments.rounds):
            run = run_json([BINARY, "bench", "predict", path["config.yaml"], "--batch", str(case["batch"]), "--length", str(case["length"]), "--steps",
                            str(arguments.steps), "--json", "--threads", "2", "--write-batches", path["batches"], "--save-start", path["start.h5"],
                            "--write-outputs", path["ours"]])
            sides.setdefault("ours", []).append(run)
            for kind in kinds:
                sides.setdefault(kind, []).append(run_json([python, PEER, json.dumps(case), "--model", kind, "--steps", str(arguments.steps),
                                                            "--checkpoint", path["start.h5"], "--outputs", path["theirs"]]))
                row["difference"] = max(row["difference"], check_equal_outputs(path["ours"], path["theirs"], f"{name}, {kind}"))
    row["folded_layers"] = sides["ours"][0]["folded_layers"]
    for side, runs in sides.items():
        row[side] = {key: median([r[key] for r in runs]) for key in ("median_ms", "peak_mib")}
    row["ratio"] = min(row[kind]["median_ms"] for kind in kinds) / row["ours"]["median_ms"]
    return row


def text_of(row):
    encoder = f", nn.TransformerEncoder {row['encoder']['median_ms']:.1f} ms" if "encoder" in row else ""
    return (f"{row['case']}: {row['ours']['median_ms']:.1f} ms ({row['folded_layers']} layers folded), PyTorch plain {row['plain']['median_ms']:.1f} ms{encoder}:"
            f" {row['ratio']:.2f}x; probabilities differ by at most {row['difference']:.1e}")


if __name__ == "__main__":
    compare(parser_of(__doc__, CASES, "compare_predict.json").parse_args(), measure, text_of)
