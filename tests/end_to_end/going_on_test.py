# SPDX-License-Identifier: Apache-2.0
"""Going on with a run: evaluations that are logged and saved once, older checkpoints and those that were set aside, configs that lack a part."""
import csv
import os

from support import Workplace, check, edit_checkpoint, finish


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


with Workplace() as work:
    for part in (evaluated_once,):
        part(work)
finish(14)
