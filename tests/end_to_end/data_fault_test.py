# SPDX-License-Identifier: Apache-2.0
"""Faults of data files on the command line: labels, tokens, numbers, encodings, line ends, sizes; refused with the place before a run begins, or read right."""
import json
import os
import re
import subprocess

import h5py
import numpy

from support import BINARY, CONFIG, Workplace, check, finish

ALONE = ['data.valid.path=""', 'data.test.path=""']
TABLE = ["data.text=text", "data.label=label", "data.train.text=text", "data.train.label=label", *ALONE, "train.duration=1"]
SERIES = CONFIG[:CONFIG.index("  train: {path")] + "  train: {path: series.csv}\n  sequence: sequence\n" + CONFIG[CONFIG.index("tokenizer:"):]


def refused(work, content, *needles, name="bad.csv", words=()):
    work.write(name, content)
    work.refused(3, ["train", "config.yaml", "-o", "run", f"data.train.path={name}", *TABLE, *words], name, *needles)


def labels(work):
    # G03, D-2, E09.
    for bad, says in (("10", "count from 1"), ("-4", "-4"), ("255", "255"), ("2.7", "2.7"), ("cat", "cat"), ("", "missing"), ("nan", "nan"), ("1e400", "1e400")):
        refused(work, f"text,label\na,1\nb,{bad}\n", "bad.csv:3", "row 2", says, words=["data.classes=10"])
    for good in ("text,label\na,0\nb,1\nc,3\n", "text,label\na,2.0\nb,1\n", "text,label\na,1\r\nb,2\r\n"):
        work.write("good.csv", good)
        work.train("good", "data.train.path=good.csv", *TABLE, "data.classes=10", "--overwrite")


def numbers(work):
    # G01, D-1.
    work.write("series.yaml", SERIES)
    for bad in ("nan", "inf", "-inf", "1e39", "", "1,5"):
        lines = ["sequence,a,b,label"] + [f"{i // 3},{i % 7},{i % 5},{i // 3 % 2}" for i in range(30)]
        cells = lines[17].split(",")
        cells[2] = f'"{bad}"' if "," in bad else bad
        lines[17] = ",".join(cells)
        work.write("series.csv", "\n".join(lines) + "\n")
        work.refused(3, ["train", "series.yaml", "-o", "run", "train.duration=1"], "series.csv:18", "row 17", "'b'")
        done = work.call("train", "series.yaml", "-o", "flag", "train.duration=1", "data.missing=zero_with_flag", "--overwrite")
        check(done.returncode == (3 if "," in bad else 0), f"'{bad}' with a flag: exit {done.returncode} {done.stderr}")


def long_tables(work):
    # Rows of a sequence stand in any order: train and predict put them in the order of their steps, and refuse a step that stands twice.
    work.write("steps.yaml", SERIES.replace("  sequence: sequence\n", "  sequence: sequence\n  step: t\n"))
    rows = [f"{i // 4},{i % 4},{i * 7 % 5},{i // 4 % 2}" for i in range(40)]

    def table(name, lines):
        work.write(name, "\n".join(["sequence,t,a,label", *lines]) + "\n")
    table("series.csv", rows)
    done = work.call("train", "steps.yaml", "-o", "ordered", "train.duration=2")
    check(done.returncode == 0, done.stderr)
    expected = work.call("predict", "ordered", "series.csv").stdout
    check(len(expected.splitlines()) == 11 and len(set(expected.splitlines()[1:])) == 10, expected)
    table("mixed.csv", [rows[4 * s + t] for t in (2, 0, 3, 1) for s in range(10)])
    done = work.call("predict", "ordered", "mixed.csv")
    check(done.returncode == 0 and done.stdout == expected, f"{expected}\n{done.stdout}{done.stderr}")
    for bad, says in (("1,3,0,1", "mixed.csv:42: row 41, column 't': step 3 of sequence '1' stands in row 8 too"), ("1,,0,1", "row 41, column 't': the step must be"),
                      (",4,0,1", "row 41, column 'sequence': the name of the sequence is missing")):
        table("mixed.csv", [*rows, bad])
        for words in (["predict", "ordered", "mixed.csv"], ["train", "steps.yaml", "-o", "run", "data.train.path=mixed.csv"]):
            work.refused(3, words, says)


def json_lines(work):
    # D-1, S-1: a number that no double holds; brackets without end. `data inspect` shows whatever train reads.
    for line, says in (('{"text": "b", "label": 1e400}', "larger than a double"), ('{"text": "b", "label": -1e400}', "larger than a double"),
                       ('{"text": "b", "label": ' + "[" * 200000 + "]" * 200000 + "}", "within each other"), ('{"text": "b", "label": }', "not valid JSON")):
        refused(work, '{"text": "a", "label": 1}\n' + line + "\n", "bad.jsonl:2", says, name="bad.jsonl")
        for verb in (["inspect"], ["data", "inspect"]):
            work.refused(3, [*verb, "bad.jsonl"], "bad.jsonl:2", says)
    rows = [{"sequence": [[i, None], [-i / 2, 3]], "label": i % 2, "note": {"by": f"n{i}"}, "words": ["a [", None][:1 + i % 2]} for i in range(20)]
    work.write("series.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    work.write("steps.yaml", SERIES.replace("series.csv", "series.jsonl").replace("  sequence: sequence\n", "  values: sequence\n"))
    done = work.call("train", "steps.yaml", "-o", "steps", "train.duration=1", "data.missing=zero_with_flag")
    check(done.returncode == 0, f"sequences in cells: exit {done.returncode} {done.stderr}")
    for verb in (["inspect"], ["data", "inspect"]):
        done = work.call(*verb, "series.jsonl", "--json")
        check(done.returncode == 0, f"{verb}: exit {done.returncode} {done.stderr}")
        found = json.loads(done.stdout)
        check({c["name"]: c["type"] for c in found["columns"]} == {"sequence": "array", "label": "integer", "note": "object", "words": "array"}, done.stdout)
        names = [c["name"] for c in found["columns"]]
        for shown, row in zip(found["first_rows"], rows):
            check({n: json.loads(cell) for n, cell in zip(names, shown)} == row, f"{shown} is shown for {row}")
        done = work.call(*verb, "series.jsonl")
        check(done.returncode == 0 and "20 rows, 4 columns" in done.stdout and "sequence: [[0,null],[0.0,3]]" in done.stdout, done.stdout + done.stderr)


def encodings(work):
    # `data inspect` has no config to declare an encoding in.
    work.write("latin.csv", "text,label\ncaf\u00e9,1\n".encode("latin-1"))
    work.refused(3, ["data", "inspect", "latin.csv"], "latin.csv", "latin-1")
    work.refused(3, ["data", "inspect", "latin.csv", "--encoding", "utf-8"], "latin.csv")
    done = work.call("data", "inspect", "latin.csv", "--encoding", "latin-1", "--json")
    check(done.returncode == 0 and json.loads(done.stdout)["first_rows"] == [["caf\u00e9", "1"]], done.stdout + done.stderr)
    with h5py.File(work.file("any.h5"), "w") as h5:
        h5["X"] = [1]
    work.refused(2, ["data", "inspect", "any.h5", "--encoding", "latin-1"], "--encoding latin-1", "any.h5")
    work.refused(2, ["data", "inspect", "latin.csv", "--encoding", "latin1"], "--encoding")


def tokens(work):
    # G04, D-3: ids outside the vocabulary, in a file of tokens.
    def write(value, dtype):
        with h5py.File(work.file("tokens.h5"), "w") as h5:
            part = h5.create_group("train")
            part["offsets"] = numpy.array([0, 2, 5])
            part["input_ids"] = numpy.array([1, 2, 3, value, 4], dtype)
            part["labels"] = numpy.array([0, 1])
            h5.attrs["vocab_size"] = 6

    write(5, "i8")
    done = work.call("train", "config.yaml", "-o", "fine", "data.train.path=tokens.h5", *ALONE, "train.duration=1")
    check(done.returncode == 0, f"good tokens: exit {done.returncode}\n{done.stderr}")
    for value, dtype in ((6, "i8"), (-26, "i8"), (1 << 31, "i8"), (1 << 63, "u8")):
        write(value, dtype)
        done = work.call("train", "config.yaml", "-o", "run", "data.train.path=tokens.h5", *ALONE, "train.duration=1")
        check(done.returncode == 3 and "tokens.h5" in done.stderr, f"token {value}: exit {done.returncode}\n{done.stderr}")
        check(not os.path.exists(work.file("run")), f"token {value}: left a run behind")


def text(work):
    # G05, D-7: four bytes a character, cut at every length.
    work.write("wide.csv", "text,label\n" + "\U0001f600\U0001f601\U0001f602,x\n" + "a\u00e9\u65e5,y\n")
    for most in range(1, 14):
        done = work.call("data", "stats", "config.yaml", "--samples", "2", "data.train.path=wide.csv", *TABLE, "tokenizer.type=byte", "data.truncate=right",
                         f"data.max_length={most}")
        check(done.returncode == (3 if most < 4 else 0), f"cut at {most}: exit {done.returncode} {done.stderr}")
        if most >= 4:
            sizes = [int(n) for n in re.findall(r"\((\d+) rows\)", done.stdout)]
            check(len(sizes) == 2 and max(sizes) <= most and sizes[0] == min(12, most // 4 * 4), f"cut at {most}: {done.stdout}")
            check("\ufffd" not in done.stdout and "\\x" not in done.stdout, f"cut at {most} inside a character: {done.stdout}")
    # G06, G08, G09: marks, quotes, line ends give the bytes of the plain file.
    plain = "text,label\na b,0\n\"c, d\",1\ne f,0\n"
    work.write("plain.csv", plain)
    work.train("plain", "data.train.path=plain.csv", *TABLE)
    for name, content in (("mark", b"\xef\xbb\xbf" + plain.encode()), ("crlf", plain.replace("\n", "\r\n").encode()), ("mixed", plain.replace("\n", "\r\n", 2).encode()),
                          ("open", plain.rstrip("\n").encode()), ("quoted", plain.replace("a b", '"a b"').encode())):
        work.write(name + ".csv", content)
        work.train(name, f"data.train.path={name}.csv", *TABLE)
        check(work.same("plain", name) is None, f"{name}: {work.same('plain', name)}")
    refused(work, plain.encode("utf-16"), "bad.csv")
    refused(work, "text,label\na,0\nb\n", "bad.csv:3")
    refused(work, 'text,label\na,0\n"b,1\n', "bad.csv:3")
    refused(work, "text,label\na\0b,0\n", "bad.csv")
    work.write("lines.csv", 'text,label\n"line1\nline2",0\n"say ""x""",1\n')
    done = work.train("lines", "data.train.path=lines.csv", *TABLE)
    check("train: 2 samples" in done.stderr, f"a line break in quotes: {done.stderr}")


def repeated(work):
    # G11: vocabulary, labels and split in three processes, without address randomisation, on 1 and 8 threads.
    words = ["train", "config.yaml", "data.train.path=train.tsv", *ALONE, "data.split.valid=0.2", "train.duration=4"]
    for name, before, extra in (("one", [], []), ("two", ["setarch", "-R"], ["device.threads=1"]), ("three", [], ["device.threads=8"])):
        done = subprocess.run([*before, BINARY, *words, "-o", name, *extra], cwd=work.path, capture_output=True, text=True, check=False, timeout=60)
        check(done.returncode == 0, f"{name}: exit {done.returncode} {done.stderr}")
        check(work.same("one", name) is None, f"{name}: {work.same('one', name)}")


def sizes(work):
    # D-4: every small number of samples with every small batch, both norms.
    header, *rows = work.read("train.tsv").splitlines()
    rows = [r for r in rows if len(r.split()) > 3]
    for count in range(10):
        for batch in range(1, 5):
            work.write("few.tsv", "\n".join([header, *rows[:count]]) + "\n")
            norm = ("layer_norm", "batch_norm")[(count + batch) % 2]
            words = ["train", "config.yaml", "-o", f"few-{count}-{batch}", "data.train.path=few.tsv", "data.valid.path=few.tsv", 'data.test.path=""',
                     f"train.batch_size={batch}", "train.duration=2ep", f"model.norm.type={norm}", "model.layers=1", "log.tensorboard=false"]
            done = work.call(*words, timeout=60)
            check(done.returncode == (0 if count else 3), f"{count} samples in batches of {batch}, {norm}: exit {done.returncode}\n{done.stderr}")
            if count:
                steps = work.metrics(f"few-{count}-{batch}")[-1]["step"]
                check(steps == 2 * -(-count // batch), f"{count} samples in batches of {batch}: {steps} updates")


def lacking_keys(work):
    # A key that a row of JSON lacks is a missing cell where a cell may be missing, and no empty text.
    work.write("rows.jsonl", '{"s": "p", "a": 1, "b": 2, "label": "x"}\n{"s": "p", "a": 3}\n{"s": "q", "a": 5, "b": 6, "label": "y"}\n')
    done = work.call("data", "inspect", "rows.jsonl", "--json")
    check(done.returncode == 0 and [c["missing"] for c in json.loads(done.stdout)["columns"]] == [0, 1, 1, 0], done.stdout + done.stderr)
    table = ["version: 1", "data: {path: rows.jsonl, features: [a, b], sequence: s}", "model: {dim: 8, layers: 1, attention: {heads: 1}}", "train: {duration: 1}"]
    work.write("rows.yaml", "\n".join(table) + "\n")
    work.refused(3, ["train", "rows.yaml", "-o", "run"], "rows.jsonl:2", "'b'", "the file has 1 such cell", "zero_with_flag")


def empty_wishes(work):
    # What a config asks for and the data cannot give is said, and the run goes on.
    work.write("few.csv", "text,label\na,1\nb,1\nc,1\n")
    done = work.train("few", "data.train.path=few.csv", *TABLE, "data.split.test=0.1", "schedule.warmup=9", "--overwrite")
    for needle in ("data.split.test is 0.1, which leaves no sample", "one label, '1'", "schedule.warmup is 9, but the run has 1 updates"):
        check(f"warning: {needle}" in done.stderr or f"warning: the training part has {needle}" in done.stderr, f"'{needle}' is not said: {done.stderr}")
    said = work.train("wanting-nothing", "schedule.warmup=12").stderr
    check("tell apart" not in said and "never reaches" not in said and "leaves no sample" not in said, "a warning of a run that has what it asks for")


with Workplace() as work:
    for part in (labels, numbers, long_tables, json_lines, encodings, tokens, text, repeated, sizes, lacking_keys, empty_wishes):
        part(work)
finish(375)
