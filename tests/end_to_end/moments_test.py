# SPDX-License-Identifier: Apache-2.0
"""Row P-1: 110 signals at random moments of loading, training, evaluating, saving and ending: the documented exit code each time, and runs that
go on to the same end."""
import os
import random
import shutil
import signal
import time

from support import Workplace, check, finish

SIGNALS = 110
LONG = ["train.duration=3000", "checkpoint.every=40", "checkpoint.keep_last=2", "eval.every=150", "log.every=50", "log.tensorboard=false", "device.threads=1"]
CODES = {signal.SIGINT: {130, -signal.SIGINT}, signal.SIGTERM: {143, -signal.SIGTERM}, signal.SIGKILL: {-signal.SIGKILL}}


def has_checkpoint(work, run):
    folder = work.file(run, "checkpoints")
    return os.path.isdir(folder) and any(f.startswith("step-") and f.endswith(".h5") for f in os.listdir(folder))


def p1_random_signals(work):
    draw = random.Random(2)
    work.train("straight", *LONG)
    runs, ends = 0, {}
    for number in range(SIGNALS):
        run = f"run-{runs}"
        if has_checkpoint(work, run):
            words = ["train", "--resume", run]
        else:
            shutil.rmtree(work.file(run), ignore_errors=True)
            words = ["train", "config.yaml", "-o", run, *LONG]
        report = work.file(run, "run.json")
        before = os.stat(report).st_mtime_ns if os.path.exists(report) else None
        process = work.start(*words)
        if number % 3:  # a third is sent while the program loads, the others from the first update on
            while process.poll() is None and not (os.path.exists(report) and os.stat(report).st_mtime_ns != before):
                time.sleep(0.001)
        time.sleep(draw.choice((0.004, 0.03, 0.15)) * draw.random())
        sent = draw.choice((signal.SIGINT, signal.SIGTERM, signal.SIGKILL))
        process.send_signal(sent)
        twice = number % 5 == 0 and sent != signal.SIGKILL
        if twice:
            process.send_signal(signal.SIGTERM)
        _, messages = process.communicate(timeout=60)
        code = process.returncode
        ends[code] = ends.get(code, 0) + 1
        allowed = CODES[sent] | (CODES[signal.SIGTERM] if twice else set())
        check(code in allowed | {0}, f"signal {number}, {sent.name}{' twice' if twice else ''}: exit {code}\n{messages}")
        if code in (130, 143) and "stopped and saved" in messages:
            check("train --resume" in messages and has_checkpoint(work, run), messages)
        if code == 0:  # the signal came after the end
            check(work.same("straight", run) is None, f"{run}: {work.same('straight', run)}")
            runs += 1
    if has_checkpoint(work, f"run-{runs}"):
        work.resume(f"run-{runs}")
        check(work.same("straight", f"run-{runs}") is None, f"the last: {work.same('straight', f'run-{runs}')}")
    print(f"{SIGNALS} signals, {runs} runs ended meanwhile, exit codes {ends}")
    check(sum(ends.get(c, 0) for c in (130, 143)) >= SIGNALS // 5, f"too few signals met a run: {ends}")
    for name in os.listdir(work.path):
        check(not name.startswith("run-") or not [f for f in os.listdir(work.file(name, "checkpoints")) if ".tmp-" in f] or name == f"run-{runs}", f"{name}: temporary files")


with Workplace() as work:
    p1_random_signals(work)
finish(SIGNALS + 2)
