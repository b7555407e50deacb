# SPDX-License-Identifier: Apache-2.0
"""Pairwise combinations of config values against rules written here: what a rule forbids is refused before data is read, all else trains a step."""
import itertools
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from support import BINARY, Workplace, check, finish

VALUES = {
    "model.dim": (1, 6, 7, 16),
    "model.attention.heads": (1, 2, 3),
    "model.layers": (1, 2),
    "model.attention.type": ("full", "local", "linear", "bigbird", "global_external", "[local, full]", "[stride, longformer]"),
    "model.attention.local.form": ("band", "blocked"),
    "model.attention.local.left": (0, 1, 128, 1073741824),
    "model.attention.dropout": (0, 0.2),
    "model.norm.type": ("layer_norm", "batch_norm", "[batch_norm, layer_norm]"),
    "model.norm.position": ("pre", "post"),
    "model.norm.freeze": ("false", "true"),
    "model.norm.freeze_from": (0, 1, 5),
    "model.position.type": ("learned", "sinusoidal", "none"),
    "model.pooling": ("mean", "max", "first"),
    "model.head.hidden": (0, 5),
    "model.feed_forward.activation": ("gelu", "gelu_tanh", "relu"),
    "device.type": ("cpu", "reference"),
    "train.precision": ("fp32", "fp64"),
    "train.batch_size": (2, 64, 1000),
    "train.batch_tokens": (0, 1, 40),
    "train.micro_batch_size": ("auto", 1, 2000),
    "optim.type": ("adamw", "adam", "sgd"),
    "optim.clip_norm": (0, 1),
    "schedule.type": ("constant", "linear", "cosine", "one_cycle", "inverse_sqrt"),
    "schedule.warmup": (0, 1, 100),
    "schedule.min_lr": (0, 1),
    "averaging.decay": (0, 0.9),
    "averaging.from": (0, 100),
    "train.duration": ("1", "0.02s", "[1, 5ep]"),
    "checkpoint.best": ("none", "valid/loss", "valid/rmse"),
    "tokenizer.type": ("byte", "character", "whitespace", "word"),
    "data.class_weights": ("none", "balanced"),
}


def forbidden(c):
    """The two keys that cannot stand together, or None."""
    layers = c["model.layers"]
    types = [t.strip(" []") for t in c["model.attention.type"].split(",")]
    norms = [t.strip(" []") for t in c["model.norm.type"].split(",")]
    rules = (
        (c["model.dim"] % c["model.attention.heads"] != 0, ("model.attention.heads", "model.dim")),
        (len(types) not in (1, layers), ("model.attention.type", "model.layers")),
        (len(norms) not in (1, layers), ("model.norm.type", "model.layers")),
        ("local" in types and c["model.attention.local.form"] == "blocked" and c["model.attention.local.left"] != 128,
         ("model.attention.local.left", "model.attention.local.form")),
        ("linear" in types and c["model.attention.dropout"] > 0, ("model.attention.dropout", "model.attention.type")),
        (c["model.norm.freeze"] == "true" and c["model.norm.freeze_from"] > 0, ("model.norm.freeze", "model.norm.freeze_from")),
        (c["model.norm.freeze"] == "true" and "batch_norm" not in norms, ("model.norm.freeze", "model.norm.type")),
        (c["model.norm.freeze_from"] > 0 and "batch_norm" not in norms, ("model.norm.freeze_from", "model.norm.type")),
        (c["averaging.from"] > 0 and c["averaging.decay"] == 0, ("averaging.from", "averaging.decay")),
        (c["train.precision"] == "fp64" and c["device.type"] == "cpu", ("train.precision", "device.type")),
        (c["schedule.min_lr"] > 0 and c["schedule.type"] in ("constant", "one_cycle"), ("schedule.min_lr", "schedule.type")),
        (c["schedule.min_lr"] > 0, ("schedule.min_lr", "optim.lr")),
        (c["train.duration"] == "0.02s" and c["schedule.type"] in ("linear", "cosine", "one_cycle"), ("schedule.type", "train.duration")),
        (c["checkpoint.best"] == "valid/rmse", ("checkpoint.best",)),
    )
    return next((keys for broken, keys in rules if broken), None)


def pairwise(seed):
    """Rows of values in which every pair of values of two keys stands together."""
    draw = random.Random(seed)
    keys = list(VALUES)
    left = {((a, x), (b, y)) for a, b in itertools.combinations(keys, 2) for x in VALUES[a] for y in VALUES[b]}
    while left:
        row = dict(draw.choice(sorted(left, key=str)))
        for key in draw.sample(keys, len(keys)):
            if key not in row:
                row[key] = max(draw.sample(VALUES[key], len(VALUES[key])),
                               key=lambda v: sum(tuple(sorted(((key, v), o), key=lambda p: keys.index(p[0]))) in left for o in row.items()))
        left -= {(p, q) for p, q in itertools.combinations(((k, row[k]) for k in keys), 2)}
        yield row


def rows():
    """At least 300; most of them repaired until no rule forbids them, so that what is accepted is tried too."""
    draw = random.Random(3)
    for number, row in enumerate(itertools.islice(itertools.chain.from_iterable(pairwise(s) for s in range(100)), 320)):
        keys = forbidden(row)
        while number % 4 and keys:
            key = draw.choice(keys)
            row[key] = draw.choice(VALUES.get(key, (None,))) if key != "optim.lr" else None
            row["schedule.min_lr"] = 0 if "schedule.min_lr" in keys else row["schedule.min_lr"]
            keys = forbidden(row)
        row.pop("optim.lr", None)
        yield row


def attempt(work, number, row):
    words = [f"{k}={v}" for k, v in row.items()]
    run = f"run-{number}"
    done = subprocess.run([BINARY, "--threads", "1", "train", "config.yaml", "-o", run, *words, "log.tensorboard=false", "--max-time", "1s"], cwd=work.path,
                          capture_output=True, text=True, check=False, timeout=120)
    return row, run, done


with Workplace() as work:
    accepted = refused = 0
    with ThreadPoolExecutor(2) as pool:
        for row, run, done in pool.map(lambda pair: attempt(work, *pair), enumerate(rows())):
            keys = forbidden(row)
            text = " ".join(f"{k}={v}" for k, v in row.items())
            if keys:
                check(done.returncode == 2 and "nothing was started" in done.stderr, f"exit {done.returncode}, but {keys} cannot stand together: {text}\n{done.stderr}")
                check(all(k in done.stderr for k in keys), f"{keys} are not named: {text}\n{done.stderr}")
                refused += 1
            else:
                one_row = "batch_norm" in row["model.norm.type"] and done.returncode == 3 and "batch_norm" in done.stderr
                check(done.returncode in (0, 75) or one_row, f"exit {done.returncode} of an accepted config: {text}\n{done.stderr}")
                accepted += 1
    print(f"{accepted} accepted, {refused} refused", file=sys.stderr)
    check(accepted >= 200 and refused >= 40, f"{accepted} accepted, {refused} refused")
finish(361)
