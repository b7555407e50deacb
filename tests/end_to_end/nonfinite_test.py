# SPDX-License-Identifier: Apache-2.0
"""Losses and gradients that are not finite: the tensor, the update and the rows are named; each policy does what it says; good checkpoints stay."""
import json
import re

import h5py
import numpy

from support import CONFIG, Workplace, check, finish

SERIES = CONFIG[:CONFIG.index("  train: {path")] + """\
  train: {path: train.csv}
  valid: {path: valid.csv}
  sequence: sequence
  standardize: false
""" + CONFIG[CONFIG.index("tokenizer:"):]
BAD = 37  # the sequence whose numbers overflow in the first layer


def write_series(work, bad, number):
    for part, count in (("train", 60), ("valid", 12)):
        lines = ["sequence,a,b,c,d,e,f,g,h,label"]
        for s in range(count):
            wrong = part == "train" and s in bad
            lines += [f"{s}," + ",".join(str(number if wrong and r == 1 else ((s + c) * 7 + r) % 5 - 2) for c in range(8)) + f",{s % 2}" for r in range(3)]
        work.write(part + ".csv", "\n".join(lines) + "\n")


def finite(work, run):
    return all(numpy.isfinite(v).all() for v in work.parameters(run).values())


def samples_of(message):
    found = re.search(r"; training samples? ([^;]*)", message)
    return found[1].split(", ") if found else []


with Workplace() as work:
    work.write("series.yaml", SERIES)
    write_series(work, {BAD}, 3.3e38)
    words = ["train", "series.yaml", "-o"]
    steady = ["checkpoint.every=1", "checkpoint.keep_last=2", "train.duration=10", "train.batch_size=12"]
    # N-5: stop.
    done = work.call(*words, "stop", *steady)
    check(done.returncode == 5 and "error[5]" in done.stderr, f"stop: exit {done.returncode}\n{done.stderr[-800:]}")
    last = done.stderr.strip().splitlines()[-1]
    step = json.loads(work.read("stop", "run.json"))["step"]
    check(f"update {step + 1}:" in last, f"the update is not named: {last}")
    check("encoder." in last or "embedding" in last or "head" in last, f"the tensor is not named: {last}")
    check(samples_of(last) == [str(BAD)], f"the sequence is not named: {last}")
    # The same in micro-batches. With BatchNorm the statistics are the first that is not finite, and any sample of the update may be why.
    for micro, norm in ((1, "layer_norm"), (5, "layer_norm"), (3, "batch_norm")):
        done = work.call(*words, f"micro-{micro}", *steady, f"train.micro_batch_size={micro}", f"model.norm.type={norm}")
        last = done.stderr.strip().splitlines()[-1]
        check(done.returncode == 5, f"micro-batches of {micro}: exit {done.returncode} {last}")
        check(samples_of(last) == [str(BAD)] if norm == "layer_norm" else "running_" in last and "among the training samples" in last, f"micro-batches of {micro}: {last}")
    # A text is named by its row in the file, whatever is left out or cut away before it; or as data.id says.
    rows = ["name,text,number"] + [f"n{i},{'' if i % 3 == 0 else 'a b'},{3e38 if i == 20 else 1}" for i in range(40)]
    work.write("text.csv", "\n".join(rows) + "\n")
    table = ["data.train.path=text.csv", 'data.valid.path=""', 'data.test.path=""', "data.train.text=text", "data.train.target=number", "data.task=regression",
             "data.empty=skip", "train.batch_size=8", "train.micro_batch_size=2", "train.duration=1ep"]
    for extra, name in (([], "21"), (["data.train.id=name"], "n20")):
        done = work.call("train", "config.yaml", "-o", f"text-{name}", *table, *extra)
        check(done.returncode == 5 and samples_of(done.stderr.strip().splitlines()[-1]) == [name], f"{name}: exit {done.returncode}\n{done.stderr[-800:]}")
    check(step == 0 or (finite(work, "stop") and work.call("eval", "stop", "--split", "valid").returncode == 0), "the last good checkpoint is usable")
    # Skip: one update of each epoch is left out and the weights stay good; resuming in the middle changes nothing.
    done = work.call(*words, "skip", *steady, "train.on_nonfinite=skip", "checkpoint.keep_last=-1")
    check(done.returncode == 0 and done.stderr.count("the update is skipped") == 2, f"skip: exit {done.returncode}\n{done.stderr[-800:]}")
    check(finite(work, "skip"), "a skipped update reached the weights")
    work.copy_as_killed("skip", 6, "skip-resumed")
    work.resume("skip-resumed")
    check(work.same("skip", "skip-resumed") is None, f"skip and resume: {work.same('skip', 'skip-resumed')}")
    # Rollback: the weights of the last checkpoint, the data go on.
    done = work.call(*words, "back", *steady, "train.on_nonfinite=rollback")
    check(done.returncode == 0 and done.stderr.count("not finite at update") == 2, f"rollback: exit {done.returncode}\n{done.stderr[-800:]}")
    check(finite(work, "back"), "after a rollback a weight is not finite")
    # Faults one after another: each rollback goes further back, since the checkpoint before was no help.
    write_series(work, set(range(24, 60)), 3.3e38)
    done = work.call(*words, "further", *steady, "train.on_nonfinite=rollback", "data.shuffle=false", "checkpoint.keep_last=-1", "train.duration=5")
    steps = [int(step) for step in re.findall(r"back to the weights of .*step-(\d+)\.h5", done.stderr)]
    check(done.returncode == 0 and steps == [2, 1] and done.stderr.count("the update is skipped") == 1, f"went back to {steps}\n{done.stderr[-800:]}")
    work.copy_as_killed("further", 3, "further-resumed")
    work.resume("further-resumed")
    check(work.same("further", "further-resumed") is None, f"rollback and resume: {work.same('further', 'further-resumed')}")
    # Back to before the averaging began: weights of after it are in no average.
    write_series(work, {BAD}, 3.3e38)
    done = work.call(*words, "averages", *steady, "train.on_nonfinite=rollback", "data.shuffle=false", "averaging.decay=0.9", "averaging.from=2",
                     "checkpoint.every=2", "checkpoint.best=none", "checkpoint.keep_last=-1", "train.duration=4")
    check(done.returncode == 0 and re.findall(r"back to the weights of .*step-(\d+)\.h5", done.stderr) == ["00000002"], f"exit {done.returncode}\n{done.stderr[-800:]}")
    with h5py.File(work.file("averages", "checkpoints", "step-00000004.h5"), "r") as h5:
        check("ema" not in h5, "the averages of step 3 outlived the rollback to step 2")
    # A stop leaves a checkpoint that the straight run has not: no rollback goes there, and no older one is gone because of it.
    write_series(work, {BAD, 49}, 3.3e38)  # in updates 4 and 5 of an epoch
    rhythm = [*steady, "train.on_nonfinite=rollback", "data.shuffle=false", "checkpoint.every=2", 'data.valid.path=""', "checkpoint.best=none",
              "schedule.type=constant", "schedule.warmup=0"]
    done = work.call(*words, "rhythm", *rhythm)
    straight = re.findall(r"not finite at update (\d+).*(?:step-(\d+)|skipped)", done.stderr)
    check(done.returncode == 0 and straight == [("4", "00000002"), ("5", ""), ("9", "00000008"), ("10", "00000006")], f"{straight}\n{done.stderr[-800:]}")
    for at in range(1, 10):
        done = work.call(*words, f"stopped-{at}", *rhythm, f"train.duration={at}")
        check(done.returncode == 0 and work.checkpoints(f"stopped-{at}")[-1] == f"step-{at:08}.h5", f"stopped after {at}: {done.stderr[-800:]}")
        done = work.resume(f"stopped-{at}", "train.duration=10")
        targets = re.findall(r"not finite at update (\d+).*(?:step-(\d+)|skipped)", done.stderr)
        check(targets == [s for s in straight if int(s[0]) > at], f"stopped after {at}: {targets}")
        check(work.same("rhythm", f"stopped-{at}") is None, f"stopped after {at}: {work.same('rhythm', f'stopped-{at}')}")
        check(work.checkpoints("rhythm") == work.checkpoints(f"stopped-{at}"), f"stopped after {at}: {work.checkpoints(f'stopped-{at}')}")
    # All rows bad: after max_skips in a row the run stops, and nothing that is not finite was ever the best.
    write_series(work, set(range(60)), 3.3e38)
    for policy in ("skip", "rollback"):
        done = work.call(*words, f"all-{policy}", *steady, f"train.on_nonfinite={policy}", "train.max_skips=3", "eval.every=1")
        check(done.returncode == 5 and "4 in a row" in done.stderr, f"all rows, {policy}: exit {done.returncode}\n{done.stderr[-800:]}")
        check(finite(work, f"all-{policy}"), f"all rows, {policy}: a weight is not finite")
    # Statistics of BatchNorm that overflow though every loss is finite.
    write_series(work, {BAD}, 1e30)
    done = work.call(*words, "statistics", *steady, "model.norm.type=batch_norm")
    check(done.returncode == 5 and "running_var" in done.stderr and "rows" in done.stderr, f"statistics: exit {done.returncode}\n{done.stderr[-800:]}")
    # A rate that explodes, with LayerNorm: the same by another way, and the best stays a number.
    done = work.train("rate", "optim.lr=1e30", "optim.clip_norm=0", "optim.type=sgd", "schedule.type=constant", "schedule.warmup=0", "eval.every=1",
                      "checkpoint.every=1", "train.on_nonfinite=skip", "train.max_skips=2", code=5)
    best = json.loads(work.read("rate", "run.json")).get("best")
    check(best is None or numpy.isfinite(best["value"]), f"the best is {best}")
finish(60)
