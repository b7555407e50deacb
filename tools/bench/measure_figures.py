#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures what the README says of quality and start-up, with build/release/tapeformer: quickstart accuracy for seeds 1, 2, 3, the words example,
`--help`. Writes build/figures.json. Takes about seven minutes on two cores; run nothing beside it.
"""
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from compare_pytorch import BINARY, ROOT, machine


def call(*words):
    done = subprocess.run([BINARY, *words], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{words}: exit {done.returncode}\n{done.stderr}")
    return done.stdout


def train_and_test(config, seed, folder):
    run = os.path.join(folder, f"{seed}")
    began = time.perf_counter()
    call("train", config, "-o", run, f"run.seed={seed}", "-q")
    seconds = time.perf_counter() - began
    accuracy = json.loads(call("eval", run, "--split", "test", "--json", "-q"))["accuracy"]
    shutil.rmtree(run)
    print(f"{config} seed {seed}: {accuracy:.4f} in {seconds:.1f} s", flush=True)
    return {"seed": seed, "accuracy": accuracy, "seconds": seconds}


def main():
    figures = machine()
    times = []
    for _ in range(21):
        began = time.perf_counter()
        call("--help")
        times.append((time.perf_counter() - began) * 1000)
    figures["help_ms"] = statistics.median(times)
    if not os.path.exists(os.path.join(ROOT, "data/listops/quickstart/test.tsv")):
        call("data", "make", "listops", "configs/listops/quickstart_data.yaml", "-o", "data/listops/quickstart")
    with tempfile.TemporaryDirectory() as folder:
        figures["quickstart"] = [train_and_test("configs/listops/quickstart.yaml", seed, folder) for seed in (1, 2, 3)]
        if os.path.exists(os.path.join(ROOT, "data/words/test.tsv")):
            figures["words"] = [train_and_test("configs/words/full.yaml", 1, folder)]
    with open(os.path.join(ROOT, "build", "figures.json"), "w", encoding="utf-8") as out:
        json.dump(figures, out, indent=1)


if __name__ == "__main__":
    main()
