#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Full training steps of attention variants, each against a figure of its own: milliseconds allowed on a machine of known peak.

    tools/bench/variant_steps.py [--variants local,performer] [--rounds 3] [--steps 15] [--json build/variant_steps.json]

The model and the settings of compare_variants.py (2 layers, 64 wide, 2 heads, 4 sequences of 4,096 tokens, 2 threads). The figures are for two
cores with a multiply-add peak of 204 GFLOP/s; here they are scaled by the peak that `tapeformer bench` measures, the highest of all rounds, or by
--peak: what else the machine does lowers a measured peak, and so allows more.
`stride` is held against a band of as many keys in place of a figure. The variants run in turn, `rounds` times, each in a process of its own.
"""
import argparse
import json
import os
import tempfile

import readme_tables
from compare_pytorch import BINARY, ROOT, SMALL, config_of, machine, ours, run_json, spread
from compare_variants import CASES, write_config

PEAK = 204.0  # GFLOP/s that the milliseconds are for
FIGURES = {"full": 919, "local": 180, "linformer": 183, "performer": 183, "linear": 87, "efficient": 87, "sinkhorn": 180, "bigbird": 300,
           "longformer": 300, "routing": 170, "reformer": 390, "nystrom": 480}
STRIDE_LIMIT = 1.3  # times the band
OTHERS = {"local_band": "local: {form: band, left: 192, right: 192}", "stride": "stride: {stride: 8, reach: 192}"}


def case_of(variant):
    if variant in OTHERS:
        settings = OTHERS[variant]
        return dict(SMALL, length=4096, batch=4, attention=settings.split(":")[0], settings=settings)
    return CASES["full_sdpa" if variant == "full" else variant]


def measured_peak(folder):
    """GFLOP/s of multiply-adds on both threads, as a profile states it."""
    path = os.path.join(folder, "peak.yaml")
    with open(path, "w", encoding="utf-8") as out:
        out.write(config_of(dict(SMALL, length=128, batch=1, attention="full"), 0.0))
    found = run_json([BINARY, "bench", "step", path, "--batch", "1", "--length", "128", "--steps", "1", "--threads", "2", "--profile", "--json"])
    return found["profile"]["peak_gflops_per_s"]


def measure(variants, arguments):
    runs, peaks = {variant: [] for variant in variants}, []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(arguments.rounds):
            peaks.append(arguments.peak or measured_peak(folder))
            for variant in variants:
                case = dict(case_of(variant), data=os.path.join(folder, "batches"))
                runs[variant].append(ours(case, write_config(case, 0.1, folder), arguments.steps))
    return max(peaks), {variant: spread(of_variant) for variant, of_variant in runs.items()}


def rows_of(peak, found):
    rows = []
    for variant, figures in found.items():
        row = {"variant": variant, "settings": case_of(variant).get("settings", ""), **figures}
        if variant in FIGURES:
            row["allowed_ms"] = FIGURES[variant] * PEAK / peak
        elif variant == "stride" and "local_band" in found:
            row["allowed_ms"] = STRIDE_LIMIT * found["local_band"]["median_ms"]
        rows.append(row)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--variants", default=",".join([*FIGURES, *OTHERS]))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=15)
    parser.add_argument("--peak", type=float, help="GFLOP/s of this machine's two cores, in place of a measurement")
    parser.add_argument("--json", default=os.path.join(ROOT, "build", "variant_steps.json"))
    arguments = parser.parse_args()
    table = machine()
    table["peak_gflops_per_s"], found = measure(arguments.variants.split(","), arguments)
    table["rows"] = rows_of(table["peak_gflops_per_s"], found)
    with open(arguments.json, "w", encoding="utf-8") as out:
        json.dump(table, out, indent=1)
    print("\n".join(readme_tables.steps(table)))


if __name__ == "__main__":
    main()
