#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a second thread gives: full training steps on one thread and on two, in turn, in processes of their own.

    tools/bench/thread_scaling.py [--cases lra4k_full,quick] [--rounds 3] [--steps 9] [--json build/thread_scaling.json]

The cases of compare_pytorch.py, all of them in about a quarter of an hour. Only a machine with two idle cores shows anything: cores that share their
units or their clock with other guests give less than the program could use.
"""
import argparse
import json
import os
import tempfile

from compare_pytorch import BINARY, CASES, ROOT, config_of, machine, median, run_json


def measure(name, arguments):
    case = CASES[name]
    steps = {1: [], 2: []}
    with tempfile.TemporaryDirectory() as folder:
        config = os.path.join(folder, "config.yaml")
        with open(config, "w", encoding="utf-8") as out:
            out.write(config_of(case, 0.1))
        for _ in range(arguments.rounds):
            for threads, found in steps.items():
                command = [BINARY, "bench", "step", config, "--batch", str(case["batch"]), "--length", str(case["length"]), "--steps", str(arguments.steps),
                           "--warmup", "2", "--threads", str(threads), "--json"]
                found.append(run_json(command + (["--ragged"] if case.get("ragged") else []))["median_ms"])
    one, two = median(steps[1]), median(steps[2])
    return {"case": name, "one_ms": one, "two_ms": two, "speedup": one / two}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=9)
    parser.add_argument("--json", default=os.path.join(ROOT, "build", "thread_scaling.json"))
    arguments = parser.parse_args()
    table = dict(machine(), rounds=arguments.rounds, rows=[])
    for name in arguments.cases.split(","):
        row = measure(name, arguments)
        table["rows"].append(row)
        print(f"{name}: {row['one_ms']:.1f} ms on one thread, {row['two_ms']:.1f} on two: {row['speedup']:.2f}x", flush=True)
        with open(arguments.json, "w", encoding="utf-8") as out:
            json.dump(table, out, indent=1)


if __name__ == "__main__":
    main()
