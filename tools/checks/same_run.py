#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Compares two runs (directories or checkpoint files) byte by byte and names the first difference.

Compared: every data set and attribute under /model, /buffers, /optimizer, /ema, /scheduler, /data and /control of the last checkpoint, and
every column of metrics.jsonl but times, speeds and memory. Exit 0: the same; 1: different; 2: not comparable. Takes about a second.
"""
import json
import os
import sys

try:
    import h5py
except ImportError:
    sys.exit(print("same_run.py needs h5py: apt-get install python3-h5py", file=sys.stderr) or 2)

GROUPS = ("model", "buffers", "optimizer", "ema", "scheduler", "data", "control")
VOLATILE = {"time", "tokens_per_s", "samples_per_s", "peak_bytes"}


def last_checkpoint(path):
    if os.path.isfile(path):
        return path
    folder = os.path.join(path, "checkpoints")
    steps = sorted(f for f in os.listdir(folder) if f.startswith("step-") and f.endswith(".h5"))
    if not steps:
        raise FileNotFoundError(f"{folder}: no checkpoint")
    return os.path.join(folder, steps[-1])


def contents(path):
    """Name -> bytes of every data set and attribute that counts."""
    found = {}
    with h5py.File(path, "r") as file:
        def visit(name, item):
            if name.split("/")[0] not in GROUPS:
                return
            if isinstance(item, h5py.Dataset):
                found[name] = (str(item.dtype), item.shape, item[()].tobytes())
            for key, value in item.attrs.items():
                found[f"{name}@{key}"] = value.tobytes() if hasattr(value, "tobytes") else repr(value)
        file.visititems(visit)
    return found


def metrics(path):
    file = os.path.join(path, "metrics.jsonl")
    if not os.path.isdir(path) or not os.path.exists(file):
        return []
    with open(file, encoding="utf-8") as lines:
        return [{k: v for k, v in json.loads(line).items() if k not in VOLATILE} for line in lines]


def difference(a, b):
    """The first difference as text, or None."""
    one, two = contents(last_checkpoint(a)), contents(last_checkpoint(b))
    if not any(name.startswith("model/") for name in one):
        return f"{a}: nothing under /model"
    for name in sorted(one.keys() | two.keys()):
        if one.get(name) != two.get(name):
            return f"{name}: " + ("only in " + (a if name in one else b) if (name in one) != (name in two) else "different bytes")
    left, right = metrics(a), metrics(b)
    for number, (x, y) in enumerate(zip(left, right), 1):
        if x != y:
            keys = [k for k in sorted(x.keys() | y.keys()) if x.get(k) != y.get(k)]
            return f"metrics.jsonl line {number}: {keys[0]} is {x.get(keys[0])} and {y.get(keys[0])}"
    if len(left) != len(right):
        return f"metrics.jsonl: {len(left)} and {len(right)} lines"
    return None


if __name__ == "__main__":
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        sys.exit(2)
    try:
        found = difference(sys.argv[1], sys.argv[2])
    except OSError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
    print(found or "the same")
    sys.exit(1 if found else 0)
