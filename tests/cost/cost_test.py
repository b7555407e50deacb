#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Instructions and memory of small training steps against the recorded ones, so that a slow-down can't land unseen.

    cost_test.py BINARY COMPILER            compares; exit 1 when anything is more than 5 % above, 77 (skipped) for another compiler
    cost_test.py BINARY COMPILER --record   writes recorded.json beside this file

Callgrind counts 6 steps and 2 steps on one thread; their difference is 4 steps without the start of the program. It counts by kernel too, so
that one that got slower shows where others are large. Bytes are what the steps ask of the allocator, exactly. glibc is told to fill and copy
without `rep stosb`, which callgrind counts by the byte: from what size on glibc takes it depends on the processor.
"""
import json
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

RECORDED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "recorded.json")
ALLOWED = 1.05
LEAST_SHARE = 0.01  # kernels below this share of a case are left to its sum
SKIPPED = 77
ENVIRONMENT = {**os.environ, "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-ERMS,-FSRM"}

CONFIG = """\
version: 1
run: {{seed: 1}}
data: {{task: classification, path: none.tsv, max_length: 128}}
model:
  dim: 64
  layers: 2
  dropout: 0.1
  feed_forward: {{dim: 128, activation: gelu, dropout: 0.1}}
  norm: {{type: {norm}, position: pre}}
  attention: {{type: {attention}, heads: 4, local: {{form: blocked, block: 32}}}}
  pooling: mean
optim: {{type: adamw, lr: 1.0e-3, weight_decay: 0.01, clip_norm: 1.0}}
train: {{duration: 10, batch_size: 2}}
"""
CASES = {"full_layer_norm": ("full", "layer_norm", 80), "local_batch_norm": ("local", "batch_norm", 96), "linear_layer_norm": ("linear", "layer_norm", 96)}


def inclusive_costs(path):
    """Instructions of every function of a callgrind file, what it calls included."""
    names, costs, function, in_call = {}, {}, None, False
    with open(path, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if line.startswith(("fn=", "cfn=")):
                key, name = re.match(r"c?fn=\((\d+)\)(?: (.*))?", line.rstrip("\n")).groups()
                names.setdefault(key, name)
                if line.startswith("fn="):
                    function = names[key]
            elif line.startswith("calls="):
                in_call = True
            elif function and line[0] in "0123456789+-*":
                costs[function] = costs.get(function, 0) + int(line.split()[1])
                in_call = False
    if not costs or in_call:
        sys.exit("callgrind's file was not understood")
    return costs


def kernels_of(costs):
    """Kernel (its struct) -> instructions of its member for the cpu device. Its closures may be functions too, and are part of it."""
    found = {}
    for name, cost in costs.items():
        match = re.match(r"tapeformer::kernels::(\w+)<float>::cpu\(", name)
        if match:
            found[match.group(1)] = max(found.get(match.group(1), 0), cost)
    return found


def call(words):
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False, env=ENVIRONMENT)
    except FileNotFoundError:
        sys.exit(f"{words[0]} is not installed; tools/setup.sh --tests does it")
    if done.returncode != 0:
        sys.exit(f"{' '.join(words)}: exit {done.returncode}\n{done.stderr}")
    return done


def count(binary, config, length, steps, file):
    """Instructions in all, and by kernel, of this many steps and the program around them."""
    verb = [binary, "bench", "step", config, "--length", str(length), "--ragged", "--threads", "1", "--json", "--warmup", "0", "--steps", str(steps)]
    done = call(["valgrind", "--tool=callgrind", f"--callgrind-out-file={file}", *verb])
    return int(re.search(r"Collected : (\d+)", done.stderr).group(1)), kernels_of(inclusive_costs(file)), json.loads(done.stdout)["allocated_bytes"]


def measure(pool, binary, folder, name, attention, norm, length):
    """Both counts are started at once; what is returned waits for them."""
    config = os.path.join(folder, f"{name}.yaml")
    with open(config, "w", encoding="utf-8") as out:
        out.write(CONFIG.format(norm=norm, attention=attention))
    runs = [pool.submit(count, binary, config, length, steps, os.path.join(folder, f"{name}.{steps}")) for steps in (6, 2)]

    def result():
        (more, more_kernels, allocated), (few, few_kernels, _) = (run.result() for run in runs)
        return {"instructions": (more - few) // 4, "allocated_bytes": allocated,
                "kernels": {k: (v - few_kernels.get(k, 0)) // 4 for k, v in sorted(more_kernels.items())}}
    return result


def figures_of(case):
    """Name -> figure: what is compared."""
    figures = {"instructions a step": case["instructions"], "bytes allocated a step": case["allocated_bytes"]}
    for name, count in case["kernels"].items():
        if count >= LEAST_SHARE * case["instructions"]:
            figures[f"instructions of {name}"] = count
    return figures


def compare(name, recorded, measured):
    """Prints every figure; the number of those above what is allowed."""
    above, now = 0, {"instructions a step": measured["instructions"], "bytes allocated a step": measured["allocated_bytes"],
                     **{f"instructions of {k}": v for k, v in measured["kernels"].items()}}
    for what, before in figures_of(recorded).items():
        if what not in now:
            print(f"{name}: {what}: recorded {before}, no such kernel now; record again")
            above += 1
            continue
        ratio = now[what] / before
        print(f"{name}: {what}: {now[what]}, recorded {before}, {100 * (ratio - 1):+.2f} %{' ABOVE' if ratio > ALLOWED else ''}")
        above += ratio > ALLOWED
    for what in sorted(set(figures_of(measured)) - set(figures_of(recorded))):
        print(f"{name}: {what}: {now[what]}, not recorded (the sum counts it)")
    return above


def main():
    if len(sys.argv) not in (3, 4) or sys.argv[3:] not in ([], ["--record"]):
        sys.exit(__doc__)
    binary, compiler = sys.argv[1:3]
    recorded = {}
    if not sys.argv[3:]:
        with open(RECORDED, encoding="utf-8") as source:
            recorded = json.load(source)
        if recorded["compiler"] != compiler:
            print(f"recorded with {recorded['compiler']}, this is {compiler}: not comparable, skipped")
            sys.exit(SKIPPED)
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as pool:
        results = {name: measure(pool, binary, folder, name, *case) for name, case in CASES.items()}
        measured = {name: result() for name, result in results.items()}
    if sys.argv[3:]:
        with open(RECORDED, "w", encoding="utf-8") as out:
            json.dump({"compiler": compiler, "cases": measured}, out, indent=1)
            out.write("\n")
        return 0
    above = sum(compare(name, recorded["cases"][name], measured[name]) for name in CASES)
    if above:
        print(f"{above} figures are more than {100 * (ALLOWED - 1):.0f} % above the recorded ones. If that is wanted: {sys.argv[0]} {binary} '{compiler}' --record")
    return 1 if above else 0


if __name__ == "__main__":
    sys.exit(main())
