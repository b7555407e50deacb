# SPDX-License-Identifier: Apache-2.0
"""Going on with a run: evaluations that are logged and saved once, older checkpoints and those that were set aside, configs that lack a part."""
import csv
import os
import re

import h5py
import numpy

from support import CONFIG, Workplace, check, edit_checkpoint, finish, same_run


def times_of(folder):
    """Every file but the lock, and when it was last written."""
    return {os.path.join(path, name): os.stat(os.path.join(path, name)).st_mtime_ns for path, _, names in os.walk(folder) for name in names if name != "LOCK"}


def evaluated(work, run):
    return [m["step"] for m in work.metrics(run) if m["split"] == "valid"]


def epochs(work, run):
    return [int(row["step"]) for row in csv.DictReader(work.read(run, "epochs.csv").splitlines())]


def evaluated_once(work):
    # The last evaluation falls on a step that is saved already, and the evaluation is saved too.
    work.train("finished", "train.duration=10", "checkpoint.every=1")
    before = times_of(work.file("finished"))
    done = work.resume("finished")
    check("already complete" in done.stderr and times_of(work.file("finished")) == before, f"going on with a finished run: {done.stderr}")
    check(evaluated(work, "finished") == [4, 8, 10], f"evaluated at {evaluated(work, 'finished')}")
    # Killed after the evaluation and the epoch's row were logged and before they were saved: both are done and logged again, once.
    work.train("straight", "eval.every=2", "checkpoint.every=2")

    def forget(h5):
        h5["control"].attrs["evaluated_step"] = 4
        h5["control"].attrs["epoch_samples"] = 64

    for name, words in (("killed", []), ("at-its-end", ["train.duration=6"])):
        work.copy_as_killed("straight", 6, name)
        edit_checkpoint(work.file(name, "checkpoints", "step-00000006.h5"), forget)
        work.resume(name, *words)
        steps = evaluated(work, name)
        check(steps == list(range(2, 7 if words else 13, 2)), f"{name}: evaluated at {steps}")
        check(epochs(work, name) == ([6] if words else [6, 12]), f"{name}: rows of epochs at {epochs(work, name)}")
    check(work.same("straight", "killed") is None, f"{work.same('straight', 'killed')}")
    before = times_of(work.file("at-its-end"))
    done = work.resume("at-its-end", "train.duration=6")
    check("already complete" in done.stderr and times_of(work.file("at-its-end")) == before, f"an evaluation at the start was not saved: {done.stderr}")


def meaningless(work):
    # A config with a warning makes a run that can be read again: what has no meaning is not stored.
    done = work.train("warned", "optim.type=sgd", "model.attention.type=local", "model.attention.local.form=blocked", "eval.every=1ep", "train.duration=3")
    check(done.stderr.count("'model.attention.local.left' has no meaning with 'model.attention.local.form: blocked'") == 1, done.stderr)
    check(re.search(r"^ *left: 128  # from: default; config.yaml:\d+ has no meaning", work.read("warned", "config.resolved.yaml"), re.M), "the default stands in its place")
    done = work.resume("warned", "train.duration=5")
    check("no meaning" not in done.stderr and work.metrics("warned")[-1]["step"] == 5, done.stderr)
    for verb in (["eval", "warned"], ["predict", "warned", "test.tsv"], ["config", "check", work.file("warned", "config.resolved.yaml")]):
        done = work.call(*verb)
        check(done.returncode == 0 and "no meaning" not in done.stderr, f"{verb}: {done.stderr}")


    # The data are the same too: a key of theirs that an override left without meaning counts neither in the first sitting nor in the next.
    work.write("word.yaml", CONFIG.replace("tokenizer: {type: whitespace}", "tokenizer: {type: word, vocab_size: 50, minimum_count: 2}"))
    done = work.call("train", "word.yaml", "-o", "bytes", "tokenizer.type=byte", "train.duration=3", "data.truncate=right")
    check(done.returncode == 0 and "'tokenizer.vocab_size' has no meaning" in done.stderr, done.stderr)
    check(work.resume("bytes", "train.duration=5") and work.metrics("bytes")[-1]["step"] == 5, "bytes")
    # An override of such a key is a difference like any other.
    done = work.resume("bytes", "tokenizer.vocab_size=60", code=4)
    check("tokenizer.vocab_size: 0 in the run, 60 now" in done.stderr, done.stderr)
    # A key without meaning is no fault in another respect as well.
    for words in (["schedule.min_lr=1", "schedule.type=constant"], ["train.early_stopping.metric=valid/rmse"]):
        work.write("odd.yaml", CONFIG.replace("schedule: {type: cosine, warmup: 3}", "schedule: {type: cosine}"))
        done = work.call("config", "check", "odd.yaml", *words)
        check("above 'optim.lr'" not in done.stderr and "does not have" not in done.stderr, f"{words}: {done.stderr}")


def elsewhere(work):
    # A run of a device that this build lacks is told from one that cannot be read, and goes on with another device.
    work.train("elsewhere", "train.duration=3")
    file = work.file("elsewhere", "checkpoints", work.checkpoints("elsewhere")[-1])

    def on_cuda(h5):
        text = h5["config/resolved_yaml"][()].decode()
        check("  type: auto  #" in text, text)
        del h5["config/resolved_yaml"]
        h5["config/resolved_yaml"] = text.replace("  type: auto  #", "  type: cuda  #", 1)

    edit_checkpoint(file, on_cuda)
    for words in (["predict", "elsewhere", "test.tsv"], ["eval", "elsewhere"], ["train", "--resume", "elsewhere", "train.duration=5"]):
        done = work.call(*words)
        check(done.returncode == 7 and "'device.type' is cuda" in done.stderr, f"{words}: exit {done.returncode} {done.stderr}")
    done = work.call("predict", "elsewhere", "test.tsv", "device.type=cpu")
    check(done.returncode == 0 and len(done.stdout.splitlines()) == 17, done.stderr)
    check('"unreadable"' not in work.call("inspect", file, "--json").stdout, "inspect")
    work.resume("elsewhere", "train.duration=5", "device.type=cpu")
    check(work.metrics("elsewhere")[-1]["step"] == 5, "it does not go on")
    # What needs no device can be had of any config.
    for words in (["data", "stats", "config.yaml"], ["model", "summary", "config.yaml"], ["data", "convert", "config.yaml", "-o", "of-cuda.h5"]):
        done = work.call(*words, "device.type=cuda")
        check(done.returncode == 0, f"{words}: exit {done.returncode} {done.stderr}")


def absent(work):
    # A run or checkpoint that is not there has one exit code, whoever looks for it.
    for words in (["train", "--resume", "nowhere"], ["eval", "nowhere"], ["predict", "nowhere", "test.tsv"], ["train", "config.yaml", "-o", "run", "--init-from", "nowhere"]):
        work.refused(4, words, "nowhere: no such")


def older(work):
    work.train("older", "checkpoint.every=2")
    work.copy_as_killed("older", 12, "first")
    # The checkpoints are moved before the logs are cut: where the move fails, or the process dies, the newest checkpoint has its logs.
    work.write(os.path.join("older", "checkpoints", "superseded"), "in the way")
    before = work.metrics("older"), epochs(work, "older")
    done = work.call("train", "--resume", "older", "--from", work.file("older", "checkpoints", "step-00000006.h5"))
    check(done.returncode == 6 and "superseded" in done.stderr, f"exit {done.returncode} {done.stderr}")
    check((work.metrics("older"), epochs(work, "older")) == before, "logs were cut though the checkpoints stayed")
    os.remove(work.file("older", "checkpoints", "superseded"))
    # Back to step 6 and on to another step 8; then back to the first step 8, which was set aside.
    step_8 = "step-00000008.h5"
    done = work.resume("older", "--from", work.file("older", "checkpoints", "step-00000006.h5"), "train.duration=8")
    check(work.checkpoints("older")[-1] == step_8, f"{work.checkpoints('older')}")
    paths = [work.file(run, "checkpoints", step_8) for run in ("first", "older")]
    check(same_run.difference(*paths) is not None, "another duration made no other step 8")
    done = work.resume("older", "--from", work.file("older", "checkpoints", "superseded", step_8))
    check("no longer there" not in done.stderr and same_run.difference(*paths) is None, f"{same_run.difference(*paths)} {done.stderr}")
    paths = [work.file(run, "checkpoints", "step-00000012.h5") for run in ("first", "older")]
    check(same_run.difference(*paths) is None, f"the first step 8 does not lead to the first end: {same_run.difference(*paths)}")
    aside = sorted(os.listdir(work.file("older", "checkpoints", "superseded")))
    check(aside == [step_8 + ".2", "step-00000010.h5", "step-00000012.h5"], f"set aside: {aside}")


def fewer_groups(work):
    # A group of heads less is another model, though every tensor keeps its shape.
    groups = "model.attention.groups=[{type: local, heads: 1}, {type: full, heads: 1}]"
    words = ["~model.attention.type", "~model.attention.heads"]
    work.train("groups", *words, groups, "train.duration=4")
    done = work.resume("groups", "model.attention.groups=[{type: local, heads: 1}]", "train.duration=8", code=4)
    check("model.attention.groups.1.heads: 1 in the run, nothing now" in done.stderr, done.stderr)
    done = work.resume("groups", groups, "train.duration=8")
    check(work.metrics("groups")[-1]["step"] == 8, "the same groups go on")


def nothing_to_watch(work):
    # A metric that is never computed is never the best and never improves: both are refused before anything is read.
    words = ["train", "config.yaml", "-o", "run"]
    for key in ("checkpoint.best", "train.early_stopping.metric"):
        work.refused(2, [*words, "train.early_stopping.patience=2", "data.task=tagging", "data.train.tags=Target", f"{key}=valid/auroc"], f"'{key}' is 'valid/auroc'", "data.task: tagging")
    patience = "train.early_stopping.patience=3"
    work.refused(2, [*words, patience, 'data.valid.path=""'], "train.early_stopping.patience", "data.valid.path")
    work.refused(2, [*words, patience, "train.early_stopping.metric=none"], "train.early_stopping.patience", "train.early_stopping.metric")
    work.train("watched", patience)
    # Only the file says which parts an HDF5 file has.
    with h5py.File(work.file("numbers.h5"), "w") as h5:
        h5["X"] = numpy.arange(72, dtype="f4").reshape(12, 3, 2)
        h5["y"] = numpy.arange(12) % 2
    work.write("numbers.yaml", "version: 1\ndata: {path: numbers.h5}\nmodel: {dim: 8, layers: 1, attention: {heads: 2}}\ntrain: {duration: 2, batch_size: 4}\n")
    words[1] = "numbers.yaml"
    work.refused(3, [*words, patience], "train.early_stopping.patience", "data.valid.path")
    done = work.call(*words[:3], "numbers", patience, "data.split.valid=0.25")
    check(done.returncode == 0, done.stderr)


with Workplace() as work:
    for part in (evaluated_once, meaningless, elsewhere, absent, older, fewer_groups, nothing_to_watch):
        part(work)
finish(55)
