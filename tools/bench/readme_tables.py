#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the measured tables into README.md between its markers, from build/compare_pytorch.json and build/figures.json."""
import json
import os
import statistics

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def load(name):
    with open(os.path.join(ROOT, "build", name), encoding="utf-8") as source:
        return json.load(source)


def speed(table):
    lines = ["Full training steps (forward, backward, clipping, AdamW) against PyTorch from PyPI, the better of eager and compiled, 2 threads, medians;",
             f"{table['machine']}, {table['cores']} cores, {table['date']}, commit {table['commit']}. Memory is the peak above the loaded model, against eager.",
             "Repeat: `tools/bench/compare_pytorch.py`.", "",
             "| case | here, ms (quartiles) | PyTorch eager, ms | compiled, ms | ratio | memory, MiB |", "|---|---|---|---|---|---|"]
    for row in table["rows"]:
        ours, eager = row["ours"], row["eager"]
        compiled = f"{row['compiled']['median_ms']:.0f}" if "compiled" in row else "not measured"
        lines.append(f"| `{row['case']}` | {ours['median_ms']:.0f} ({ours['quartile1_ms']:.0f} to {ours['quartile3_ms']:.0f}) | {eager['median_ms']:.0f} | {compiled} "
                     f"| {row['ratio']:.2f} | {ours['peak_mib']:.0f} of {eager['peak_mib']:.0f} |")
    return lines


def quality(figures):
    runs = figures["quickstart"]
    lines = ["", f"Quality and start-up ({figures['machine']}, {figures['cores']} cores, {figures['date']}, commit {figures['commit']}). Repeat: `tools/bench/measure_figures.py`.", "",
             "| what | figure |", "|---|---|",
             "| `configs/listops/quickstart.yaml`, test accuracy, seeds 1, 2, 3 (one class: 11 %) | "
             + ", ".join(f"{100 * r['accuracy']:.1f} %" for r in runs) + f"; median {100 * statistics.median(r['accuracy'] for r in runs):.1f} % |",
             f"| its training time, start to exit | {min(r['seconds'] for r in runs):.0f} to {max(r['seconds'] for r in runs):.0f} s |"]
    for r in figures.get("words", []):
        lines.append(f"| `configs/words`, accuracy on 10,000 held-out words (one class: 10 %) | {100 * r['accuracy']:.1f} % in {r['seconds']:.0f} s |")
    lines.append(f"| `tapeformer --help` | {figures['help_ms']:.0f} ms |")
    return lines


def main():
    path = os.path.join(ROOT, "README.md")
    with open(path, encoding="utf-8") as source:
        text = source.read()
    begin, end = "<!-- tables -->", "<!-- /tables -->"
    body = "\n".join(speed(load("compare_pytorch.json")) + quality(load("figures.json")))
    with open(path, "w", encoding="utf-8") as out:
        out.write(text[:text.index(begin) + len(begin)] + "\n" + body + "\n" + text[text.index(end):])


if __name__ == "__main__":
    main()
