# SPDX-License-Identifier: Apache-2.0
"""Trains, kills with -9 past a checkpoint, resumes, twice; then compares what TensorBoard reads with metrics.jsonl. Run by tensorboard.sh."""
import os
import sys
import time

import numpy
import tensorboard
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests", "end_to_end"))
from support import Workplace, check, finish  # noqa: E402

SETTINGS = ["train.duration=600", "checkpoint.every=50", "eval.every=100", "log.every=1"]


def last_step(work, run):
    try:
        with open(work.file(run, "metrics.jsonl"), "rb") as lines:
            whole = lines.read().split(b"\n")[:-1]
        return max((int(line.split(b'"step":')[1].split(b",")[0]) for line in whole), default=0)
    except FileNotFoundError:
        return 0


def kill_at(work, run, step, *words):
    """Ends a training run as soon as it has logged `step`; the step it had then reached, and the checkpoint it would go on from."""
    process = work.start("train", *words)
    deadline = time.time() + 120
    while process.poll() is None and last_step(work, run) < step and time.time() < deadline:
        time.sleep(0.002)
    process.kill()
    process.wait()
    checkpoints = [int(f[5:-3]) for f in os.listdir(work.file(run, "checkpoints")) if f.startswith("step-") and f.endswith(".h5")]
    return last_step(work, run), max(checkpoints)


def compare(work, run, part):
    """Every scalar of a part: the number of values compared."""
    events = EventAccumulator(work.file(run, "tensorboard", part), size_guidance={"scalars": 0})
    events.Reload()
    compared = 0
    lines = [line for line in work.metrics(run) if line["split"] == part]
    for tag in events.Tags()["scalars"]:
        wanted = {line["step"]: line[tag] for line in lines if line.get(tag) is not None}
        got = [(event.step, event.value) for event in events.Scalars(tag)]
        steps = [step for step, _ in got]
        check(steps == sorted(wanted), f"{part}: {tag} has {len(steps)} values at {len(set(steps))} steps; metrics.jsonl has {len(wanted)}")
        for step, value in got:
            check(numpy.float32(wanted[step]) == numpy.float32(value), f"{part}: {tag} at step {step} is {value}, metrics.jsonl has {wanted[step]}")
        compared += len(got)
    return compared


with Workplace() as work:
    beyond = 0
    for number, (step, words) in enumerate(((130, ("config.yaml", "-o", "run", *SETTINGS)), (330, ("--resume", "run")))):
        reached, checkpoint = kill_at(work, "run", step, *words)
        check(reached < 600, "the run ended before it was killed")
        print(f"kill {number + 1}: at step {reached}, checkpoint of step {checkpoint}")
        beyond += reached - checkpoint
    check(beyond > 0, "both kills fell right on a checkpoint: nothing had to be taken back; run the check again")
    work.resume("run")
    files = [f for f in os.listdir(work.file("run", "tensorboard", "train")) if "tfevents" in f]
    check(len(files) == 3, f"three processes leave three event files: {files}")
    train, valid = compare(work, "run", "train"), compare(work, "run", "valid")
    check(train >= 4 * 600 and valid >= 2 * 6, f"{train} and {valid} values")
    print(f"TensorBoard {tensorboard.__version__}: {train} values of train and {valid} of valid, one a step, equal to metrics.jsonl")
finish(2000)
