#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Full training steps against PyTorch from PyPI, same machine, same data, same threads, alternating in separate processes.

    tools/bench/compare_pytorch.py [--cases lra4k_full,quick] [--rounds 3] [--steps 15] [--json build/compare_pytorch.json]

Makes an environment of its own (build/bench-env) with PyTorch. For each case it first loads one of our checkpoints into both programs and stops
unless loss and gradient norm of three steps with dropout 0 agree to 1e-4; then the two programs run in turn, `rounds` times each, at least
5 warm-up and `steps` timed steps a round. PyTorch is measured twice, eager and compiled, and the better one counts. A case in which PyTorch is more than
20 % slower than on a slower machine is marked as not valid: something else ran. All cases take about an hour.
"""
import argparse
import datetime
import json
import os
import platform
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BINARY = os.path.join(ROOT, "build", "release", "tapeformer")
ENVIRONMENT = os.path.join(ROOT, "build", "bench-env")
PEER = os.path.join(ROOT, "tools", "bench", "pytorch_step.py")
PACKAGES = ("torch", "numpy", "h5py")
SMALL = dict(layers=2, dim=64, heads=2, ff=128)
MINI = dict(layers=4, dim=256, heads=4, ff=1024)
CASES = {
    "lra1k_full": dict(SMALL, length=1024, batch=32, attention="full"),
    "lra1k_local": dict(SMALL, length=1024, batch=32, attention="local"),
    "lra2k_ragged": dict(SMALL, length=2000, batch=32, attention="full", ragged=True),
    "lra2k_linear_ragged": dict(SMALL, length=2000, batch=32, attention="linear", ragged=True),
    "lra4k_full": dict(SMALL, length=4096, batch=4, attention="full"),
    "lra4k_linear": dict(SMALL, length=4096, batch=4, attention="linear"),
    "lra4k_local": dict(SMALL, length=4096, batch=4, attention="local"),
    "mini512_full": dict(MINI, length=512, batch=16, attention="full"),
    "mini512_linear": dict(MINI, length=512, batch=16, attention="linear"),
    "mini128_ragged": dict(MINI, length=128, batch=64, attention="full", ragged=True),
    "base256_full": dict(layers=4, dim=768, heads=12, ff=3072, length=256, batch=8, attention="full"),
    "quick": dict(layers=4, dim=64, heads=4, ff=256, length=96, batch=64, attention="full", ragged=True),
}
# PyTorch's milliseconds on two idle cores with a multiply-add peak of 204 GFLOP/s (AVX2). Where it takes much longer, the machine did something else.
USUAL_MS = {
    "lra1k_full": 1016, "lra1k_local": 982, "lra2k_ragged": 3395, "lra2k_linear_ragged": 776, "lra4k_full": 1379, "lra4k_linear": 216, "lra4k_local": 434,
    "mini512_full": 2350, "mini512_linear": 1828, "mini128_ragged": 1819, "base256_full": 3006, "quick": 238,
}
SLOWER = 1.2


def config_of(case, dropout):
    """Our config for a case, as text."""
    return f"""\
version: 1
run: {{seed: 1}}
data: {{task: classification, path: none.tsv, max_length: {case['length']}}}
model:
  dim: {case['dim']}
  layers: {case['layers']}
  dropout: {dropout}
  feed_forward: {{dim: {case['ff']}, activation: gelu, dropout: {dropout}}}
  norm: {{type: {case.get('norm', 'layer_norm')}, position: pre}}
  attention: {{type: {case['attention']}, heads: {case['heads']}, {case.get('settings', 'local: {form: blocked, block: 128}')}}}
  pooling: mean
optim: {{type: adamw, lr: 1.0e-3, weight_decay: 0.01, clip_norm: 1.0}}
train: {{duration: 1000, batch_size: {case['batch']}}}
"""


def environment(folder=ENVIRONMENT, packages=PACKAGES):
    """The Python of the environment with PyTorch, made on first use."""
    python, ready = os.path.join(folder, "bin", "python"), os.path.join(folder, "ready")
    if not os.path.exists(ready):
        print("making an environment with PyTorch in", folder, flush=True)
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", *packages], check=True)
        open(ready, "w", encoding="utf-8").close()
    return python


def run_json(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "OMP_NUM_THREADS": "2"})
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit {done.returncode}\n{done.stderr[-3000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def ours(case, config, steps, extra=()):
    """Writes its batches to case["data"], which the other side reads."""
    command = [BINARY, "bench", "step", config, "--batch", str(case["batch"]), "--length", str(case["length"]), "--steps", str(steps), "--json",
               "--threads", "2", "--write-batches", case["data"], *extra]
    return run_json(command + (["--ragged"] if case.get("ragged") else []))


def theirs(python, case, mode, steps, extra=()):
    """Local attention is measured in two forms, each in a process of its own; the faster one counts."""
    forms = ["local", "local_fold"] if case["attention"] == "local" else [case["attention"]]
    runs = [run_json([python, PEER, json.dumps(dict(case, attention=form)), "--mode", mode, "--steps", str(steps), *extra]) for form in forms]
    return min(runs, key=lambda run: run["median_ms"])


def check_equal_work(python, case, folder, peer=theirs):
    """Three steps from one checkpoint with dropout 0: losses and gradient norms agree to 1e-4."""
    config, checkpoint = os.path.join(folder, "equal.yaml"), os.path.join(folder, "start.h5")
    with open(config, "w", encoding="utf-8") as out:
        out.write(config_of(case, 0.0))
    left = ours(case, config, 3, ["--warmup", "0", "--trace", "--save-start", checkpoint])["trace"]
    right = peer(python, case, "eager", 3, ["--checkpoint", checkpoint])["trace"]
    for number, (a, b) in enumerate(zip(left, right), 1):
        for key in ("loss", "gradient_norm"):
            if abs(a[key] - b[key]) > 1e-4 * abs(b[key]):
                sys.exit(f"unequal work: step {number}: {key} {a[key]} here, {b[key]} in PyTorch")
    if len(left) != 3 or len(right) != 3:
        sys.exit("unequal work: three steps were expected")


def machine():
    """Where and when a table was measured."""
    with open("/proc/cpuinfo", encoding="utf-8") as lines:
        cpu = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.processor())
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()
    return {"machine": cpu, "cores": os.cpu_count(), "date": datetime.date.today().isoformat(), "commit": commit,
            "load": round(os.getloadavg()[0], 1)}


def versions(python, packages):
    """What is installed there, by the names of pip."""
    names = [package.split("==")[0] for package in packages]
    code = f"import importlib.metadata as m, json; print(json.dumps({{name: m.version(name) for name in {names}}}))"
    return run_json([python, "-c", code])


def median(values):
    values = sorted(values)
    return values[len(values) // 2] if len(values) % 2 else (values[len(values) // 2 - 1] + values[len(values) // 2]) / 2


def measure(python, name, arguments):
    with tempfile.TemporaryDirectory() as folder:
        case = dict(CASES[name], data=os.path.join(folder, "batches"))
        check_equal_work(python, case, folder)
        config = os.path.join(folder, "config.yaml")
        with open(config, "w", encoding="utf-8") as out:
            out.write(config_of(case, 0.1))
        results = {"ours": [], "eager": [], "compiled": []}
        for _ in range(arguments.rounds):
            results["ours"].append(ours(case, config, arguments.steps))
            results["eager"].append(theirs(python, case, "eager", arguments.steps))
            if not arguments.no_compile:
                results["compiled"].append(theirs(python, case, "compiled", arguments.steps))
    row = {"case": name}
    for side, runs in results.items():
        if runs:
            row[side] = spread(runs)
    best = min(row[side]["median_ms"] for side in ("eager", "compiled") if side in row)
    row["ratio"] = best / row["ours"]["median_ms"]
    row["memory_ratio"] = row["ours"]["peak_mib"] / row["eager"]["peak_mib"]
    row["valid"] = best <= SLOWER * USUAL_MS[name]
    return row


def text_of(row):
    compiled = f", compiled {row['compiled']['median_ms']:.1f} ms" if "compiled" in row else ""
    return (f"{row['case']}: {row['ours']['median_ms']:.1f} ms, PyTorch eager {row['eager']['median_ms']:.1f} ms{compiled}: {row['ratio']:.2f}x;"
            f" memory {row['ours']['peak_mib']:.0f} against {row['eager']['peak_mib']:.0f} MiB"
            + ("" if row["valid"] else f"; not valid: PyTorch took more than {SLOWER} times {USUAL_MS[row['case']]} ms"))


def spread(runs):
    """The median of each figure over the rounds."""
    return {key: median([run[key] for run in runs]) for key in ("median_ms", "quartile1_ms", "quartile3_ms", "peak_mib")}


def parser_of(description, cases, json_name):
    """The options of a comparison."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", default=",".join(cases))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=15)
    parser.add_argument("--json", default=os.path.join(ROOT, "build", json_name))
    parser.add_argument("--python", help="a Python that has PyTorch, numpy, h5py and what else is compared, in place of an environment of its own")
    return parser


def compare(arguments, measure_case, text, packages=PACKAGES, folder=ENVIRONMENT):
    """Measures each case, prints its line and keeps the table so far in the JSON; returns the table."""
    python = arguments.python or environment(folder, packages)
    table = dict(machine(), rounds=arguments.rounds, steps=arguments.steps, versions=versions(python, packages), rows=[])
    for name in arguments.cases.split(","):
        row = measure_case(python, name, arguments)
        table["rows"].append(row)
        print(text(row), flush=True)
        with open(arguments.json, "w", encoding="utf-8") as out:
            json.dump(table, out, indent=1)
    return table


def main():
    parser = parser_of(__doc__, CASES, "compare_pytorch.json")
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out (it needs a C++ compiler and minutes)")
    compare(parser.parse_args(), measure, text_of)


if __name__ == "__main__":
    main()
