# SPDX-License-Identifier: Apache-2.0
"""What `eval` writes beside the metrics: one prediction a sample, from which the metrics follow; places where it cannot be written."""
import json
import math
import os
import resource
import shutil
import subprocess
import time

import numpy

from support import BINARY, CONFIG, Workplace, check, edit_checkpoint, finish, hash_of

TAGGING = CONFIG.replace("task: classification", "task: tagging\n  ignored_tag: '-'").replace("text: Source, label: Target", "tokens: words, tags: tags")
NUMBERS = CONFIG.replace("task: classification", "task: regression").replace("label: Target", "target: [a, b]").replace("tokenizer: {type: whitespace}",
                                                                                                                     "tokenizer: {type: byte}")


def predictions(work, run, part):
    return [json.loads(line) for line in work.read(run, "eval", part, "predictions.jsonl").splitlines()]


def evaluated(work, run, part="test"):
    done = work.call("eval", run, "--split", part, "--json")
    check(done.returncode == 0, f"eval {run}: exit {done.returncode}\n{done.stderr}")
    return json.loads(done.stdout)


def classes(work):
    work.train("run", "eval.batch_size=5")
    for part in ("test", "valid"):
        result, lines = evaluated(work, "run", part), predictions(work, "run", part)
        rows = [row.split("\t") for row in work.read(part + ".tsv").splitlines()[1:]]
        check([line["id"] for line in lines] == [str(i + 1) for i in range(len(rows))], f"{part}: ids {[line['id'] for line in lines]}")
        check([line["target"] for line in lines] == [row[1] for row in rows], f"{part}: the targets are not those of the file")
        for line in lines:
            p = line["proba"]
            check(abs(sum(p.values()) - 1) < 1e-6 and max(p, key=p.get) == line["label"] and p[line["label"]] == line["probability"], f"{part}: {line}")
        right = sum(line["label"] == line["target"] for line in lines)
        check(result["accuracy"] == right / len(lines), f"{part}: accuracy {result['accuracy']}, {right} of {len(lines)} predictions are right")
        loss = -sum(math.log(line["proba"][line["target"]]) for line in lines) / len(lines)
        check(abs(result["loss"] - loss) < 1e-5, f"{part}: loss {result['loss']}, {loss} by the probabilities")
        printed = work.call("predict", "run", part + ".tsv", "--format", "jsonl").stdout.splitlines()
        for line, other in zip(lines, map(json.loads, printed), strict=True):
            check(line["label"] == other["label"] and abs(line["probability"] - other["probability"]) < 1e-5, f"{part}: {line}, predict says {other}")


def tags(work):
    work.write("tagging.yaml", TAGGING.replace(".tsv", ".csv"))
    rows = [f"n{i},a{i % 3} b c,{'-' if i % 4 == 0 else 'X'} Y X" for i in range(9)]
    for part in ("train", "valid", "test"):
        work.write(part + ".csv", "\n".join(["name,words,tags", *rows]) + "\n")
    done = work.call("train", "tagging.yaml", "-o", "tagged", "data.id=name")
    check(done.returncode == 0, done.stderr)
    result, lines = evaluated(work, "tagged"), predictions(work, "tagged", "test")
    check([line["id"] for line in lines] == [f"n{i}" for i in range(9)], f"ids {lines}")
    check(lines[0]["target"] == [None, "Y", "X"] and lines[1]["target"] == ["X", "Y", "X"], f"targets {lines[:2]}")
    pairs = [(t, p) for line in lines for t, p in zip(line["target"], line["tags"], strict=True) if t is not None]
    check(result["accuracy"] == sum(t == p for t, p in pairs) / len(pairs), f"accuracy {result['accuracy']}")


def growing(work):
    """A text is tagged by whether it has a 'z': with causal attention its tags stay what they were while it grows, without they do not."""
    texts = [[("z" if k % 2 and i == (5 * k) % n else "abc"[(i * k + i) % 3]) for i in range(n)] for k in range(60) for n in (6 + k % 5,)]
    for part in ("train", "valid", "test"):
        work.write(part + ".csv", "\n".join(["name,words,tags"] + [f"n,{' '.join(t)},{' '.join(['X' if 'z' in t else 'Y'] * len(t))}" for t in texts]) + "\n")
    whole = ["a", "b", "c", "a", "z", "b", "a", "c"]
    prefixes = [whole[:n] for n in range(1, 9)]
    for variant, own in (("full", "~model.attention.local"), ("bigbird", "model.attention.bigbird.block=4"), ("longformer", "model.attention.longformer.left=6"),
                         ("linear", "~model.attention.local"), ("performer", "model.attention.performer.features=16")):
        for causal in ("true", "false"):
            run = f"{variant}-{causal}"
            done = work.call("train", "tagging.yaml", "-o", run, f"model.attention.type={variant}", own, f"model.attention.causal={causal}",
                             "train.duration=150", "optim.lr=0.02", "model.dropout=0", "model.feed_forward.dropout=0", "eval.every=50", "checkpoint.every=50")
            check(done.returncode == 0, done.stderr)
            done = work.call("predict", run, "--format", "jsonl", stdin="".join(" ".join(words) + "\n" for words in prefixes))
            lines = [json.loads(line)["tags"] for line in done.stdout.splitlines()]
            check([len(line) for line in lines] == [len(words) for words in prefixes], f"{run}: {lines} {done.stderr}")
            same = all(line == lines[-1][:len(line)] for line in lines)
            check(same == (causal == "true") and "X" in lines[-1][4:], f"{run}: {lines}")


def numbers(work):
    work.write("numbers.yaml", NUMBERS.replace(".tsv", ".csv"))
    for part in ("train", "valid", "test"):
        work.write(part + ".csv", "\n".join(["Source,a,b"] + [f"x{i},{i / 4},{-i}" for i in range(9)]) + "\n")
    done = work.call("train", "numbers.yaml", "-o", "numbers", "checkpoint.keep_last=1")
    check(done.returncode == 0, done.stderr)
    result, lines = evaluated(work, "numbers"), predictions(work, "numbers", "test")
    check([line["target"] for line in lines] == [{"a": i / 4, "b": -i} for i in range(9)], f"targets {lines}")
    error = [line["prediction"][k] - line["target"][k] for line in lines for k in "ab"]
    check(abs(result["rmse"] - numpy.sqrt(numpy.mean(numpy.square(error)))) < 1e-5, f"rmse {result['rmse']}")
    # Of several targets each has its own, in JSON and as a table.
    printed = [line.split() for line in work.call("eval", "numbers").stdout.splitlines()]
    check([t["target"] for t in result["targets"]] == ["a", "b"], f"targets {result}")
    for k, (target, row) in enumerate(zip("ab", printed[-2:])):
        apart = numpy.array([line["prediction"][target] - line["target"][target] for line in lines])
        true = numpy.array([line["target"][target] for line in lines])
        expected = {"rmse": numpy.sqrt((apart ** 2).mean()), "mae": numpy.abs(apart).mean(), "r2": 1 - (apart ** 2).sum() / ((true - true.mean()) ** 2).sum()}
        for name, place in (("rmse", 1), ("mae", 2), ("r2", 3)):
            value = result["targets"][k][name]
            check(abs(value - expected[name]) < 1e-4 * (1 + abs(value)), f"{target} {name}: {value}, {expected[name]} by the predictions")
            check(printed[-3][place] == name and abs(float(row[place]) - value) < 1e-4 * (1 + abs(value)), f"printed {printed[-3:]}")
        check(row[0] == target, f"printed {row}")
    # Another file is said by part; what would change nothing, or score what was trained on, is refused.
    for code, word, says in ((2, "data.path=test.csv", "data.test.path"), (2, "data.target=[a]", "data.test.path"), (2, "eval.batchnorm=batch", "eval.batch_size"),
                             (2, "data.split.test=0.5", "trained on"), (2, "data.test.features=[a]", "those of the model"), (2, "data.truncat=right", "did you mean 'data.truncate'"),
                             (3, "data.test.target=[b, a]", "in this order"), (3, "data.test.target=[a]", "in this order")):
        work.refused(code, ["eval", "numbers", word], says, run="none")
    work.write("renamed.csv", work.read("test.csv").replace("Source,a,b", "Source,first,second"))
    done = work.call("eval", "numbers", "--json", "data.test.path=renamed.csv", "data.test.target=[first, second]", "eval.batch_size=2", "data.split.test=0")
    check(done.returncode == 0 and abs(json.loads(done.stdout)["rmse"] - result["rmse"]) < 1e-5, done.stderr)
    # A model that gives no numbers has no predictions, and its metrics are undefined.
    file = work.file("numbers", "checkpoints", work.checkpoints("numbers")[-1])

    def infinite(h5):
        bias = h5["model/head.output.bias"]
        bias[0] = numpy.inf
        bias.attrs["xxh64"] = hash_of(bias)

    edit_checkpoint(file, infinite)
    done = work.call("eval", file, "--json")
    check(done.returncode == 0 and json.loads(done.stdout)["rmse"] is None, f"{done.returncode} {done.stdout} {done.stderr}")
    check(all(line["prediction"] is None and line["target"] for line in predictions(work, "numbers", "test")), "infinite outputs have no predictions")


def refused(work):
    # A run that cannot be written to, and a disk that fills: exit 6, no result, nothing half-written. A checkpoint outside of a run writes nothing.
    whole = work.read("run", "eval", "test", "predictions.jsonl")
    os.makedirs(work.file("plain", "checkpoints"))
    file = work.checkpoints("run")[-1]
    shutil.copy(work.file("run", "checkpoints", file), work.file("plain", "checkpoints"))
    work.write("plain/eval", "a file")
    done = work.call("eval", "plain")
    check(done.returncode == 6 and "plain/eval" in done.stderr and done.stdout == "", f"a file in the way: exit {done.returncode} {done.stderr}")
    for size in (0, 100, 700):
        done = subprocess.run([BINARY, "eval", "run"], cwd=work.path, capture_output=True, text=True, check=False, timeout=60,
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size)))
        check(done.returncode == 6 and "predictions.jsonl" in done.stderr and "error[6]" in done.stderr and done.stdout == "", f"full: exit {done.returncode} {done.stderr}")
        check(work.read("run", "eval", "test", "predictions.jsonl") == whole, "a full disk spoiled the predictions of before")
        check(not [f for f in os.listdir(work.file("run", "eval", "test")) if ".tmp-" in f], "a temporary file is left")
    shutil.copy(work.file("run", "checkpoints", file), work.file("alone.h5"))
    before = sorted(os.listdir(work.path))
    check(work.call("eval", "alone.h5").returncode == 0 and sorted(os.listdir(work.path)) == before, "a checkpoint alone")
    mount = work.file("locked")
    os.makedirs(mount)
    done = subprocess.run(["mount", "--bind", work.file("run"), mount], capture_output=True, check=False)
    if done.returncode == 0:
        try:
            subprocess.run(["mount", "-o", "remount,ro,bind", mount], check=True)
            done = work.call("eval", "locked", "--split", "valid")
            check(done.returncode == 6 and "locked/eval/valid" in done.stderr and "Read-only" in done.stderr and done.stdout == "",
                  f"read-only: exit {done.returncode} {done.stderr}")
            check(work.call("predict", "locked", "test.tsv").returncode == 0, "predict writes nothing")
        finally:
            subprocess.run(["umount", mount], check=False)


def killed(work):
    # What a killed eval left goes with the next one; what a living one writes stays.
    head, *rows = work.read("test.tsv").splitlines(keepends=True)
    work.write("long.tsv", head + "".join(rows) * 4000)
    folder = work.file("run", "eval", "test")
    stranger = "notes.tmp-20261130"
    work.write(os.path.join("run", "eval", "test", stranger), "mine")

    def temporaries():
        return {f for f in os.listdir(folder) if ".tmp-" in f} - {stranger}

    def writing():
        process, before = work.start("eval", "run", "data.test.path=long.tsv"), temporaries()
        while not temporaries() - before and process.poll() is None:
            time.sleep(0.001)
        check(process.poll() is None, "an eval of many samples ended before it was seen to write")
        return process

    first = writing()
    first.kill()
    first.wait()
    left = temporaries()
    check(len(left) == 1, f"killed while it wrote, {left} is left")
    second = writing()
    mine = temporaries()
    check(len(mine) == 1 and mine != left, f"{left} should be gone, there is {mine}")
    check(work.call("eval", "run").returncode == 0 and second.poll() is None and temporaries() == mine, "an eval beside another took its file")
    second.communicate(timeout=120)
    check(second.returncode == 0 and not temporaries(), f"exit {second.returncode}, {temporaries()}")
    check(os.path.exists(os.path.join(folder, stranger)), "a file of the user is gone")
    check(len(work.read("run", "eval", "test", "predictions.jsonl").splitlines()) == 4000 * len(rows), "predictions of the second")


with Workplace() as work:
    for part in (classes, tags, growing, numbers, refused, killed):
        part(work)
finish(123)
