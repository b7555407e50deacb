# SPDX-License-Identifier: Apache-2.0
"""What the command says: nothing that a file or a name holds drives the terminal, paths are said in full, help names what it wants."""
import json
import os
import re
import subprocess

import h5py
import numpy

from support import BINARY, CONFIG, Workplace, check, finish

HOSTILE = "\x1b[2J\r\x07\x7f\u009b31m"  # clears a screen, rewrites the line, rings, deletes, colours
SERIES = CONFIG[:CONFIG.index("  train: {path")] + "  train: {path: train.jsonl}\n  values: values\n  window: {length: 4, hop: 3}\n" + CONFIG[CONFIG.index("tokenizer:"):]


def harmless(text, where):
    raw = [c for c in text if (ord(c) < 0x20 and c not in "\n\t") or 0x7F <= ord(c) < 0xA0]
    check(not raw, f"{where}: control characters {raw!r} in {text!r}")


def control_characters(work):
    # S-5: in names of files and directories, in keys and values of a config, in columns, labels and cells, in names inside HDF5.
    for words in (["train", HOSTILE, "-o", "run"], ["train", "config.yaml", "-o", "config.yaml/" + HOSTILE], ["train", "--resume", HOSTILE],
                  ["train", "config.yaml", "-o", "run", f"data.train.path={HOSTILE}.csv"], ["train", "config.yaml", "-o", "run", f"{HOSTILE}=1"],
                  ["train", "config.yaml", "-o", "run", f"model.{HOSTILE}=1"], ["train", "config.yaml", "-o", "run", f"optim.type={HOSTILE}"],
                  ["train", "config.yaml", "-o", "run", f"data.train.text={HOSTILE}"], ["train", "config.yaml", "-o", "run", "--init-from", HOSTILE],
                  ["train", "config.yaml", "-o", "run", "--max-time", HOSTILE], ["eval", HOSTILE], ["predict", HOSTILE], ["inspect", HOSTILE],
                  ["data", "inspect", HOSTILE], ["config", "explain", HOSTILE], ["config", "check", HOSTILE], [HOSTILE], ["train", "--" + HOSTILE],
                  ["data", "make", HOSTILE], ["data", "make", "listops", "-o", "config.yaml/" + HOSTILE], ["config", "show", "config.yaml", f"run.name={HOSTILE}"]):
        done = work.call(*words)
        check(done.returncode != 1 and (done.returncode != 0 or words[0] == "config"), f"{words}: exit {done.returncode} {done.stderr}")
        harmless(done.stderr + done.stdout, words)
    in_yaml = HOSTILE.encode("unicode_escape").decode()
    for text in (f"version: 1\nmodel: {{\"{in_yaml}\": 1}}\n", f"version: 1\n{HOSTILE}: 1\n", CONFIG.replace("tiny", "\"\\e[2J\\a\"").replace("dim: 16", "dim: \"\\e[2J\"")):
        work.write("hostile.yaml", text)
        done = work.call("config", "check", "hostile.yaml")
        check(done.returncode == 2, f"exit {done.returncode}")
        harmless(done.stderr + done.stdout, text)
    cell = HOSTILE.replace("\r", "")
    work.write("hostile.csv", f"Source,Target{cell}\n{cell},{cell}\n")
    for extra in ([], [f"data.train.label=Target{cell}", "data.classes=3"], [f"data.train.label=Target{cell}", "data.valid.path=hostile.csv", f"data.valid.label=Target{cell}"]):
        done = work.call("train", "config.yaml", "-o", f"run-{len(extra)}", "data.train.path=hostile.csv", "train.duration=1", *extra)
        check(done.returncode in (2, 3), f"{extra}: exit {done.returncode} {done.stderr}")
        harmless(done.stderr, extra)
    with h5py.File(work.file("hostile.h5"), "w") as file:
        file[cell] = numpy.zeros(3)
        file.attrs[cell] = cell
    for words in (["inspect", "hostile.h5"], ["data", "inspect", "hostile.h5"], ["inspect", "hostile.h5", "--json"], ["train", "config.yaml", "-o", "run", "data.train.path=hostile.h5"]):
        done = work.call(*words)
        harmless(done.stderr + done.stdout, words)
    # A whole run under such names: its log has none either.
    os.makedirs(work.file(HOSTILE))
    done = work.call("train", "config.yaml", "-o", HOSTILE + "/run")
    check(done.returncode == 0, done.stderr)
    harmless(done.stderr + work.read(HOSTILE, "run", "log.txt"), "a run")
    again = re.search(r"evaluate: tapeformer eval (.*)", done.stderr)[1]
    check(again.startswith("'"), f"the command to go on with is quoted: {again}")


def told_apart(work):
    # A report of the config is one by what it is, not by how its text ends.
    place = work.file("nothing was started.")
    os.makedirs(place)
    work.write("nothing was started./config.yaml", CONFIG)
    done = subprocess.run([BINARY, "train", "config.yaml", "-o", "run"], cwd=place, capture_output=True, text=True, check=False, timeout=60)
    check(done.returncode == 3 and done.stderr.startswith("error[3]: train.tsv: no such file"), f"exit {done.returncode} {done.stderr}")
    # A relative path that is not there: where it was looked for.
    check(f"the working directory, which is {os.path.realpath(place)}" in done.stderr, done.stderr)
    done = work.call("train", "config.yaml", "-o", "run", "data.valid.path=/no/such.tsv")
    check(done.returncode == 3 and "/no/such.tsv: no such file" in done.stderr and "working directory" not in done.stderr, done.stderr)
    done = work.call("eval", "trained", "data.test.path=elsewhere.tsv")
    check(done.returncode == 3 and os.path.realpath(work.path) in done.stderr, done.stderr)


def corrupt_files(work):
    # The library's own words stay out: a person learns what is wrong with the file.
    check(work.call("data", "convert", "config.yaml", "-o", "whole.h5").returncode == 0, "convert")
    with open(work.file("whole.h5"), "rb") as source:
        whole = source.read()
    for name, content in (("cut.h5", whole[: len(whole) // 2]), ("zeros.h5", whole[:200] + bytes(len(whole) - 200)), ("empty.h5", b""), ("text.h5", b"no HDF5\n" * 100),
                          ("flipped.h5", bytes(b ^ 0xFF if 48 <= i < 300 else b for i, b in enumerate(whole)))):
        work.write(name, content)
        done = work.call("train", "config.yaml", "-o", "run", *(f"data.{part}.path={name}" for part in ("train", "valid", "test")))
        check(done.returncode == 3 and name in done.stderr, f"{name}: exit {done.returncode} {done.stderr}")
        check(len(done.stderr) < 300 and done.stderr.count("\n") == 1, f"{name}: {done.stderr}")
        for noise in ("HDF5-DIAG", "H5F", "H5D", "errno", ".c line", "major", "minor"):
            check(noise not in done.stderr, f"{name}: '{noise}' in {done.stderr}")
    # A stray label of HDF5 makes no two billion classes.
    for label, task in ((2**31 - 1, "classification"), (2**31, "classification"), (2**31 - 1, "tagging")):
        with h5py.File(work.file("labels.h5"), "w") as file:
            file["train/input_ids"] = numpy.arange(8, dtype="i4")
            file["train/offsets"] = numpy.arange(0, 9, 2, dtype="i8")
            file["train/labels"] = numpy.array([0, 1, 1, label] * (2 if task == "tagging" else 1), dtype="i8")
        command = f"ulimit -v 2000000; exec '{BINARY}' train config.yaml -o run data.train.path=labels.h5 'data.valid.path=\"\"' 'data.test.path=\"\"' data.task={task}"
        done = subprocess.run(["bash", "-c", command], cwd=work.path, capture_output=True, text=True, check=False, timeout=60)
        check(done.returncode == 3 and "labels.h5" in done.stderr and (str(label) in done.stderr or "int32" in done.stderr), f"label {label}: exit {done.returncode} {done.stderr}")


def help_texts(work):
    verbs = {"train": "CONFIG", "eval": "RUN", "predict": "RUN", "inspect": "FILE", "config check": "CONFIG", "config show": "CONFIG", "config explain": "KEY",
             "data make": "GENERATOR", "compare": "CONFIG", "bench step": "CONFIG",
             "bench predict": "CONFIG", "bench attention": "OVERRIDES", "attn": "MODEL", "data convert": "CONFIG", "data inspect": "FILE", "data stats": "CONFIG", "model summary": "CONFIG"}
    for verb, name in verbs.items():
        done = work.call(*verb.split(), "--help")
        check(done.returncode == 0 and re.search(rf"^Usage: .*\b{name}\b", done.stdout, re.M), f"{verb}: {done.stdout[:200]}")
        check(not re.search(r"\b(words|run|file|model|key|generator|overrides) (TEXT|\.\.\.)", done.stdout), f"{verb}: {done.stdout}")
    for words in (["--version"], ["--help"], ["train", "--help"], ["data", "make", "--help"]):
        done = subprocess.run(["bash", "-c", f"'{BINARY}' {' '.join(words)} > /dev/full"], capture_output=True, text=True, check=False, timeout=60)
        check(done.returncode == 6 and "standard output" in done.stderr, f"{words} to a full disk: exit {done.returncode} {done.stderr}")
        check(work.call(*words).stdout.count("\n") > 2, f"{words}: nothing is said")
    # What is one character long is as near to any other: no suggestion.
    work.write("single.csv", "a,b\nx,1\n")
    for words in (["train", "config.yaml", "-o", "run", "data.train.path=single.csv", "data.train.text=c"], ["train", "config.yaml", "-o", "run", "x.y=1"], ["t"]):
        done = work.call(*words)
        check(done.returncode in (2, 3) and "did you mean" not in done.stderr, f"{words}: {done.stderr}")
    done = work.call("trian")
    check("did you mean 'train'?" in done.stderr, done.stderr)


def variables(work):
    # Only what is read is named: who set another finds out that it does nothing.
    values = {"COLUMNS": "77", "TERM": "dumb", "SOURCE_DATE_EPOCH": "5", "ONEDNN_MAX_CPU_ISA": "DEFAULT", "ONEDNN_VERBOSE": "0", "HDF5_USE_FILE_LOCKING": "TRUE"}
    others = {"TAPEFORMER_THREADS": "3", "TAPEFORMER_DEVICE": "cpu", "OMP_NUM_THREADS": "3", "NO_COLOR": "1", "TMPDIR": "/tmp", "HOME": "/home/someone"}
    done = work.call("env", env={**values, **others})
    found = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
    check(done.returncode == 0 and found == values, f"{found} instead of {values}")


def short_lines(work):
    # A sequence that is shorter than a window has no prediction, and that is said.
    rows = [[(i * 7 + j) % 5 / 4 for j in range(2)] for i in range(9)]
    work.write("train.jsonl", "".join(json.dumps({"values": rows, "label": str(i % 2)}) + "\n" for i in range(8)))
    work.write("series.yaml", SERIES)
    done = work.call("train", "series.yaml", "-o", "windows", "train.duration=2")
    check(done.returncode == 0, done.stderr)
    lines = [rows[:3], rows, rows[:2], rows[:4]]
    done = work.call("predict", "windows", "-", "--input", "jsonl", stdin="".join(json.dumps({"values": v}) + "\n" for v in lines))
    check(done.returncode == 0 and len(done.stdout.splitlines()) == 1 + 2 + 1, f"{done.stdout} {done.stderr}")
    check(done.stderr.count("fewer than a window of 4") == 1 and "row 1" in done.stderr and "3 rows" in done.stderr, done.stderr)
    check("7 rows at the ends fill no whole window" in done.stderr, done.stderr)


with Workplace() as work:
    work.train("trained")
    for part in (control_characters, told_apart, corrupt_files, help_texts, variables, short_lines):
        part(work)
finish(166)
