#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Full training steps of attention variants against published PyTorch packages, same machine, same tokens, same threads, alternating in separate processes.

    tools/bench/compare_variants.py [--cases local,performer] [--rounds 3] [--steps 15] [--json build/compare_variants.json]

The model is the same on both sides (2 layers, 64 wide, 2 heads, feed-forward 128, 4 sequences of 4,096 tokens, 2 threads), but for the attention:
there it is a package's module as it comes from PyPI, run eagerly. An environment of its own (build/variants-env) has the packages in the versions
below. Where both sides can compute the same function they first start from one of our checkpoints, and it stops unless loss and gradient norm of
three steps agree to 1e-4; elsewhere the two have the same shape, and it stops unless the rest of the model takes the same weights. `target` is the
ratio to reach. All cases take about half an hour.
"""
import json
import os
import subprocess
import tempfile

import readme_tables
from compare_pytorch import BINARY, ROOT, SMALL, check_equal_work, compare, config_of, ours, parser_of, run_json, spread

ENVIRONMENT = os.path.join(ROOT, "build", "variants-env")
PEER = os.path.join(ROOT, "tools", "bench", "package_step.py")
# performer-pytorch needs what setuptools still has of distutils.
PINNED = {"torch": "2.15.0", "numpy": "2.4.6", "h5py": "3.16.0", "setuptools": "84.2.1", "local-attention": "1.11.2", "sinkhorn-transformer": "0.11.4",
          "performer-pytorch": "1.1.4", "transformers": "5.23.0", "linformer": "0.2.3", "nystrom-attention": "0.0.14",
          "linear-attention-transformer": "0.19.1", "reformer-pytorch": "1.4.4", "routing-transformer": "1.6.1"}


def case(attention, settings, package, target, equal=None, name=None):
    """`equal`: what differs from the case where both sides must give the same numbers; None where they are different functions."""
    found = dict(SMALL, length=4096, batch=4, attention=attention, package=name or attention, against=package, target=target, equal=equal)
    return dict(found, settings=f"{attention}: {{{settings}}}") if settings else found


CASES = {
    "local": case("local", "form: blocked, block: 128", "local-attention, window 128", 3.5, {}),
    "sinkhorn": case("sinkhorn", "block: 128, net: attention, iterations: 5", "sinkhorn-transformer, blocks of 128", 2),
    # What is added to a feature is not relative to the same maximum, so next to nothing is added where the numbers are compared.
    "performer": case("performer", "features: 256, shared: true", "performer-pytorch, 256 features", 5,
                      {"settings": "performer: {features: 256, shared: true, epsilon: 1.0e-12}"}),
    "longformer": case("longformer", "count: 1, left: 128, right: 128", "transformers' Longformer, window 256", 5, {}),
    "linformer": case("linformer", "rank: 256, share: head", "linformer, k 256", 2.5, {}),
    "bigbird": case("bigbird", "block: 64, random_blocks: 3, globals: ends", "transformers' BigBird, blocks of 64, 3 random", 5, {"length": 1024}),
    # The package starts its pseudo-inverses from the largest norm of the whole batch; with one head and one sequence that is ours.
    "nystrom": case("nystrom", "landmarks: 256", "nystrom-attention, 256 landmarks", 2.2, {"batch": 1, "heads": 1}),
    "efficient": case("efficient", "", "linear-attention-transformer", 2, {}),
    "reformer": case("reformer", "hashes: 4, buckets: 64, chunk: 64, before: 1, after: 0, dedup: false", "reformer-pytorch, buckets of 64, 4 hashes", 4),
    "linear": case("linear", "", "elu + 1 written out in PyTorch", 2, {}),
    "routing": case("routing", "clusters: 32, window: 128", "routing-transformer, window 128", 1.8),
    "full_materialised": case("full", "", "softmax written out in PyTorch", 8, {}, "full_materialised"),
    "full_sdpa": case("full", "", "PyTorch's scaled_dot_product_attention", 1.5, {}, "full_sdpa"),
}


def theirs(python, case, _mode, steps, extra=()):
    return run_json([python, PEER, json.dumps(case), "--steps", str(steps), *extra])


def write_config(case, dropout, folder):
    path = os.path.join(folder, "config.yaml")
    with open(path, "w", encoding="utf-8") as out:
        out.write(config_of(case, dropout))
    return path


def check_equal_function(python, case, folder):
    case = dict(case, **case["equal"])
    if case["attention"] == "bigbird":  # whose random blocks the other side takes over
        layout = os.path.join(folder, "layout")
        subprocess.run([BINARY, "-q", "attn", write_config(case, 0.0, folder), "--pattern", "--length", str(case["length"]), "-o", layout], check=True,
                       stdout=subprocess.DEVNULL)
        case["pattern"] = layout + ".h5"
    check_equal_work(python, case, folder, theirs)
    return "equal to 1e-4"


def check_equal_shape(python, case, folder):
    checkpoint = os.path.join(folder, "start.h5")
    ours(case, write_config(case, 0.0, folder), 1, ["--warmup", "0", "--save-start", checkpoint])
    found = theirs(python, case, "eager", 1, ["--checkpoint", checkpoint])["parameters"]
    here, package = found["here"], found["package"]
    if here["rest"] != package["rest"]:
        raise SystemExit(f"{case['against']}: {package['rest']} parameters outside of its attention, {here['rest']} here")
    return f"same shape, not same function ({here['attention']} parameters in attention here, {package['attention']} there)"


def measure(python, name, arguments):
    with tempfile.TemporaryDirectory() as folder:
        case = dict(CASES[name], data=os.path.join(folder, "batches"))
        row = {"case": name, "attention": case["attention"], "settings": case.get("settings", ""), "against": case["against"], "target": case["target"]}
        row["check"] = (check_equal_shape if case["equal"] is None else check_equal_function)(python, case, folder)
        config = write_config(case, 0.1, folder)
        results = {"ours": [], "package": []}
        for _ in range(arguments.rounds):
            results["ours"].append(ours(case, config, arguments.steps))
            results["package"].append(theirs(python, case, "eager", arguments.steps))
    row.update((side, spread(runs)) for side, runs in results.items())
    row["ratio"] = row["package"]["median_ms"] / row["ours"]["median_ms"]
    row["memory_ratio"] = row["ours"]["peak_mib"] / row["package"]["peak_mib"]
    return row


def text_of(row):
    sides = [f"{row[side]['median_ms']:.1f} ms (quartiles {row[side]['quartile1_ms']:.1f}, {row[side]['quartile3_ms']:.1f})" for side in ("ours", "package")]
    reached = "reached" if row["ratio"] >= row["target"] else "MISSED"
    return (f"{row['case']}: {sides[0]} here, {sides[1]} {row['against']}: {row['ratio']:.2f}x, target {row['target']}x {reached};"
            f" memory {row['ours']['peak_mib']:.0f} against {row['package']['peak_mib']:.0f} MiB; {row['check']}")


if __name__ == "__main__":
    measured = compare(parser_of(__doc__, CASES, "compare_variants.json").parse_args(), measure, text_of,
                       [f"{name}=={version}" for name, version in PINNED.items()], ENVIRONMENT)
    print("\n".join(readme_tables.variants(measured)))
