# SPDX-License-Identifier: Apache-2.0
"""Signals and time limits: save, leave with the documented code, go on to the same end."""
import os
import signal
import time

from support import Workplace, check, finish

LONG = ["train.duration=3000", "checkpoint.every=1000", "eval.every=500", "log.every=100"]


def wait_for(path, seconds=20):
    end = time.time() + seconds
    while not os.path.exists(path) and time.time() < end:
        time.sleep(0.005)
    check(os.path.exists(path), f"{path} did not appear")


with Workplace() as work:
    work.train("straight", *LONG)
    for name, number, code in (("int", signal.SIGINT, 130), ("term", signal.SIGTERM, 143)):
        process = work.start("train", "config.yaml", "-o", name, *LONG)
        wait_for(work.file(name, "run.json"))
        time.sleep(0.15)
        process.send_signal(number)
        _, messages = process.communicate(timeout=30)
        check(process.returncode == code, f"{name}: exit {process.returncode}\n{messages}")
        check("train --resume" in messages, messages)
        work.resume(name)
        check(work.same("straight", name) is None, f"{name}: {work.same('straight', name)}")

    process = work.start("train", "config.yaml", "-o", "usr", *LONG)
    wait_for(work.file("usr", "run.json"))
    time.sleep(0.1)
    process.send_signal(signal.SIGUSR1)
    check(process.wait(timeout=60) == 0, "SIGUSR1 saves and goes on")
    check(work.same("straight", "usr") is None, f"usr: {work.same('straight', 'usr')}")
    check(len(os.listdir(work.file("usr", "checkpoints"))) > len(os.listdir(work.file("straight", "checkpoints"))), "SIGUSR1 saved nothing")

    began = time.time()
    done = work.call("train", "config.yaml", "-o", "limit", "--max-time", "1s", "train.duration=1000000")
    check(done.returncode == 75 and time.time() - began < 6, f"--max-time: exit {done.returncode} after {time.time() - began:.1f} s")

    work.train("locked-out", *LONG)
    first = work.start("train", "config.yaml", "-o", "shared", "train.duration=1000000")
    wait_for(work.file("shared", "run.json"))
    second = work.call("train", "--resume", "shared")
    check(second.returncode == 6 and str(first.pid) in second.stderr, f"a second owner: {second.returncode} {second.stderr}")
    first.kill()
    first.wait()
finish(15)
