# SPDX-License-Identifier: Apache-2.0
"""Stop anywhere and go on: from every step, with another number of threads, the run ends in the same bytes."""
import os
import re
import shutil
import subprocess
import sys

import h5py

from support import ROOT, Workplace, check, edit_checkpoint, finish, hash_of

STEPS = 12
HARD = ["model.norm.type=batch_norm", "averaging.decay=0.9", "train.early_stopping.patience=50", "train.micro_batch_size=5", "checkpoint.every=1",
        "eval.every=3"]


def resume_everywhere(work, name, overrides):
    work.train(name, *overrides)
    for step in range(1, STEPS):
        copy = f"{name}-{step}"
        work.copy_as_killed(name, step, copy)
        threads = (1, 2, 3, 8)[step % 4]
        done = work.resume(copy, f"device.threads={threads}")
        begun = re.search(r"training to step (\d+) from step (\d+)", done.stderr)
        check(begun and begun.groups() == (str(STEPS), str(step)), f"resumed at the wrong step: {done.stderr}")
        check(work.same(name, copy) is None, f"{name} from step {step} with {threads} threads: {work.same(name, copy)}")
        shutil.rmtree(work.file(copy))


def change_one_weight(h5):
    weight = h5["model/head.output.weight"]
    weight[0, 0] += 1e-6
    weight.attrs["xxh64"] = hash_of(weight)


with Workplace() as work:
    resume_everywhere(work, "hard", HARD)
    resume_everywhere(work, "plain", ["checkpoint.every=1", "train.batch_size=7"])

    work.copy_as_killed("plain", 6, "changed")
    edit_checkpoint(work.file("changed", "checkpoints", "step-00000006.h5"), change_one_weight)
    work.resume("changed")
    check(work.same("plain", "changed") is not None, "a changed weight did not change the end")

    before = sorted(os.stat(work.file("plain", f)).st_mtime_ns for f in os.listdir(work.file("plain")) if f != "LOCK")
    done = work.resume("plain")
    check("already complete" in done.stderr, done.stderr)
    after = sorted(os.stat(work.file("plain", f)).st_mtime_ns for f in os.listdir(work.file("plain")) if f != "LOCK")
    check(before == after, "resuming a finished run wrote something")

    done = work.resume("plain", "train.duration=15")
    check(work.metrics("plain")[-1]["step"] == 15, "a longer duration goes on")
    check("learning rate follows the new duration" in done.stderr and " instead of " in done.stderr, done.stderr)

    # The overrides of all sittings, one a line; a sitting without any adds nothing.
    work.train("overridden", "checkpoint.every=1", "log.every=2")
    expected = ["checkpoint.every=1", "log.every=2"]
    for step, words in ((4, []), (6, ["log.every=3"]), (8, [])):
        work.copy_as_killed("overridden", step, f"overridden-{step}")
        work.resume(f"overridden-{step}", *words)
        expected += words
        shutil.rmtree(work.file("overridden"))
        os.rename(work.file(f"overridden-{step}"), work.file("overridden"))
        with h5py.File(work.file("overridden", "checkpoints", f"step-{STEPS:08}.h5"), "r") as h5:
            found = h5["config/overrides"][()].decode().split("\n")
        check(found == expected, f"overrides after step {step}: {found}, {expected} expected")

    done = work.resume("hard", "train.duration=20", "optim.lr=0.1", "model.dim=32", code=4)
    check("optim.lr" in done.stderr and "model.dim" in done.stderr, done.stderr)

    work.train("older", "checkpoint.every=2")
    work.resume("older", "--from", work.file("older", "checkpoints", "step-00000006.h5"))
    check(sorted(os.listdir(work.file("older", "checkpoints", "superseded")))[0] == "step-00000008.h5", "newer checkpoints are moved aside")
    steps = [m["step"] for m in work.metrics("older") if m["split"] == "train"]
    check(steps == sorted(set(steps)), f"one value a step after going back: {steps}")

    # The program that compares: 0 the same, 1 different, 2 not comparable.
    script = os.path.join(ROOT, "tools", "checks", "same_run.py")
    for words, code in ((["plain", "plain"], 0), (["plain", "changed"], 1), (["plain", "missing"], 2), (["plain"], 2), ([], 2)):
        done = subprocess.run([sys.executable, script, *words], cwd=work.path, capture_output=True, text=True, check=False)
        check(done.returncode == code and bool(done.stdout) == (code != 2), f"same_run.py {words}: exit {done.returncode}\n{done.stdout}{done.stderr}")
finish(92)
