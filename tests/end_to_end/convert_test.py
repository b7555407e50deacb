# SPDX-License-Identifier: Apache-2.0
"""`data convert` on data that is larger than what it may hold: memory does not grow with the texts, the contents are those of the file."""
import os
import random
import resource
import subprocess

import h5py
import numpy

from support import BINARY, CONFIG, Workplace, check, finish, peak_memory

BYTES = CONFIG.replace("type: whitespace", "type: byte").replace("max_length: 64", "max_length: 100000")
SERIES = """\
version: 1
data: {path: series.csv, sequence: q, step: t, features: [b, a], id: code, standardize: false, window: {length: 3, hop: 2}, split: {valid: 0.2}}
model: {dim: 8, layers: 1, feed_forward: {dim: 8}, attention: {type: full, heads: 2}}
train: {duration: 6, batch_size: 4}
device: {threads: 1}
"""
MIB = 1 << 20


def peak_of(work, *words):
    code, messages, peak = peak_memory(work, *words)
    check(code == 0, f"{words}: exit {code} {messages}")
    return peak


def texts(rows, length):
    draw = random.Random(rows)
    letters = "abcdefgh \u00fc"
    blocks = ["".join(draw.choice(letters) for _ in range(1000)) for _ in range(20)]
    return ["".join(draw.choice(blocks) for _ in range(length // 1000)) + str(i) for i in range(rows)]


def bounded_memory(work):
    # 24 MiB of text are 96 MiB of tokens: neither may be held. What counts is the growth from small data to large, whatever the program itself takes.
    work.write("bytes.yaml", BYTES)
    peaks = {}
    for name, rows in (("small", 12), ("large", 1200)):
        all_texts = texts(rows, 20000)
        work.write(name + ".tsv", "Source\tTarget\n" + "".join(f"{text}\t{i % 3}\n" for i, text in enumerate(all_texts)))
        table = [f"data.train.path={name}.tsv", "data.valid.path=small.tsv", 'data.test.path=""']
        peaks[name] = peak_of(work, "data", "convert", "bytes.yaml", "-o", name + ".h5", *table)
        peaks[name + " compressed"] = peak_of(work, "data", "convert", "bytes.yaml", "-o", name + "-deflated.h5", "--compress", *table)
        own = [f"data.{part}.path={name}.h5" for part in ("train", "valid")] + ['data.test.path=""']
        peaks[name + " again"] = peak_of(work, "data", "convert", "bytes.yaml", "-o", name + "-again.h5", *own)
        for file in (name + ".h5", name + "-deflated.h5", name + "-again.h5"):
            with h5py.File(work.file(file)) as h5:
                train = h5["train"]
                wanted = [text.encode() for text in all_texts]
                check(bytes(train["input_ids"][:].astype("u1")) == b"".join(wanted), f"{file}: the tokens are not the bytes of the texts")
                check(list(train["offsets"][:]) == [0, *numpy.cumsum([len(w) for w in wanted])], f"{file}: offsets")
                check([h5["label_names"][label].decode() for label in train["labels"][:]] == [str(i % 3) for i in range(rows)], f"{file}: labels")
                check([name.decode() for name in train["ids"][:]] == [str(i + 1) for i in range(rows)], f"{file}: ids")
                check(len(h5["valid/labels"]) == 12 and train.attrs["num_examples"] == rows, f"{file}: parts")
                check((train["input_ids"].chunks is not None) == ("deflated" in file), f"{file}: chunks {train['input_ids'].chunks}")
    size = os.stat(work.file("large.tsv")).st_size
    check(size > 24 * MIB, f"{size} bytes of text")
    for kind, limit in (("", 12), (" compressed", 12), (" again", 32)):  # HDF5 is checked in pieces of 8 MiB, before and while it is read
        growth = peaks["large" + kind] - peaks["small" + kind]
        check(growth < limit * MIB, f"memory grows by {growth / MIB:.1f} MiB with {size / MIB:.0f} MiB of text{kind}: {peaks}")


def same_as_before(work):
    # Splits, skipped rows, unknown tokens, tags and targets go through the same pass: what is trained from the file is what is trained from the tables.
    work.write("rows.csv", "text,label,weight,name\n" + "".join(f"{'a b c d'[: i % 7]},{i % 2},{i % 3 + 1},n{i}\n" for i in range(60)))
    table = ["data.train.path=rows.csv", 'data.valid.path=""', 'data.test.path=""', "data.train.text=text", "data.train.label=label", "data.train.weight=weight",
             "data.train.id=name", "data.split.valid=0.25", "data.empty=skip", "tokenizer.minimum_count=9"]
    done = work.call("data", "convert", "config.yaml", "-o", "rows.h5", *table)
    check(done.returncode == 0 and "empty samples left out" in done.stderr and "tokens unknown" in done.stderr, done.stderr)
    done = work.call("train", "config.yaml", "-o", "from-tables", *table)
    check(done.returncode == 0, done.stderr)
    done = work.call("train", "config.yaml", "-o", "from-file", "data.train.path=rows.h5", "data.valid.path=rows.h5", 'data.test.path=""')
    check(done.returncode == 0, done.stderr)
    # The keys that describe the table may stay: they are what the file says as well.
    done = work.call("train", "config.yaml", "-o", "same-keys", *table, "data.train.path=rows.h5")
    check(done.returncode == 0 and "valid: the group /valid of rows.h5" in done.stderr, done.stderr)
    one = work.parameters("from-tables")
    for run in ("from-file", "same-keys"):
        two = work.parameters(run)
        check(one.keys() == two.keys() and all((one[n] == two[n]).all() for n in one), f"{run}: training from the converted file differs")


def windows_as_before(work):
    # Windows are cut when the table is converted, and again when the table of new rows is predicted: data.window stays.
    work.write("series.csv", "q,t,a,b,label,code\n" + "".join(f"q{i // 9},{-i},{i % 5},{i * i % 7},{'xy'[i // 3 % 2]},c{i}\n" for i in range(180)))
    work.write("series.yaml", SERIES)
    check(work.call("data", "convert", "series.yaml", "-o", "series.h5").returncode == 0, "convert of a series")
    for run, file in (("windows", "series.csv"), ("windows-file", "series.h5")):
        done = work.call("train", "series.yaml", "-o", run, "data.path=" + file)
        check(done.returncode == 0, done.stderr)
    one, two = work.parameters("windows"), work.parameters("windows-file")
    check(one.keys() == two.keys() and all((one[n] == two[n]).all() for n in one), "training from converted windows differs")
    one, two = (work.call("predict", run, "series.csv").stdout for run in ("windows", "windows-file"))
    check(one == two and one.count("\n") > 60, f"predictions differ:\n{one}\n{two}")
    work.refused(3, ["train", "series.yaml", "-o", "run", "data.path=series.h5", "data.window.hop=3"], "data.window", "series.h5")
    work.refused(3, ["train", "series.yaml", "-o", "run", "data.path=series.h5", "data.features=[a]"], "data.features names a", "b, a")
    work.refused(2, ["train", "series.yaml", "-o", "run", "data.test.path=series.h5"], "series.csv", "series.h5")


def arrays(work):
    # The keys that say how a table is read stay in the config of what was made of it.
    work.write("arrays.jsonl", "".join(f'{{"rows": [[{i % 5}.5, {i}], [1, {i % 3}]], "label": "{"ab"[i % 2]}"}}\n' for i in range(40)))
    work.write("arrays.yaml", "data: {path: arrays.jsonl, values: rows, split: {valid: 0.2}}\nmodel: {dim: 8, layers: 1, feed_forward: {dim: 8}}\n"
                              "train: {duration: 3, batch_size: 8}\nlog: {tensorboard: false}\n")
    done = work.call("data", "convert", "arrays.yaml", "-o", "arrays.h5")
    check(done.returncode == 0, f"convert of arrays: {done.stderr}")
    for run, file in (("arrays", "arrays.jsonl"), ("arrays-file", "arrays.h5")):
        done = work.call("train", "arrays.yaml", "-o", run, "data.path=" + file)
        check(done.returncode == 0, f"train from {file}: {done.stderr}")
    # The file that is read is not written over.
    with open(work.file("arrays.jsonl"), "rb") as source:
        before = source.read()
    for name in ("arrays.jsonl", "./arrays.jsonl"):
        work.refused(6, ["data", "convert", "arrays.yaml", "-o", name], "arrays.jsonl", "data.train", run="none")
    with open(work.file("arrays.jsonl"), "rb") as source:
        check(source.read() == before, "the source is spoiled")


def full_disk(work):
    # The file is written aside: a full disk leaves what was there.
    with open(work.file("small.h5"), "rb") as source:
        before = source.read()
    for size in (0, 5000, 100000):
        done = subprocess.run([BINARY, "data", "convert", "bytes.yaml", "-o", "small.h5", "data.train.path=small.tsv", 'data.valid.path=""', 'data.test.path=""'],
                              cwd=work.path, capture_output=True, text=True, check=False, timeout=60,
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size)))
        check(done.returncode == 6 and done.stderr.count("error[6]") == 1 and "HDF5-DIAG" not in done.stderr, f"{size} bytes: exit {done.returncode} {done.stderr}")
        with open(work.file("small.h5"), "rb") as source:
            check(source.read() == before, f"{size} bytes: the file of before is spoiled")
        check(not [f for f in os.listdir(work.path) if ".tmp-" in f], f"{size} bytes: left {os.listdir(work.path)}")
    done = work.call("data", "convert", "bytes.yaml", "-o", "no/such/dir.h5", "data.train.path=small.tsv", 'data.valid.path=""', 'data.test.path=""')
    check(done.returncode == 6 and "no/such" in done.stderr, f"exit {done.returncode} {done.stderr}")


with Workplace() as work:
    for part in (bounded_memory, same_as_before, windows_as_before, arrays, full_disk):
        part(work)
finish(60)
