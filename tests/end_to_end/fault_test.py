# SPDX-License-Identifier: Apache-2.0
"""Bad input on the command line: the documented exit code, a message that names the place, an empty stdout, and no file left behind."""
import os
import shutil

from support import CONFIG, Workplace, check, finish


def refused(work, code, words, *needles, run=None):
    done = work.call(*words)
    check(done.returncode == code, f"{words}: exit {done.returncode}, expected {code}\n{done.stderr}")
    check(done.stdout == "", f"{words}: wrote to stdout: {done.stdout}")
    for needle in needles:
        check(needle in done.stderr, f"{words}: '{needle}' is not in the message:\n{done.stderr}")
    if run:
        check(not os.path.exists(work.file(run)), f"{words}: left {run} behind")


def write(work, name, text, encoding="utf-8"):
    with open(work.file(name), "wb") as out:
        out.write(text.encode(encoding) if isinstance(text, str) else text)


def config(work, name, *changes):
    text = CONFIG
    for old, new in changes:
        check(old in text, f"the config has no {old}")
        text = text.replace(old, new)
    write(work, name, text)


def train(name="config.yaml", *overrides):
    return ["train", name, "-o", "run", *overrides]


with Workplace() as work:
    # Usage.
    refused(work, 2, ["trian", "config.yaml"], "did you mean 'train'")
    refused(work, 2, ["train", "config.yaml"], "-o RUN")
    refused(work, 2, ["train", "config.yaml", "-o", "run", "--no-such-flag"], "--no-such-flag", run="run")
    refused(work, 2, ["train", "missing.yaml", "-o", "run"], "missing.yaml", run="run")
    # Config: all faults at once, with place and suggestion.
    config(work, "faulty.yaml", ("dropout: 0.3\n", "drpout: 0.3\n"), ("lr: 3.0e-3", "lr: fast"), ("heads: 2", "heads: 3"))
    refused(work, 2, train("faulty.yaml"), "faulty.yaml:13:3: error: unknown key 'drpout' in 'model'", "did you mean 'dropout'", "optim.lr", "fast",
            "model.attention.heads", "does not divide", "3 errors", "nothing was started", run="run")
    config(work, "twice.yaml", ("  layers: 2\n", "  layers: 2\n  layers: 3\n"))
    refused(work, 2, train("twice.yaml"), "duplicate key 'layers'", run="run")
    refused(work, 2, train("config.yaml", "model.attention.type=linear", "model.attention.dropout=0.1"), "model.attention.dropout", "model.attention.type",
            run="run")
    refused(work, 2, train("config.yaml", "train.precision=fp64"), "train.precision", "device.type", run="run")
    refused(work, 2, train("config.yaml", "checkpoint.keep_last=0"), "checkpoint.keep_last", run="run")
    refused(work, 2, train("config.yaml", "optim.lrr=1"), "lrr", "did you mean 'lr'", run="run")
    refused(work, 7, train("config.yaml", "device.type=cuda"), "cuda", "device.type=cpu", run="run")
    refused(work, 2, train("config.yaml", "device.type=cuda", "optim.lrr=1"), "'device.type' is cuda", "lrr", "2 errors", run="run")
    refused(work, 2, train("config.yaml", "model.attention.groups=[{heads: 2}]", "~model.attention.type", "~model.attention.heads"),
            "'model.attention.groups.0.type' is missing", run="run")
    refused(work, 2, train("config.yaml", "data.test.path=test.text"), "command line: 'data.test.path=test.text'", "data.format", run="run")
    # Data.
    refused(work, 3, train("config.yaml", "data.train.path=none.tsv"), "none.tsv", run="run")
    refused(work, 3, train("config.yaml", "data.train.label=Targte"), "Targte", "Target", run="run")
    write(work, "bad.tsv", b"Source\tTarget\n[MAX 1 2 ]\t2\n[MIN \xff 2 ]\t1\n")
    refused(work, 3, train("config.yaml", "data.train.path=bad.tsv"), "bad.tsv:3:", "offset", "encoding", run="run")
    write(work, "long.tsv", "Source\tTarget\n" + "1 " * 65 + "\t1\n[MAX 1 2 ]\t2\n")
    refused(work, 3, train("config.yaml", "data.train.path=long.tsv"), "long.tsv", "64", "truncate", run="run")
    write(work, "empty.tsv", "Source\tTarget\n[MAX 1 2 ]\t2\n\t1\n")
    refused(work, 3, train("config.yaml", "data.train.path=empty.tsv"), "empty.tsv", "data.empty", run="run")
    write(work, "label.tsv", "Source\tTarget\n[MAX 1 2 ]\televen\n")
    refused(work, 3, train("config.yaml", "data.valid.path=label.tsv"), "eleven", "label.tsv", run="run")
    write(work, "none.tsv", "")
    refused(work, 3, train("config.yaml", "data.train.path=none.tsv"), "none.tsv", run="run")
    # Runs and checkpoints.
    work.train("run")
    refused(work, 6, train(), "--resume", "--overwrite")
    done = work.call(*train(), "--overwrite")
    check(done.returncode == 0, done.stderr)
    aside = [f for f in os.listdir(work.path) if f.startswith("run.old-")]
    check(len(aside) == 1 and os.path.exists(work.file(aside[0], "run.json")), f"the old run was not moved aside: {aside}")
    refused(work, 4, ["eval", "no-run"], "no-run")
    refused(work, 4, ["train", "--resume", "no-run"], "no-run")
    last = work.file("run", "checkpoints", "step-00000012.h5")
    with open(last, "rb") as source:
        whole = source.read()
    for name, damaged in (("cut", whole[:len(whole) // 2]), ("flipped", whole[:3000] + bytes([whole[3000] ^ 1]) + whole[3001:]), ("zeros", bytes(len(whole))),
                          ("empty", b"")):
        write(work, name + ".h5", damaged)
        refused(work, 4, ["eval", name + ".h5"], name + ".h5")
        refused(work, 4, ["predict", name + ".h5", "test.tsv"], name + ".h5")
    write(work, os.path.join("run", "checkpoints", "step-00000012.h5"), whole[:1000])
    done = work.resume("run")
    check("step-00000012.h5" in done.stderr and "from step 8" in done.stderr, f"a damaged newest checkpoint: {done.stderr}")
    check(work.same("run", aside[0]) is None, "going back to an older checkpoint ends in the same run")
    # Weights of another model.
    refused(work, 4, ["train", "config.yaml", "-o", "other", "--init-from", "run", "model.layers=3"], "encoder.layers.2", "difference", run="other")
    done = work.call("train", "config.yaml", "-o", "other", "--init-from", "run", "--init-only", "encoder.layers.0.*", "model.layers=3")
    check(done.returncode == 0 and "taken" in done.stderr, done.stderr)
    # Projections that the weights' model lacks start as copies of those it has.
    done = work.call("train", "config.yaml", "-o", "long", "--init-from", "run", "model.attention.type=longformer")
    check(done.returncode == 0 and "12 that it lacks are copies of these" in done.stderr, done.stderr)
    # Loss that is not finite: the policy, the place, and the last good checkpoint.
    done = work.train("hot", "optim.lr=1e30", "optim.clip_norm=0", "optim.type=sgd", "schedule.type=constant", "schedule.warmup=0", "checkpoint.every=1", code=5)
    check("update" in done.stderr and "not finite" in done.stderr, done.stderr)
    check(work.call("eval", "hot").returncode == 0, "the last good checkpoint is usable")
    # Non-empty directory of somebody else.
    os.makedirs(work.file("photos"))
    write(work, "photos/cat.txt", "meow")
    refused(work, 6, ["train", "config.yaml", "-o", "photos"], "photos")
    check(os.path.exists(work.file("photos", "cat.txt")), "a stranger's file was lost")
    shutil.rmtree(work.file("photos"))
finish(100)
