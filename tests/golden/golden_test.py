# SPDX-License-Identifier: Apache-2.0
"""The golden files still open and say what they said: a checkpoint, a data file, a resolved config, a metrics log. A newer format is refused."""
import json
import os
import shutil
import subprocess
import sys
import tempfile

import h5py

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "end_to_end"))
from support import BINARY, check, finish  # noqa: E402

VOLATILE = {"time", "tokens_per_s", "samples_per_s", "peak_bytes"}


def run(*words, code=0):
    done = subprocess.run([BINARY, *words], cwd=work, capture_output=True, text=True, timeout=120, check=False)
    check(done.returncode == code, f"{words}: exit {done.returncode}, expected {code}\n{done.stderr}")
    return done


def rows(path):
    with open(path, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def near(got, wanted, tolerance, where):
    """Equal structure, words and whole numbers; other numbers within the tolerance."""
    if isinstance(wanted, dict):
        check(isinstance(got, dict) and got.keys() == wanted.keys(), f"{where}: {got} and {wanted}")
        for key, value in wanted.items():
            near(got[key], value, tolerance, f"{where}.{key}")
    elif isinstance(wanted, list):
        check(isinstance(got, list) and len(got) == len(wanted), f"{where}: {got} and {wanted}")
        for place, value in enumerate(wanted):
            near(got[place], value, tolerance, f"{where}[{place}]")
    elif isinstance(wanted, float):
        check(isinstance(got, (int, float)) and abs(got - wanted) <= tolerance, f"{where}: {got}, expected {wanted} +- {tolerance}")
    else:
        check(got == wanted, f"{where}: {got}, expected {wanted}")


def opens():
    """h5py reads the files without knowing of us. checkpoint.h5 is of before tensors had hashes."""
    for name, hashed in (("checkpoint.h5", False), ("checkpoint_hashed.h5", True)):
        with h5py.File(os.path.join(work, name)) as file:
            check(("xxh64" in file["model/head.output.weight"].attrs) == hashed and ("config_sha256" in file.attrs) == hashed, f"{name}: {dict(file.attrs)}")
    with h5py.File(os.path.join(work, "checkpoint.h5")) as file:
        check(file.attrs["encoding-version"] == "1", f"encoding-version {file.attrs['encoding-version']}")
        names = set(file["model"])
        check({"embedding.tokens.weight", "encoder.layers.1.attention.query.weight", "head.output.weight"} <= names, f"/model holds {sorted(names)}")
        check("resolved_yaml" in file["config"] and len(file["labels"]) == 10, "the checkpoint holds its config and labels")
    with h5py.File(os.path.join(work, "data.h5")) as file:
        check(file.attrs["encoding-type"] == "seq-dataset" and file.attrs["encoding-version"] == "1.0", dict(file.attrs))
        for part, samples in (("train", 48), ("valid", 12), ("test", 12)):
            check(len(file[part]["labels"]) == samples, f"{part}: {len(file[part]['labels'])} samples")


def answers():
    """The checkpoints evaluate and predict to what was written down when the first was made."""
    for name in ("checkpoint.h5", "checkpoint_hashed.h5"):
        got, wanted = json.loads(run("eval", name, "--split", "valid", "--json").stdout), rows_of_json("evaluation.json")
        del got["checkpoint"], wanted["checkpoint"]
        near(got, wanted, 1e-4, f"{name}: evaluation")
        printed = run("predict", name, "lines.txt", "--proba", "--format", "jsonl").stdout
        near([json.loads(line) for line in printed.splitlines()], rows(os.path.join(HERE, "predictions.jsonl")), 1e-4, f"{name}: predictions")
        run("inspect", name)
    run("data", "inspect", "data.h5")


def rows_of_json(name):
    with open(os.path.join(HERE, name), encoding="utf-8") as file:
        return json.load(file)


def trains_the_same():
    """The resolved config is a config, and its seed gives the same run: first parameters, order, dropout."""
    run("config", "check", "config.resolved.yaml")
    run("train", "config.resolved.yaml", "-o", "run")
    got, wanted = rows(os.path.join(work, "run", "metrics.jsonl")), rows(os.path.join(HERE, "metrics.jsonl"))
    for lines in (got, wanted):
        for line in lines:
            for key in VOLATILE:
                line.pop(key, None)
    near(got, wanted, 1e-3, "metrics")


def refuses_newer():
    with open(os.path.join(work, "checkpoint.h5"), "rb") as file:
        whole = file.read()
    first = b"tapeformer-checkpoint 1\n"
    check(whole.startswith(first), f"the checkpoint begins with {whole[:32]}")
    with open(os.path.join(work, "newer.h5"), "wb") as file:
        file.write(b"tapeformer-checkpoint 2\n" + whole[len(first):])
    for words in (("eval", "newer.h5"), ("predict", "newer.h5", "lines.txt")):
        done = run(*words, code=4)
        check("format 2" in done.stderr and "newer" in done.stderr and done.stdout == "", done.stderr)
    for version, code in (("2.0", 3), ("10.0", 3), ("", 3), ("1.7", 0)):
        shutil.copy(os.path.join(HERE, "data.h5"), os.path.join(work, "newer-data.h5"))
        with h5py.File(os.path.join(work, "newer-data.h5"), "r+") as file:
            file.attrs["encoding-version"] = version
        named = [f"data.{part}.path=newer-data.h5" for part in ("train", "valid", "test")]
        done = run("data", "stats", "config.resolved.yaml", *named, code=code)
        check(code == 0 or ("newer-data.h5" in done.stderr and f"'{version}'" in done.stderr and "1.x" in done.stderr and done.stdout == ""), done.stderr)
    with open(os.path.join(work, "config.resolved.yaml"), encoding="utf-8") as file:
        text = file.read()
    check(text.startswith("version: 1"), "the config says its version first")
    with open(os.path.join(work, "newer.yaml"), "w", encoding="utf-8") as file:
        file.write("version: 2" + text[len("version: 1"):])
    check("version" in run("config", "check", "newer.yaml", code=2).stderr, "the message names the key")


work = tempfile.mkdtemp(prefix="tapeformer-golden-")
try:
    for name in ("checkpoint.h5", "checkpoint_hashed.h5", "data.h5", "config.resolved.yaml", "lines.txt"):
        shutil.copy(os.path.join(HERE, name), work)
    opens()
    answers()
    trains_the_same()
    refuses_newer()
finally:
    shutil.rmtree(work, ignore_errors=True)
finish(300)
