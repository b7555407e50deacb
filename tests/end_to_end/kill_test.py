# SPDX-License-Identifier: Apache-2.0
"""kill -9 at 50 moments, half of them aimed inside a save: every time the run goes on, and it ends as if nothing had happened."""
import os
import random
import signal
import time

from support import Workplace, check, finish

KILLS = 50
LONG = ["train.duration=1000", "checkpoint.every=1", "checkpoint.keep_last=2", "eval.every=100", "log.every=10"]


def temporary(folder):
    try:
        return [f for f in os.listdir(folder) if ".tmp-" in f]
    except FileNotFoundError:
        return []


def whole_checkpoints(folder):
    try:
        return [f for f in os.listdir(folder) if f.startswith("step-") and f.endswith(".h5")]
    except FileNotFoundError:
        return []


with Workplace() as work:
    random.seed(1)
    work.train("straight", *LONG)
    folder = work.file("killed", "checkpoints")
    inside = finished = 0
    for number in range(KILLS):
        fresh = not whole_checkpoints(folder)
        process = work.start("train", "config.yaml", "-o", "killed", "--overwrite", *LONG) if fresh else work.start("train", "--resume", "killed")
        deadline = time.time() + random.uniform(0.03, 0.12)
        while process.poll() is None:
            if number % 2 == 0 and time.time() > deadline and temporary(folder):
                break
            if number % 2 == 1 and time.time() > deadline:
                break
            if time.time() > deadline + 10:
                break
        finished += process.poll() is not None
        process.send_signal(signal.SIGKILL)
        process.wait()
        inside += bool(temporary(folder))
        if finished:
            break
    check(not finished or number >= KILLS - 1, f"the run ended after {number} kills: it must be longer")
    check(inside >= KILLS * 2 // 5, f"only {inside} of {KILLS} kills fell inside a save")
    work.resume("killed")
    check(not temporary(folder), "a temporary file was left behind")
    check(work.same("straight", "killed") is None, f"after {KILLS} kills: {work.same('straight', 'killed')}")
    print(f"{number + 1} kills, {inside} inside a save")
finish(7)
