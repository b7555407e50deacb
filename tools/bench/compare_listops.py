#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How well each attention learns ListOps trees of 100 to 300 tokens: `tapeformer compare` over all variants and three seeds.

    tools/bench/compare_listops.py [--attention all] [--seeds 1,2,3] [--json build/compare_listops.json]

About an hour on two idle cores; a second call goes on where the first was stopped. Makes the data where it is missing.
"""
import argparse
import json
import os
import subprocess

from compare_pytorch import BINARY, ROOT, machine

CONFIG, DATA, RUNS = "configs/listops/compare/base.yaml", "data/listops/compare", "runs/compare"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--attention", default="all")
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--json", default=os.path.join(ROOT, "build", "compare_listops.json"))
    arguments = parser.parse_args()
    destination = os.path.abspath(arguments.json)
    os.chdir(ROOT)  # the config's paths start there
    if not os.path.exists(os.path.join(DATA, "test.tsv")):
        subprocess.run([BINARY, "data", "make", "listops", "configs/listops/compare_data.yaml", "-o", DATA], check=True)
    table = machine()
    command = [BINARY, "compare", CONFIG, "--attention", arguments.attention, "--seeds", arguments.seeds, "-o", RUNS, "--json"]
    table["compare"] = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    with open(destination, "w", encoding="utf-8") as out:
        json.dump(table, out, indent=1)


if __name__ == "__main__":
    main()
