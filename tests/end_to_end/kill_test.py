# SPDX-License-Identifier: Apache-2.0
"""kill -9 at 50 moments, half of them inside a save: every time the run goes on, and it ends as if nothing had happened. How far it comes between two
kills is a matter of the machine; the length of the whole is what they make of it."""
import os
import random
import signal
import time

from support import Workplace, check, finish

KILLS, INSIDE, TRIES = 50, 25, 1000
# The rate does not depend on the length of the run, which is known at the end.
LONG = ["checkpoint.every=1", "checkpoint.keep_last=2", "eval.every=100", "log.every=10", "schedule.type=constant"]


def names(folder):
    try:
        return os.listdir(folder)
    except FileNotFoundError:  # not yet there, or being moved aside
        return []


def temporary(folder):
    return [f for f in names(folder) if ".tmp-" in f]


def steps_saved(folder):
    return [int(f[5:-3]) for f in names(folder) if f.startswith("step-") and f.endswith(".h5")]


def killed_once(work, folder, aimed, steps, seconds):
    """One sitting that ends by SIGKILL: so many steps and seconds after it began, and if it is aimed, when a save is seen then. Whether it fell inside
    a save."""
    before = max(steps_saved(folder), default=0)
    words = ["--resume", "killed"] if before else ["config.yaml", "-o", "killed", "--overwrite", "train.duration=1000000", *LONG]
    process = work.start("train", *words)

    def wait(holds):
        end = time.time() + 60
        while process.poll() is None and not holds() and time.time() < end:
            pass
    wait(lambda: max(steps_saved(folder), default=0) >= before + steps)
    moment = time.time() + seconds
    wait(lambda: time.time() >= moment and (not aimed or temporary(folder)))
    process.send_signal(signal.SIGKILL)
    _, messages = process.communicate()
    check(process.returncode == -signal.SIGKILL, f"it ended before it was killed: exit {process.returncode}\n{messages}")
    return bool(temporary(folder))


with Workplace() as work:
    random.seed(1)
    folder = work.file("killed", "checkpoints")
    kills = inside = 0
    while (kills < KILLS or inside < INSIDE) and kills < TRIES:
        inside += killed_once(work, folder, kills % 2 == 0, random.choice((0, 0, 1, 5, 10)), random.uniform(0, 0.05))
        kills += 1
    check(inside >= INSIDE, f"only {inside} of {kills} kills fell inside a save")
    check(steps_saved(folder), "no sitting came to its first checkpoint")
    length = f"train.duration={max(steps_saved(folder)) + 2}"
    work.resume("killed", length)
    check(not temporary(folder), "a temporary file was left behind")
    work.train("straight", length, *LONG)
    check(work.same("straight", "killed") is None, f"after {kills} kills: {work.same('straight', 'killed')}")
    print(f"{kills} kills, {inside} inside a save, {length}")
finish(KILLS + 7)
