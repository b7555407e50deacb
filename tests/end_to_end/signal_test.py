# SPDX-License-Identifier: Apache-2.0
"""Signals and time limits: save, leave with the documented code, go on to the same end. A run that waits for its signal has no end of its own."""
import json
import os
import signal
import time

from support import Workplace, check, finish

# The rate does not depend on the length of the run, and nothing is saved but for a signal or at the end.
LONG = ["schedule.type=constant", "checkpoint.every=1000000", "checkpoint.best=none", "eval.every=50", "log.every=10"]
ENDLESS = ["train.duration=1000000", *LONG]


def wait_for(what, holds, process):
    end = time.time() + 60
    while not holds() and process.poll() is None and time.time() < end:
        time.sleep(0.002)
    check(holds(), f"{what}: not seen; exit {process.poll()}")


def logged(work, run):
    """The steps logged so far; a last line may be half there."""
    if not os.path.exists(work.file(run, "metrics.jsonl")):
        return []
    return [json.loads(line)["step"] for line in work.read(run, "metrics.jsonl").split("\n")[:-1]]


def saved(work, run):
    """The steps of its checkpoints; a file that is being written is none."""
    return [int(f[5:-3]) for f in os.listdir(work.file(run, "checkpoints")) if f.startswith("step-") and f.endswith(".h5")]


def at_work(work, run):
    """A run that has made its first updates."""
    process = work.start("train", "config.yaml", "-o", run, *ENDLESS)
    wait_for(f"{run}: a line of the log", lambda: logged(work, run), process)
    return process


def ends_the_same(work, run):
    """A few updates more, and the same as a run of this length without a stop."""
    length = f"train.duration={json.loads(work.read(run, 'run.json'))['step'] + 5}"
    work.resume(run, length)
    work.train(run + "-straight", length, *LONG)
    difference = work.same(run + "-straight", run)
    check(difference is None, f"{run}: {difference}")


def stopped(process, code, run):
    _, messages = process.communicate(timeout=60)
    check(process.returncode == code, f"{run}: exit {process.returncode}\n{messages}")
    check("train --resume" in messages, messages)


with Workplace() as work:
    for name, number, code in (("int", signal.SIGINT, 130), ("term", signal.SIGTERM, 143)):
        process = at_work(work, name)
        process.send_signal(number)
        stopped(process, code, name)
        ends_the_same(work, name)

    # SIGUSR1 saves and goes on.
    process = at_work(work, "usr")
    check(not saved(work, "usr"), f"saved before it was asked: {saved(work, 'usr')}")
    process.send_signal(signal.SIGUSR1)
    wait_for("SIGUSR1: a checkpoint", lambda: saved(work, "usr"), process)
    at = saved(work, "usr")[0]
    wait_for("SIGUSR1: later updates", lambda: max(logged(work, "usr")) > at, process)
    process.send_signal(signal.SIGTERM)
    stopped(process, 143, "usr")
    check(f"step-{at:08d}.h5, as SIGUSR1 asks" in work.read("usr", "log.txt"), "SIGUSR1 is not answered")
    ends_the_same(work, "usr")

    done = work.call("train", "config.yaml", "-o", "limit", "--max-time", "1s", *ENDLESS)
    step = json.loads(work.read("limit", "run.json"))["step"]
    check(done.returncode == 75 and saved(work, "limit") == [step], f"--max-time: exit {done.returncode} at step {step}\n{done.stderr}")
    ends_the_same(work, "limit")

    first = at_work(work, "shared")
    second = work.call("train", "--resume", "shared")
    check(second.returncode == 6 and str(first.pid) in second.stderr, f"a second owner: {second.returncode} {second.stderr}")
    first.kill()
    first.wait()
finish(28)
