#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How the cost of a training step grows with the length of its sequences: time per token and peak memory, for attention that is to be linear.

    tools/bench/cost_by_length.py [--attentions linear,local] [--lengths 1024,4096,16384] [--batch 4] [--rounds 3] [--json build/cost_by_length.json]

The small model of compare_pytorch.py (2 layers of 64). Every length runs in a process of its own, the lengths in turn, `rounds` times; the least
median of a length counts, since what else the machine does only adds.
"""
import argparse
import json
import os
import tempfile

from compare_pytorch import BINARY, ROOT, SMALL, config_of, machine, run_json


def measure(attention, lengths, arguments):
    runs = {length: [] for length in lengths}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(arguments.rounds):
            for length in lengths:
                case, config = dict(SMALL, length=length, batch=arguments.batch, attention=attention), os.path.join(folder, f"{length}.yaml")
                with open(config, "w", encoding="utf-8") as out:
                    out.write(config_of(case, 0.1))
                runs[length].append(run_json([BINARY, "bench", "step", config, "--batch", str(arguments.batch), "--length", str(length), "--threads", "2",
                                              "--steps", str(arguments.steps), "--warmup", "2", "--json"]))
    rows = [{"length": length, "ms": min(r["median_ms"] for r in runs[length]), "peak_mib": min(r["peak_mib"] for r in runs[length])} for length in lengths]
    for row in rows:
        row["us_per_token"] = 1000 * row["ms"] / (arguments.batch * row["length"])
        row["kib_per_token"] = 1024 * row["peak_mib"] / (arguments.batch * row["length"])
    return {"attention": attention, "rows": rows, "time_ratio": rows[-1]["us_per_token"] / rows[0]["us_per_token"],
            "memory_ratio": rows[-1]["kib_per_token"] / rows[0]["kib_per_token"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--attentions", default="linear,local")
    parser.add_argument("--lengths", default="1024,4096,16384")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=9)
    parser.add_argument("--json", default=os.path.join(ROOT, "build", "cost_by_length.json"))
    arguments = parser.parse_args()
    lengths = [int(length) for length in arguments.lengths.split(",")]
    repeat = f"tools/bench/cost_by_length.py --attentions {arguments.attentions} --lengths {arguments.lengths} --batch {arguments.batch}"
    table = dict(machine(), rounds=arguments.rounds, batch=arguments.batch, repeat=repeat, attentions=[])
    for attention in arguments.attentions.split(","):
        found = measure(attention, lengths, arguments)
        table["attentions"].append(found)
        for row in found["rows"]:
            print(f"{attention} {row['length']}: {row['ms']:.1f} ms, {row['us_per_token']:.3f} us and {row['kib_per_token']:.2f} KiB a token", flush=True)
        print(f"{attention}: {lengths[-1]} over {lengths[0]}: time per token {found['time_ratio']:.3f}, memory per token {found['memory_ratio']:.3f}", flush=True)
        with open(arguments.json, "w", encoding="utf-8") as out:
            json.dump(table, out, indent=1)


if __name__ == "__main__":
    main()
