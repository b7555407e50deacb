# SPDX-License-Identifier: Apache-2.0
"""Faults of whole runs that other people met: limits of durations and retention, odd shapes, empty and long samples, groups of micro-batches, metrics."""
import glob
import json
import os
import shutil
import struct

import h5py
import numpy

from support import CONFIG, Workplace, check, edit_checkpoint, finish

ALONE = ['data.valid.path=""', 'data.test.path=""']
FIRST_TEN = [*ALONE, "data.train.path=ten.tsv", "train.duration=1ep", "optim.clip_norm=0.1", "device.type=reference", "train.precision=fp64"]


def contents_of(folder):
    """Name -> bytes and time of every file but the lock."""
    found = {}
    for path, _, names in os.walk(folder):
        for name in names:
            if name != "LOCK":
                file = os.path.join(path, name)
                with open(file, "rb") as source:
                    found[file] = (source.read(), os.stat(file).st_mtime_ns)
    return found


def largest_difference(a, b):
    return max(float(numpy.abs(a[name] - b[name]).max()) for name in a)


def bench(work, *words):
    done = work.call("bench", "step", "config.yaml", "--steps", "1", "--warmup", "0", "--json", "--trace", *words)
    check(done.returncode == 0, f"bench step {words}: exit {done.returncode}\n{done.stderr}")
    return json.loads(done.stdout)["trace"][0]["loss"]


def durations(work):
    # C19: two limits, the nearer one wins in the middle of an epoch; the end is saved and evaluated once.
    for every in ("1ep", "7"):
        run = f"limits-{every}"
        work.train(run, "train.duration=[10ep, 7]", f"eval.every={every}", "checkpoint.every=1ep", "log.every=1")
        lines = work.metrics(run)
        check([m["step"] for m in lines if m["split"] == "train"] == list(range(1, 8)), f"{run}: not 7 updates")
        check([m["step"] for m in lines if m["split"] == "valid"] == ([6, 7] if every == "1ep" else [7]), f"{run}: evaluations at the wrong steps")
        check(work.checkpoints(run)[-1] == "step-00000007.h5", f"{run}: {work.checkpoints(run)}")
    # A cadence of one and a half epochs has no meaning, half an epoch has.
    work.refused(2, ["train", "config.yaml", "-o", "run", "eval.every=1.5ep"], "eval.every", "whole")
    work.refused(2, ["train", "config.yaml", "-o", "run", "checkpoint.every=2.5ep"], "checkpoint.every", "whole")
    work.train("half", "train.duration=1.5ep", "eval.every=0.5ep")
    check([m["step"] for m in work.metrics("half") if m["split"] == "valid"] == [3, 6, 9], "half epochs")
    # C18: at the end, before it and beyond it.
    before = contents_of(work.file("limits-7"))
    for words in ([], ["train.duration=7"], ["train.duration=3"], ["train.duration=[1ep]"]):
        done = work.resume("limits-7", *words)
        check("already complete" in done.stderr, f"{words}: {done.stderr}")
        check(contents_of(work.file("limits-7")) == before, f"resuming a finished run with {words} changed a file")
    work.resume("limits-7", "train.duration=9")
    check(work.metrics("limits-7")[-1]["step"] == 9, "a longer duration goes on")


def token_epochs(work):
    # Epochs of batches by tokens end at the same update whether a schedule had them counted or not, also when a run goes on in the middle.
    tokens = ["train.batch_tokens=80", "schedule.warmup=0", "checkpoint.every=1", "log.tensorboard=false"]
    for number, duration in enumerate(("2ep", "1.5ep", "0.01ep", "[3ep, 4]")):
        ends = []
        for schedule in ("linear", "constant"):
            done = work.train(f"{schedule}-{number}", *tokens, f"schedule.type={schedule}", f"train.duration={duration}")
            check("training to " in done.stderr, done.stderr)
            ends.append(json.loads(work.read(f"{schedule}-{number}", "run.json"))["step"])
        check(ends[0] == ends[1] and (ends[0] > 5 if number < 2 else ends[0] == (1, 4)[number - 2]), f"{duration}: {ends}")
    for at in (1, 3, 5):
        work.copy_as_killed("constant-1", at, f"constant-{at}-on")
        work.resume(f"constant-{at}-on")
        check(work.same("constant-1", f"constant-{at}-on") is None, f"from {at}: {work.same('constant-1', f'constant-{at}-on')}")
    check("already complete" in work.resume("constant-1").stderr, "complete in the middle of an epoch")
    # Another limit does not wait until all epochs are counted.
    seldom = [f"{key}.every=1000000000" for key in ("checkpoint", "eval", "log")]
    work.train("short", *tokens, *seldom, "schedule.type=constant", "train.duration=[1000000000ep, 1s]")


def retention(work):
    # C17: all, one beside the best, none.
    work.train("all", "checkpoint.every=1", "checkpoint.keep_last=-1", "eval.every=1")
    check(len(work.checkpoints("all")) == 12, f"keep_last -1: {work.checkpoints('all')}")
    best = json.loads(work.read("all", "run.json"))["best"]["step"]
    values = {m["step"]: m["valid/accuracy"] for m in work.metrics("all") if m["split"] == "valid"}
    check(best == min(s for s in values if values[s] == max(values.values())), f"the first of the best is not {best}: {values}")
    check(best < 12, f"the best step {best} must be older than the last for this test")
    work.train("one", "checkpoint.every=1", "checkpoint.keep_last=1", "eval.every=1")
    check(work.checkpoints("one") == [f"step-{best:08}.h5", "step-00000012.h5"], f"keep_last 1: {work.checkpoints('one')}")
    work.refused(2, ["train", "config.yaml", "-o", "run", "checkpoint.keep_last=0"], "keep_last")
    work.refused(2, ["train", "config.yaml", "-o", "run", "checkpoint.keep_last=-2"], "keep_last")
    work.refused(2, ["train", "config.yaml", "-o", "run", "checkpoint.keep_last=9223372036854775807"], "keep_last", "1048576")
    # The best of a checkpoint that a run goes back to may be pruned by then: a new best is looked for, and what run.json names is there.
    work.train("back", "checkpoint.every=1", "checkpoint.keep_last=-1", "eval.every=1", "train.early_stopping.patience=50")
    with h5py.File(work.file("back", "checkpoints", "step-00000008.h5"), "r") as h5:
        old = int(h5["control"].attrs["best_step"])
    check(0 < old < 8, f"the best of step 8 is step {old}; an older one is needed for this test")
    os.remove(work.file("back", "checkpoints", f"step-{old:08}.h5"))
    done = work.resume("back", "--from", work.file("back", "checkpoints", "step-00000008.h5"))
    check(f"of step {old}, is no longer there" in done.stderr, done.stderr)
    best = json.loads(work.read("back", "run.json"))["best"]
    values = {m["step"]: m["valid/accuracy"] for m in work.metrics("back") if m["split"] == "valid" and m["step"] > 8}
    check(best["step"] == max(sorted(values), key=values.get) and best["value"] == max(values.values()), f"best {best} of {values}")
    done = work.call("eval", "back")
    check(done.returncode == 0 and "not usable" not in done.stderr and f"step {best['step']}" in done.stderr, done.stderr)
    # C16, D02, K-10: numbers are compared as numbers, strangers are neither read nor removed.
    work.train("many", "train.duration=1000", "checkpoint.every=999", "eval.every=1000", "log.every=500", "log.tensorboard=false", "model.layers=1")
    folder = work.file("many", "checkpoints")
    check(work.checkpoints("many")[-2:] == ["step-00000999.h5", "step-00001000.h5"], str(os.listdir(folder)))
    strangers = ["step-0900000.h5", "step-100000.h5", "handpicked.h5", "100.tmp", "step-00002000.h5.bak", "step-x.h5.tmp-1"]
    for name in strangers:
        shutil.copy(os.path.join(folder, "step-00000999.h5"), os.path.join(folder, name))
    os.makedirs(os.path.join(folder, "step-00003000.h5", "model"))
    os.makedirs(os.path.join(folder, "step_50"))
    done = work.resume("many", "train.duration=1002", "checkpoint.every=1", "checkpoint.keep_last=1")
    check("from step 1000" in done.stderr, done.stderr)
    check("step-0900000.h5" in done.stderr and "handpicked.h5" in done.stderr, f"no note about strangers: {done.stderr}")
    for name in [*strangers, "step-00003000.h5", "step_50"]:
        check(os.path.exists(os.path.join(folder, name)), f"{name} was removed")
    done = work.call("train", "--resume", "many", "--from", os.path.join(folder, "step_50"))
    check(done.returncode == 4 and "step_50" in done.stderr, f"--from a directory: exit {done.returncode} {done.stderr}")


def continued_state(work):
    # C03: moments that are absent are not started from zero.
    work.train("moments", "checkpoint.every=6")
    for group in ("optimizer/exp_avg", "optimizer/exp_avg_sq", "optimizer"):
        work.copy_as_killed("moments", 6, "bare")
        edit_checkpoint(work.file("bare", "checkpoints", "step-00000006.h5"), lambda h5: h5.__delitem__(group))
        work.resume("bare", code=4)
        shutil.rmtree(work.file("bare"))
    # C20, P-7: one value a step in the lines, whole records in the event files; the resumed file voids the later ones of the first.
    work.copy_as_killed("moments", 6, "again")
    with open(work.file("again", "metrics.jsonl"), "a", encoding="utf-8") as out:
        out.write('{"step":12,"torn')
    work.resume("again")
    steps = [(m["split"], m["step"]) for m in work.metrics("again")]
    check(len(steps) == len(set(steps)), f"a step is logged twice: {steps}")
    check(work.same("moments", "again") is None, f"{work.same('moments', 'again')}")
    for file in glob.glob(work.file("again", "tensorboard", "train", "*")):
        check(records_of(file) > 1, f"{file} holds no record")
    # C14, F02: a metric that is undefined everywhere is null, is never the best, and training goes on.
    rows = work.read("train.tsv").splitlines()
    zeros = [r for r in rows[1:] if r.endswith("\t0")] or [rows[1]]
    work.write("one_class.tsv", "\n".join([rows[0], *zeros]) + "\n")
    done = work.train("undefined", "data.valid.path=one_class.tsv", "checkpoint.best=valid/auroc", "train.early_stopping.metric=valid/auroc",
                      "train.early_stopping.patience=100", "log.tensorboard=true")
    values = [m["valid/auroc"] for m in work.metrics("undefined") if m["split"] == "valid"]
    check(values == [None] * 3, f"AUROC of one class: {values}")
    check("best" not in json.loads(work.read("undefined", "run.json")), "an undefined value became the best")
    check("valid has no sample of" in done.stderr, f"D-11: no warning about classes that valid lacks: {done.stderr}")
    check(work.call("eval", "undefined").returncode == 0, "a run without a best checkpoint is evaluated from its last")


def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    crc ^= 0xffffffff
    return ((crc >> 15 | crc << 17) + 0xa282ead8) & 0xffffffff


def records_of(file):
    """Counts the records of an event file and checks their lengths and sums."""
    with open(file, "rb") as source:
        data = source.read()
    count = at = 0
    while at < len(data):
        (length,) = struct.unpack_from("<Q", data, at)
        check(struct.unpack_from("<I", data, at + 8)[0] == crc32c(data[at:at + 8]), f"{file}: the length at {at}")
        body = data[at + 12:at + 12 + length]
        check(len(body) == length and struct.unpack_from("<I", data, at + 12 + length)[0] == crc32c(body), f"{file}: the record at {at}")
        at += 16 + length
        count += 1
    return count


def shapes(work):
    small = ["model.layers=1", "model.feed_forward.dim=8"]
    for variant in ("full", "local", "linear"):
        chosen = [*small, f"model.attention.type={variant}", "model.dropout=0", "model.feed_forward.dropout=0"]
        # A18: heads of any width.
        for dim, heads in ((30, 6), (7, 1), (1, 1), (12, 12)):
            words = [*chosen, f"model.dim={dim}", f"model.attention.heads={heads}", "--batch", "3", "--length", "9"]
            a, b = bench(work, *words), bench(work, *words, "device.type=reference")
            check(abs(a - b) < 1e-4, f"{variant} of {heads} heads in {dim}: {a} on the cpu, {b} on reference")
        # A09, A10, A23: no length is special.
        for form in ("left: 5", "form: blocked, block: 8") if variant == "local" else ("",):
            own = [*chosen, "model.dim=4", "model.attention.heads=1", "~model.attention.local", f"model.attention.local={{{form}}}"]
            for length in (1, 2, 7, 8, 9, 15, 17, 65):
                a, b = (bench(work, *own, "--batch", "2", "--length", str(length), f"device.type={d}") for d in ("cpu", "reference"))
                check(abs(a - b) < 1e-4, f"{variant} {form}, {length} rows: {a} on the cpu, {b} on reference")
            for length in (1023, 1024, 1025, 4097):
                loss = bench(work, *own, "--batch", "1", "--length", str(length), "data.max_length=4097")
                check(0 < loss < 10, f"{variant} {form}, {length} rows: loss {loss}")
    work.refused(2, ["train", "config.yaml", "-o", "run", "model.dim=30", "model.attention.heads=4"], "model.attention.heads", "model.dim")
    # A25: more sequences than any 16-bit count holds.
    bench(work, *small, "model.dim=4", "model.attention.heads=1", "--batch", "70000", "--length", "2")


def lengths(work):
    # A22: a sample longer than max_length, by each policy; the count is said once the data is loaded.
    work.write("long.tsv", "Source\tTarget\n" + "1 " * 17 + "\t1\n[MAX 1 2 ]\t2\n")
    words = ["data.train.path=long.tsv", "data.max_length=16", *ALONE, "train.duration=2"]
    work.refused(3, ["train", "config.yaml", "-o", "run", *words], "long.tsv:2: row 1", "17", "16", "data.truncate")
    for policy in ("right", "left", "middle"):
        done = work.train(f"cut-{policy}", f"data.truncate={policy}", *words)
        check("1 sequences cut to 16 rows" in done.stderr, done.stderr)
    # A19, A21: empty samples, found before the first update.
    rows = "".join(f"[MAX {i % 10} {i % 7} ]\t{max(i % 10, i % 7)}\n" for i in range(200))
    work.write("late.tsv", "Source\tTarget\n" + rows + "\t1\n[MIN 1 2 ]\t1\n")
    words[0] = "data.train.path=late.tsv"
    work.refused(3, ["train", "config.yaml", "-o", "run", *words], "late.tsv:202: row 201", "data.empty")
    done = work.train("skip", "data.empty=skip", *words)
    check("1 empty samples left out" in done.stderr, done.stderr)
    work.write("nothing.tsv", "Source\tTarget\n\t1\n \t2\n")
    words[0] = "data.train.path=nothing.tsv"
    work.refused(3, ["train", "config.yaml", "-o", "run", *words], "nothing.tsv:2: row 1")
    work.refused(3, ["train", "config.yaml", "-o", "run", "data.empty=skip", *words], "nothing.tsv", "no training sample")


def groups(work):
    # E01, E05, N-7: micro-batches of a group, the last group smaller, clipped once.
    rows = work.read("train.tsv").splitlines()
    work.write("ten.tsv", "\n".join(rows[:11]) + "\n")
    work.train("whole", *FIRST_TEN, "train.batch_size=4")
    whole = work.parameters("whole")
    norms = [m["gradient_norm"] for m in work.metrics("whole") if m["split"] == "train"]
    check(len(norms) == 3 and max(norms) > 0.1, f"one norm an update, and clipping at work: {norms}")
    for micro in (1, 3):
        run = f"micro-{micro}"
        work.train(run, *FIRST_TEN, "train.batch_size=4", f"train.micro_batch_size={micro}")
        check(largest_difference(whole, work.parameters(run)) < 1e-9, f"micro-batches of {micro}: {largest_difference(whole, work.parameters(run))}")
        here = [m["gradient_norm"] for m in work.metrics(run) if m["split"] == "train"]
        check(numpy.allclose(norms, here, rtol=1e-9), f"micro-batches of {micro}: norms {here}, {norms}")
    # F01: the batches of an evaluation change no metric.
    results = []
    for size in (1, 3, 10, 100):
        run = f"eval-{size}"
        work.train(run, f"eval.batch_size={size}", "data.train.path=ten.tsv", "data.valid.path=ten.tsv", 'data.test.path=""', "log.tensorboard=false")
        results.append([{k: v for k, v in m.items() if k.startswith("valid/")} for m in work.metrics(run) if m["split"] == "valid"])
        check(len(results[-1][-1]) >= 5 and results[-1] == results[0], f"evaluated in batches of {size}: {results[-1]} and {results[0]}")
    # E11: a last batch of one sample; one class; one row.
    work.write("nine.tsv", "\n".join(rows[:10]) + "\n")
    work.train("nine", "data.train.path=nine.tsv", "train.batch_size=4", "eval.batch_size=4", "data.valid.path=nine.tsv", 'data.test.path=""',
               "train.duration=2ep")
    work.write("single.tsv", "Source\tTarget\n1\t5\n2\t5\n3\t5\n")
    done = work.train("single", *(f"data.{part}.path=single.tsv" for part in ("train", "valid", "test")), "train.batch_size=2")
    losses = [m["train/loss"] for m in work.metrics("single") if m["split"] == "train"]
    check(losses == [0] * len(losses), f"the loss of one class: {losses} {done.stderr}")
    check(work.call("predict", "single", "-", stdin="1\n").stdout.count("\n") == 2, "a prediction of one class keeps its row")


def ignored_targets(work):
    # E08: batches and micro-batches whose targets are all ignored give no loss, no gradient and no NaN.
    text = CONFIG.replace("task: classification", "task: tagging\n  ignored_tag: '-'").replace("text: Source, label: Target", "tokens: words, tags: tags")
    work.write("tagging.yaml", text.replace(".tsv", ".csv"))
    lines = ["words,tags"] + [f"a{i % 3} b c," + ("- - -" if i < 4 else "X Y -") for i in range(8)]
    for part in ("train", "valid", "test"):
        work.write(part + ".csv", "\n".join(lines) + "\n")
    words = ["data.shuffle=false", "train.batch_size=4", "train.duration=4", "log.every=1", "eval.every=2", "optim.weight_decay=0"]
    for name, extra in (("alone", []), ("in-a-group", ["train.batch_size=8", "train.micro_batch_size=4"])):
        done = work.call("train", "tagging.yaml", "-o", name, *words, *extra)
        check(done.returncode == 0, f"all targets ignored, {name}: exit {done.returncode}\n{done.stderr}")
        lines = [m for m in work.metrics(name) if m["split"] == "train"]
        check(all(numpy.isfinite(v).all() for v in work.parameters(name).values()), f"{name}: a parameter is not finite")
        losses = [m["train/loss"] for m in lines]
        check(losses[0] is None and losses[1] > 0 if name == "alone" else None not in losses, f"{name}: losses {losses}")
    done = work.call("train", "tagging.yaml", "-o", "plain", *words, "optim.type=sgd", "optim.momentum=0", "train.duration=1")
    start = work.call("train", "tagging.yaml", "-o", "start", *words, "optim.type=sgd", "optim.momentum=0", "train.duration=1", "optim.lr=1e-30")
    check(done.returncode == 0 and start.returncode == 0, done.stderr + start.stderr)
    check(largest_difference(work.parameters("plain"), work.parameters("start")) == 0, "an update without targets moved a weight")


with Workplace() as work:
    for part in (durations, token_epochs, retention, continued_state, shapes, lengths, groups, ignored_targets):
        part(work)
finish(475)
