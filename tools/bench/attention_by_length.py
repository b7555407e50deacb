#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One attention layer alone, of each variant, at growing lengths, as `tapeformer bench attention` measures it, with where and when it was measured.

    tools/bench/attention_by_length.py [--variants all] [--lengths 1024,4096,16384,65536] [--json build/attention_by_length.json]

Writes the picture beside the JSON. All variants to 64K rows take about a quarter of an hour; what takes longer than `--limit` seconds is left out, and
says so.
"""
import argparse
import json
import os
import subprocess
import sys

from compare_pytorch import BINARY, ROOT, machine


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--variants", default="all")
    parser.add_argument("--lengths", default="1024,4096,16384,65536")
    parser.add_argument("--limit", type=float, default=60, help="seconds of a forward and backward pass")
    parser.add_argument("--json", default=os.path.join(ROOT, "build", "attention_by_length.json"))
    arguments = parser.parse_args()
    table = machine()
    done = subprocess.run([BINARY, "bench", "attention", "--variants", arguments.variants, "--lengths", arguments.lengths, "--limit", str(arguments.limit),
                           "--picture", os.path.splitext(arguments.json)[0] + ".svg", "--json"], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"tapeformer bench attention: exit {done.returncode}")
    table.update(json.loads(done.stdout))
    with open(arguments.json, "w", encoding="utf-8") as out:
        json.dump(table, out, indent=1)


if __name__ == "__main__":
    main()
