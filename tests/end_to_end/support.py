# SPDX-License-Identifier: Apache-2.0
"""Runs the command line on small real files in a directory of its own."""
import json
import os
import shutil
import subprocess
import sys
import tempfile

import h5py
import numpy
import xxhash

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BINARY = os.environ["TAPEFORMER"]
sys.path.insert(0, os.path.join(ROOT, "tools", "checks"))
import same_run  # noqa: E402

CONFIG = """\
version: 1
run: {name: tiny, seed: 7}
data:
  task: classification
  train: {path: train.tsv, text: Source, label: Target}
  valid: {path: valid.tsv, text: Source, label: Target}
  test: {path: test.tsv, text: Source, label: Target}
  max_length: 64
tokenizer: {type: whitespace}
model:
  dim: 16
  layers: 2
  dropout: 0.3
  feed_forward: {dim: 24, dropout: 0.3}
  attention: {type: full, heads: 2, local: {left: 4, right: 4}}
optim: {type: adamw, lr: 3.0e-3, weight_decay: 0.01, clip_norm: 1.0}
schedule: {type: cosine, warmup: 3}
train: {duration: 12, batch_size: 12}
eval: {every: 4}
checkpoint: {every: 4, keep_last: -1}
log: {every: 1}
device: {threads: 2}
"""


class Workplace:
    """A temporary directory with a config and three small TSV files."""

    def __init__(self):
        self.path = tempfile.mkdtemp(prefix="tapeformer-test-")
        with open(os.path.join(self.path, "config.yaml"), "w", encoding="utf-8") as out:
            out.write(CONFIG)
        done = self.call("data", "make", "listops", "-o", ".", "seed=1", "min_arguments=2", "max_arguments=4", "max_depth=3",
                         "min_length=0", "max_length=60", "train=64", "valid=16", "test=16")
        check(done.returncode == 0, f"data make: {done.stderr}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.path, ignore_errors=True)

    def file(self, *names):
        return os.path.join(self.path, *names)

    def write(self, name, content):
        with open(self.file(name), "wb") as out:
            out.write(content if isinstance(content, bytes) else content.encode())

    def read(self, *names):
        with open(self.file(*names), encoding="utf-8") as source:
            return source.read()

    def call(self, *words, stdin=None, env=None, timeout=120):
        return subprocess.run([BINARY, *words], cwd=self.path, input=stdin, capture_output=True, text=True, timeout=timeout,
                              env={**os.environ, **(env or {})}, check=False)

    def start(self, *words):
        return subprocess.Popen([BINARY, *words], cwd=self.path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def train(self, run, *overrides, code=0):
        done = self.call("train", "config.yaml", "-o", run, *overrides)
        check(done.returncode == code, f"train {run} {overrides}: exit {done.returncode}\n{done.stderr}")
        return done

    def resume(self, run, *overrides, code=0):
        done = self.call("train", "--resume", run, *overrides)
        check(done.returncode == code, f"resume {run} {overrides}: exit {done.returncode}\n{done.stderr}")
        return done

    def refused(self, code, words, *needles, run="run"):
        """A clean refusal: the exit code, one message that says the needles, nothing on stdout, no run left behind."""
        done = self.call(*words)
        check(done.returncode == code, f"{words}: exit {done.returncode}, expected {code}\n{done.stderr}")
        check(done.stdout == "", f"{words}: wrote to stdout: {done.stdout}")
        for needle in needles:
            check(needle in done.stderr, f"{words}: '{needle}' is not in the message:\n{done.stderr}")
        check(not os.path.exists(self.file(run)), f"{words}: left {run} behind")

    def checkpoints(self, run):
        return sorted(f for f in os.listdir(self.file(run, "checkpoints")) if f.startswith("step-"))

    def parameters(self, run):
        """Name -> values of the parameters in the last checkpoint."""
        with h5py.File(self.file(run, "checkpoints", self.checkpoints(run)[-1]), "r") as h5:
            return {name: h5["model"][name][()] for name in h5["model"]}

    def same(self, a, b):
        return same_run.difference(self.file(a), self.file(b))

    def metrics(self, run):
        with open(self.file(run, "metrics.jsonl"), encoding="utf-8") as lines:
            return [json.loads(line) for line in lines]

    def copy_as_killed(self, run, step, to):
        """A copy of a run as kill -9 right after the checkpoint of `step` would leave it: later logs are there, later checkpoints are not."""
        shutil.copytree(self.file(run), self.file(to), symlinks=True)
        folder = self.file(to, "checkpoints")
        for name in os.listdir(folder):
            if name.startswith("step-") and int(name[5:-3]) > step:
                os.remove(os.path.join(folder, name))


def edit_checkpoint(file, change):
    """Lets change(h5) edit a checkpoint and makes the file whole again, as a program that knows the format would."""
    with open(file, "rb") as source:
        body = source.read()[512:]
    with open(file + ".body", "wb") as out:
        out.write(body)
    with h5py.File(file + ".body", "r+") as h5:
        change(h5)
    with open(file + ".body", "rb") as source:
        body = source.read()
    os.remove(file + ".body")
    block = f"tapeformer-checkpoint 1\nlength {512 + len(body)}\nxxh3-128 {xxhash.xxh3_128(body).hexdigest()}\n".ljust(511) + "\n"
    with open(file, "wb") as out:
        out.write(block.encode() + body)


MEASURE = """
import os, subprocess, sys
process = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)
_, status, usage = os.wait4(process.pid, 0)
print(os.waitstatus_to_exitcode(status), usage.ru_maxrss * 1024)
"""


def peak_memory(work, *words):
    """Runs the command: its exit code, its messages and the most memory it held, in bytes. A small process starts it, since what counts for a
    child begins with the memory of the process that started it."""
    done = subprocess.run([sys.executable, "-S", "-c", MEASURE, BINARY, "--threads", "1", *words], cwd=work.path, capture_output=True, text=True, check=False,
                          timeout=300)
    code, peak = done.stdout.split()
    return int(code), done.stderr, int(peak)


def hash_of(dataset):
    return numpy.uint64(xxhash.xxh64(dataset[()].tobytes()).intdigest())


checks_made = 0


def check(holds, message):
    global checks_made
    checks_made += 1
    if not holds:
        print("FAILED:", message)
        sys.exit(1)


def finish(least):
    """A test that checked nothing has not passed."""
    check(checks_made >= least, f"only {checks_made} checks were made, at least {least} were expected")
    print(f"{checks_made} checks passed")
