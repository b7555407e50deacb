#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the measured tables into README.md between its markers, and the picture.

What the scripts of this folder left in build/ is taken into tools/bench/measured/ first; tables and picture are made from the files there.
"""
import json
import os
import shutil
import statistics

import chart

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MEASURED = os.path.join(ROOT, "tools", "bench", "measured")
NAMES = ("compare_pytorch", "compare_predict", "compare_variants", "variant_steps", "attention_by_length", "cost_by_length", "cost_to_64k", "thread_scaling",
         "figures", "compare_listops")


def load(name):
    """What a script measured; None where it was never run."""
    fresh, kept = os.path.join(ROOT, "build", f"{name}.json"), os.path.join(MEASURED, f"{name}.json")
    for end in (".json", ".svg"):
        if os.path.exists(fresh[:-len(".json")] + end):
            shutil.copyfile(fresh[:-len(".json")] + end, kept[:-len(".json")] + end)
    if not os.path.exists(kept):
        return None
    with open(kept, encoding="utf-8") as source:
        return json.load(source)


def where(table):
    load = f", load {table['load']} before it" if "load" in table else ""
    rounds = f", rounds: {table['rounds']}" if "rounds" in table else ""
    return f"{table['machine']}, {table['cores']} cores, {table['date']}, commit {table['commit']}{load}{rounds}"


def quartiles(figures):
    return f"{figures['median_ms']:.0f} ({figures['quartile1_ms']:.0f} to {figures['quartile3_ms']:.0f})"


def speed(table):
    lines = ["Full training steps (forward, backward, clipping, AdamW) against PyTorch from PyPI, the better of eager and compiled, 2 threads, medians;",
             f"{where(table)}. Memory is the peak above the loaded model, against eager.",
             "Repeat: `tools/bench/compare_pytorch.py`.", *table.get("remarks", []), "",
             "![A training step: times faster than PyTorch](tools/bench/measured/compare_pytorch.svg)", "",
             "| case | here, ms (quartiles) | PyTorch eager, ms | compiled, ms | ratio | memory, MiB |", "|---|---|---|---|---|---|"]
    for row in table["rows"]:
        ours, eager = row["ours"], row["eager"]
        compiled = f"{row['compiled']['median_ms']:.0f}" if "compiled" in row else "not measured"
        invalid = "" if row.get("valid", True) else " (not valid: PyTorch was slower than on a slower machine)"
        lines.append(f"| `{row['case']}` | {quartiles(ours)} | {eager['median_ms']:.0f} | {compiled} | {row['ratio']:.2f}{invalid} "
                     f"| {ours['peak_mib']:.0f} of {eager['peak_mib']:.0f} |")
    product = statistics.geometric_mean(row["ratio"] for row in table["rows"])
    return lines + ["", f"The geometric mean of the ratios is {product:.2f}."]


def inference(table):
    lines = ["", f"Inference of the `mini` model (4 layers of 256), 32 sequences, from tokens to probabilities, 2 threads ({where(table)}), against PyTorch under",
             "`inference_mode`, the better of plain blocks and `nn.TransformerEncoder`; the probabilities agree to 1e-4. Repeat: `tools/bench/compare_predict.py`.",
             *table.get("remarks", []), "",
             "| case | here, ms | PyTorch plain, ms | `nn.TransformerEncoder`, ms | ratio | memory, MiB |", "|---|---|---|---|---|---|"]
    for row in table["rows"]:
        encoder = f"{row['encoder']['median_ms']:.1f}" if "encoder" in row else "has no BatchNorm"
        lines.append(f"| `{row['case']}` | {row['ours']['median_ms']:.1f} | {row['plain']['median_ms']:.1f} | {encoder} | {row['ratio']:.2f} "
                     f"| {row['ours']['peak_mib']:.0f} of {row['plain']['peak_mib']:.0f} |")
    return lines


def variants(table):
    full = next((row["package"]["peak_mib"] for row in table["rows"] if row["case"] == "full_materialised"), None)
    lines = ["", f"Training steps of attention variants (2 layers of 64, 2 heads, 4 sequences of 4,096 tokens, 2 threads, {where(table)}) against published PyTorch",
             "packages, run eagerly in the same model. Where both can compute the same function they did: losses and gradient norms of three steps agree to 1e-4.",
             "Memory is the peak above the loaded model. Repeat: `tools/bench/compare_variants.py`, which names the versions.", *table.get("remarks", []), "",
             "| attention | against | here, ms (quartiles) | there, ms (quartiles) | ratio (to reach) | memory, MiB | of materialised `full` | function |",
             "|---|---|---|---|---|---|---|---|"]
    for row in table["rows"]:
        share = f"1/{full / row['ours']['peak_mib']:.1f}" if full else "not measured"
        same = "same" if row["check"].startswith("equal") else "same shape"
        lines.append(f"| `{row['attention']}` | {row['against']} | {quartiles(row['ours'])} | {quartiles(row['package'])} | {row['ratio']:.2f} ({row['target']:g}) "
                     f"| {row['ours']['peak_mib']:.0f} of {row['package']['peak_mib']:.0f} | {share} | {same} |")
    return lines


def steps(table):
    peak = table["peak_gflops_per_s"]
    lines = ["", f"The same steps by themselves, and what they may take: figures for a peak of 204 GFLOP/s, scaled by this machine's {peak:.0f} GFLOP/s",
             f"({where(table)}); `stride` may take 1.3 times a band of as many keys. Repeat: `tools/bench/variant_steps.py`.", *table.get("remarks", []), "",
             "| attention | ms (quartiles) | allowed, ms | memory, MiB |", "|---|---|---|---|"]
    for row in table["rows"]:
        allowed = f"{row['allowed_ms']:.0f}" if "allowed_ms" in row else ""
        lines.append(f"| `{row['settings'] or row['variant']}` | {quartiles(row)} "
                     f"| {allowed} | {row['peak_mib']:.0f} |")
    return lines


def lengths(table):
    columns, cells = sorted({cell["length"] for cell in table["cells"]}), {}
    for cell in table["cells"]:
        cells.setdefault(cell["attention"], {})[cell["length"]] = cell
    lines = ["", f"One attention layer alone ({table['dim']} wide, {table['heads']} heads, one sequence, {table['threads']} threads, {where(table)}): milliseconds of forward and",
             "backward, and peak memory in MiB. Repeat: `tools/bench/attention_by_length.py`.", *table.get("remarks", []), "",
             "![Time over length](tools/bench/measured/attention_by_length.svg)", "",
             "| attention | " + " | ".join(f"{n:,} rows" for n in columns) + " | time per row, last over 4,096 |", "|---" * (len(columns) + 2) + "|"]
    for attention, row in cells.items():
        times = {n: row[n]["forward_ms"] + row[n]["backward_ms"] for n in columns if n in row and "forward_ms" in row[n]}
        texts = [f"{times[n]:.1f}, {row[n]['peak_bytes'] / 2**20:.1f}" if n in times else "left out" for n in columns]
        ratio = f"{times[columns[-1]] / columns[-1] / (times[4096] / 4096):.2f}" if {4096, columns[-1]} <= times.keys() else ""
        lines.append(f"| `{attention}` | " + " | ".join(texts) + f" | {ratio} |")
    return lines


def growth(table):
    lengths = [row["length"] for row in table["attentions"][0]["rows"]]
    lines = ["", f"Cost as sequences grow: training steps of the small model (2 layers of 64), sequences: {table['batch']}, 2 threads ({where(table)}).",
             f"Repeat: `{table.get('repeat', 'tools/bench/cost_by_length.py')}`.", *table.get("remarks", []), "",
             "| attention | " + " | ".join(f"{n} rows: us, KiB a token" for n in lengths) + f" | {lengths[-1]} over {lengths[0]}: time, memory |",
             "|---" * (len(lengths) + 2) + "|"]
    for found in table["attentions"]:
        cells = [f"{row['us_per_token']:.2f}, {row['kib_per_token']:.1f}" for row in found["rows"]]
        lines.append(f"| `{found['attention']}` | " + " | ".join(cells) + f" | {found['time_ratio']:.2f}, {found['memory_ratio']:.2f} |")
    return lines


def scaling(table):
    lines = ["", f"What a second thread gives ({where(table)}). Repeat: `tools/bench/thread_scaling.py`.", *table.get("remarks", []), "",
             "| case | one thread, ms | two, ms | times faster |", "|---|---|---|---|"]
    return lines + [f"| `{row['case']}` | {row['one_ms']:.0f} | {row['two_ms']:.0f} | {row['speedup']:.2f} |" for row in table["rows"]]


def quality(figures):
    runs = figures["quickstart"]
    lines = ["", f"Quality and start-up ({where(figures)}). Repeat: `tools/bench/measure_figures.py`.", "",
             "| what | figure |", "|---|---|",
             "| `configs/listops/quickstart.yaml`, test accuracy, seeds 1, 2, 3 (one class: 11 %) | "
             + ", ".join(f"{100 * r['accuracy']:.1f} %" for r in runs) + f"; median {100 * statistics.median(r['accuracy'] for r in runs):.1f} % |",
             f"| its training time, start to exit | {min(r['seconds'] for r in runs):.0f} to {max(r['seconds'] for r in runs):.0f} s |"]
    for r in figures.get("words", []):
        lines.append(f"| `configs/words`, accuracy on 10,000 held-out words (one class: 10 %) | {100 * r['accuracy']:.1f} % in {r['seconds']:.0f} s |")
    lines.append(f"| `tapeformer --help` | {figures['help_ms']:.0f} ms |")
    return lines


def learning(table):
    found = table["compare"]
    base = found["baseline"]["metrics"][found["metric"]]
    lines = ["", "Each attention trained with the same budget on ListOps trees of 100 to 300 tokens, and scored on the test part",
             f"(`{found['config']}` and the files beside it, seeds {', '.join(map(str, found['seeds']))}, best checkpoint of each, {where(table)}).",
             f"Always answering the commonest class scores {100 * base:.1f} %. The spread is the standard error of the mean over seeds; the margin is the mean less two",
             "of them, less the commonest class; pairs are the mean share of N x N that is looked at, N with the rows put in front.",
             "Repeat: `tools/bench/compare_listops.py`.",
             *table.get("remarks", []), "",
             "| attention | accuracy, % | margin, points | tokens/s | peak, MiB | parameters | pairs, % |", "|---|---|---|---|---|---|---|"]
    for row in found["variants"]:
        if row["status"] != "done":
            lines.append(f"| `{row['attention']}` | {row.get('reason', row['status'])} | | | | | |")
            continue
        lines.append(f"| `{row['attention']}` | {100 * row['mean']:.1f} ± {100 * row['standard_error']:.1f} | {100 * row['margin']:.1f} | {row['tokens_per_s'] / 1000:.0f}k "
                     f"| {row['peak_bytes'] / 2**20:.0f} | {row['parameters']:,} | {100 * row['pairs']:.1f} |")
    return lines


def main():
    path = os.path.join(ROOT, "README.md")
    with open(path, encoding="utf-8") as source:
        text = source.read()
    begin, end = "<!-- tables -->", "<!-- /tables -->"
    tables = [(table, load(name)) for name, table in zip(NAMES, (speed, inference, variants, steps, lengths, growth, growth, scaling, quality, learning))]
    body = "\n".join(line for table, measured in tables if measured for line in table(measured))
    with open(path, "w", encoding="utf-8") as out:
        out.write(text[:text.index(begin) + len(begin)] + "\n" + body + "\n" + text[text.index(end):])
    with open(os.path.join(MEASURED, "compare_pytorch.svg"), "w", encoding="utf-8") as out:
        out.write(chart.svg(load("compare_pytorch")))


if __name__ == "__main__":
    main()
