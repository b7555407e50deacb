# SPDX-License-Identifier: Apache-2.0
"""Rows of the fault tables that no other test names: each function bears the number of its row."""
import json
import os
import shutil
import signal
import subprocess
import time

import h5py
import numpy

from support import BINARY, ROOT, Workplace, check, edit_checkpoint, finish, peak_memory

SHIMS = os.environ["TAPEFORMER_SHIMS"]
ALONE = ['data.valid.path=""', 'data.test.path=""']
GOLDEN = os.path.join(ROOT, "tests", "golden")


def call(work, *words, shim=None, **variables):
    env = {**os.environ, **variables}
    if shim:
        env["LD_PRELOAD"] = os.path.join(SHIMS, f"libtapeformer_shim_{shim}.so")
    return subprocess.run([BINARY, *words], cwd=work.path, capture_output=True, text=True, check=False, timeout=120, env=env)


def b08_k9_older_formats(work):
    # Files of a build that wrote less: they load by a rule and go on. What a later build adds beside the model does not disturb.
    with open(os.path.join(GOLDEN, "config.resolved.yaml"), encoding="utf-8") as source:
        check('duration: ["24"]' in source.read(), "the golden run has 24 updates")
    shutil.copy(os.path.join(GOLDEN, "data.h5"), work.path)
    for name in ("checkpoint.h5", "checkpoint_hashed.h5"):
        run = work.file("golden-" + name[:-3])
        os.makedirs(os.path.join(run, "checkpoints"))
        file = os.path.join(run, "checkpoints", "step-00000024.h5")
        shutil.copy(os.path.join(GOLDEN, name), file)
        with h5py.File(file, "r") as h5:
            check(("xxh64" in h5["model/head.output.weight"].attrs) == (name == "checkpoint_hashed.h5"), f"{name}: hashes")

        def add(h5):
            h5.attrs["from_later"] = "x"
            h5["control"].attrs["from_later"] = 3
            h5["later/tensor"] = [1.0, 2.0]

        edit_checkpoint(file, add)
        done = work.call("eval", run, "--split", "valid", "--json")
        check(done.returncode == 0, f"{name}: {done.stderr}")
        done = work.call("train", "--resume", run, "train.duration=30")
        check(done.returncode == 0 and json.loads(work.read(run, "run.json"))["step"] == 30, f"{name}: exit {done.returncode} {done.stderr}")
    check(work.same("golden-checkpoint", "golden-checkpoint_hashed") is None, f"{work.same('golden-checkpoint', 'golden-checkpoint_hashed')}")
    # A layer with one more buffer than the file has is no guess: it is named.
    file = work.file("golden-checkpoint_hashed", "checkpoints", work.checkpoints("golden-checkpoint_hashed")[-1])
    edit_checkpoint(file, lambda h5: h5.__delitem__("buffers/encoder.layers.1.attention_norm.running_var"))
    done = work.call("eval", file)
    check(done.returncode == 4 and "running_var" in done.stderr, f"a missing buffer: exit {done.returncode} {done.stderr}")


def c13_best_and_patience(work):
    # The best value, its file and the patience go on as if nothing had happened, by an oracle over the logged metric.
    words = ["eval.every=1", "checkpoint.every=1", "checkpoint.keep_last=-1", "train.duration=20", "train.early_stopping.patience=6",
             "train.early_stopping.metric=valid/accuracy", "optim.lr=3e-2"]
    work.train("patient", *words)
    values = {m["step"]: m["valid/accuracy"] for m in work.metrics("patient") if m["split"] == "valid"}
    best, best_step, wait = -1, -1, 0
    waited = 0
    for step in sorted(values):
        if values[step] > best:
            best, best_step, wait = values[step], step, 0
        else:
            wait += 1
            waited = max(waited, wait)
        with h5py.File(work.file("patient", "checkpoints", f"step-{step:08}.h5"), "r") as h5:
            control = dict(h5["control"].attrs)
        check((control["best_value"], control["best_step"], control["stopping_wait"]) == (best, best_step, wait),
              f"step {step}: best {control['best_value']} of step {control['best_step']}, waited {control['stopping_wait']}; {best}, {best_step}, {wait} by the log")
    check(waited >= 2, f"the metric never got worse: {values}")
    last = max(values)
    check(bool(control["stopped_early"]) == (wait >= 6) and (wait >= 6 or last == 20), f"stopped at {last} after {wait} without improvement")
    stop = next(s for s in sorted(values) if s > best_step or s == last) if best_step < last else last - 1
    work.copy_as_killed("patient", stop, "patient-resumed")
    file = work.file("patient-resumed", "checkpoints", f"step-{best_step:08}.h5")
    before = (os.stat(file).st_mtime_ns, os.stat(file).st_ino)
    work.resume("patient-resumed")
    check(work.same("patient", "patient-resumed") is None, f"{work.same('patient', 'patient-resumed')}")
    check((os.stat(file).st_mtime_ns, os.stat(file).st_ino) == before, "the best file was written again")


def d9_hostile_hdf5(work):
    # Exit 3, and nothing is allocated for what a file only claims: 256 MiB are enough for the whole command.
    tokens = numpy.arange(12, dtype="i4").reshape(4, 3) % 5
    labels = numpy.arange(4) % 2

    def base(file):
        file["train/offsets"] = numpy.arange(0, 13, 3)
        file["train/labels"] = labels

    def missing_filter(file):
        base(file)
        space = h5py.h5s.create_simple((12,))
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_chunk((12,))
        plist.set_filter(32001, h5py.h5z.FLAG_OPTIONAL, (1, 2))
        h5py.h5d.create(file["train"].id, b"input_ids", h5py.h5t.NATIVE_INT32, space, plist)

    def huge(file):
        base(file)
        file.create_dataset("train/input_ids", (1 << 60,), "i4", chunks=(1024,))

    def huge_offsets(file):
        file["train/labels"] = labels
        file["train/input_ids"] = tokens.ravel()
        file.create_dataset("train/offsets", (1 << 50,), "i8", chunks=(1024,))

    def huge_labels(file):
        file["train/offsets"] = numpy.arange(0, 13, 3)
        file["train/input_ids"] = tokens.ravel()
        file.create_dataset("train/labels", (1 << 55,), "i4", chunks=(1024,))

    def claimed_length(file):
        file["train/labels"] = labels
        file["train/input_ids"] = tokens.ravel()
        file["train/offsets"] = [0, 3, 6, 9, 1 << 60]

    def external_link(file):
        base(file)
        file["train/input_ids"] = h5py.ExternalLink("/etc/passwd", "/x")

    def external_storage(file):
        base(file)
        file.create_dataset("train/input_ids", (12,), "i4", external=[("/etc/passwd", 0, 48)])

    def virtual(file):
        base(file)
        layout = h5py.VirtualLayout((12,), "i4")
        layout[:] = h5py.VirtualSource("other.h5", "x", (12,))
        file.create_virtual_dataset("train/input_ids", layout)

    for make in (missing_filter, huge, huge_offsets, huge_labels, claimed_length, external_link, external_storage, virtual):
        with h5py.File(work.file("hostile.h5"), "w") as file:
            make(file)
        code, messages, peak = peak_memory(work, "train", "config.yaml", "-o", "run", "data.train.path=hostile.h5", *ALONE)
        check(code == 3 and "hostile.h5" in messages, f"{make.__name__}: exit {code} {messages}")
        check(peak < 256 << 20, f"{make.__name__}: {peak >> 20} MiB")
        check(not os.path.exists(work.file("run")), f"{make.__name__}: left a run")
    # Cut files, and one whose writer is still there or died: its flag is set.
    for libver, flag in (("earliest", False), (("v110", "v110"), True)):
        with h5py.File(work.file("hostile.h5"), "w", libver=libver) as file:
            base(file)
            file["train/input_ids"] = tokens.ravel()
        with open(work.file("hostile.h5"), "rb") as source:
            whole = bytearray(source.read())
        if flag:
            check(whole[8] == 3, f"superblock version {whole[8]}")
            whole[11] |= 1  # open for writing; the checksum of the superblock is wrong then, as after a torn write
            work.write("hostile.h5", bytes(whole))
        else:
            work.write("hostile.h5", bytes(whole[:-1]))
        work.refused(3, ["train", "config.yaml", "-o", "run", "data.train.path=hostile.h5", 'data.valid.path=""', 'data.test.path=""'], "hostile.h5")


def s3_sparse_checkpoint(work):
    # A checkpoint that is nothing but a length, on a disk that it does not fill.
    size = 1 << 30
    work.write("sparse.h5", f"tapeformer-checkpoint 1\nlength {size}\nxxh3-128 {'0' * 32}\n".ljust(511) + "\n")
    os.truncate(work.file("sparse.h5"), size)
    code, messages, peak = peak_memory(work, "eval", "sparse.h5")
    check(code == 4 and "sparse.h5" in messages and "XXH3-128" in messages, f"sparse: exit {code} {messages}")
    check(peak < 256 << 20, f"sparse: {peak >> 20} MiB")


def d10_changing_data(work):
    # A file that is written to in place ends the run with its name; one that is removed or replaced under its name is still the old one.
    check(work.call("data", "convert", "config.yaml", "-o", "data.h5").returncode == 0, "convert")
    with open(work.file("data.h5"), "rb") as source:
        whole = source.read()
    words = [f"data.{part}.path=data.h5" for part in ("train", "valid", "test")]
    words += ["train.duration=1500", "checkpoint.every=500", "eval.every=500", "log.every=500", "log.tensorboard=false", "device.threads=1", "model.layers=1"]
    work.train("steady", *words)

    def cut():
        os.truncate(work.file("data.h5"), len(whole) // 2)

    def overwritten():
        with open(work.file("data.h5"), "r+b") as file:
            file.write(whole)

    def removed():
        os.remove(work.file("data.h5"))

    def replaced():
        work.write("other.h5", whole[:100])
        os.rename(work.file("other.h5"), work.file("data.h5"))

    for change, code in ((cut, 3), (overwritten, 3), (removed, 0), (replaced, 0)):
        work.write("data.h5", whole)
        run = "while-" + change.__name__
        process = work.start("train", "config.yaml", "-o", run, *words)
        while process.poll() is None and not os.path.exists(work.file(run, "run.json")):
            time.sleep(0.002)
        time.sleep(0.03)
        check(process.poll() is None, f"{run}: ended too early: {process.returncode}")
        change()
        _, messages = process.communicate(timeout=120)
        check(process.returncode == code, f"{run}: exit {process.returncode} {messages}")
        if code:
            check("data.h5" in messages.strip().splitlines()[-1], messages)
            for name in work.checkpoints(run):
                check(work.call("inspect", work.file(run, "checkpoints", name)).returncode == 0, f"{run}: {name} is spoiled")
        else:
            check(work.same("steady", run) is None, f"{run}: {work.same('steady', run)}")
    work.write("data.h5", whole)


def h03_no_locks(work):
    # flock fails as some network file systems answer. Data is read without one; a run goes on and says so; a lock that is taken is refused.
    for name, number in (("ENOLCK", 37), ("ENOTSUP", 95), ("EINVAL", 22)):
        done = call(work, "train", "config.yaml", "-o", f"unlocked-{name}", "data.train.path=data.h5", "data.valid.path=data.h5", "data.test.path=data.h5",
                    shim="no_locks", SHIM_ERRNO=str(number))
        check(done.returncode == 0 and "no locks" in done.stderr, f"{name}: exit {done.returncode} {done.stderr}")
        done = call(work, "eval", f"unlocked-{name}", shim="no_locks", SHIM_ERRNO=str(number))
        check(done.returncode == 0, f"eval, {name}: exit {done.returncode} {done.stderr}")
    done = call(work, "train", "config.yaml", "-o", "run", shim="no_locks", SHIM_ERRNO="11")
    check(done.returncode == 6 and "locked by another run" in done.stderr, f"EAGAIN: exit {done.returncode} {done.stderr}")
    shutil.rmtree(work.file("run"), ignore_errors=True)
    # One writes its run while another reads the same data and evaluates the checkpoints that are there.
    process = work.start("train", "config.yaml", "-o", "busy", *(f"data.{part}.path=data.h5" for part in ("train", "valid", "test")),
                         "train.duration=1000000", "log.every=1000000", "checkpoint.every=1000", "checkpoint.keep_last=20",
                         "eval.every=1000000")
    while process.poll() is None and not (os.path.exists(work.file("busy", "run.json")) and work.checkpoints("busy")):
        time.sleep(0.01)
    for words, code in ((["eval", "busy"], 0), (["predict", "busy", "test.tsv"], 0), (["inspect", "busy"], 0), (["train", "--resume", "busy"], 6)):
        done = work.call(*words)
        check(done.returncode == code, f"{words} beside the run: exit {done.returncode} {done.stderr}")
    process.send_signal(signal.SIGKILL)
    process.wait()


def h08_large_chunks(work):
    # Chunks of 1,000 rows, deflated, read in random order: a warning with a better shape, the same training, and memory that does not follow the file.
    values = numpy.random.default_rng(1).integers(0, 3, (2000, 20, 300)).astype("f4")
    peaks = {}
    for name, how in (("contiguous", {}), ("chunked", {"chunks": (1000, 20, 300), "compression": "gzip", "compression_opts": 1})):
        with h5py.File(work.file(name + ".h5"), "w") as file:
            file.create_dataset("X", data=values, **how)
            file["y"] = numpy.arange(2000) % 2
        code, messages, peak = peak_memory(work, "train", "numbers.yaml", "-o", name, f"data.path={name}.h5")
        check(code == 0, messages)
        check(("in chunks of about" in messages) == (name == "chunked"), messages)
        peaks[name] = peak >> 20
    check(work.same("contiguous", "chunked") is None, f"{work.same('contiguous', 'chunked')}")
    check(peaks["chunked"] - peaks["contiguous"] < 96, f"peak memory in MiB {peaks}: more than a few chunks of 23 MiB")


def p6_internal_fault(work):
    # An exception that nobody foresaw, at many places of a run: one line, exit 1, a report in the run, the last checkpoint whole and resumable.
    words = ["train.duration=12", "checkpoint.every=4", "device.threads=1"]
    work.train("sound", *words)
    ends = {}
    for n in (*range(1, 60, 13), *range(60, 700, 80)):
        run = f"fault-{n}"
        done = call(work, "train", "config.yaml", "-o", run, *words, shim="throwing_format", SHIM_CALL=str(n))
        ends[n] = done.returncode
        check(done.returncode in (0, 1), f"fault {n}: exit {done.returncode} {done.stderr}")
        if done.returncode == 0:  # beyond the last text, or in a place that may fail
            continue
        last = done.stderr.strip().splitlines()[-1]
        check(last.startswith("error[1]: unexpected: injected") and "tapeformer env" in last, f"fault {n}: {done.stderr}")
        if not os.path.exists(work.file(run, "run.json")):
            continue
        report = json.loads(work.read(run, "run.json"))
        if report["status"] == "failed":
            check(report["exit_code"] == 1 and "injected" in report["error"] and report["version"] and len(report["config_sha256"]) == 64, f"fault {n}: {report}")
        if work.checkpoints(run):
            work.resume(run)
            check(work.same("sound", run) is None, f"fault {n}: {work.same('sound', run)}")
        shutil.rmtree(work.file(run))
    check(sum(code == 1 for code in ends.values()) >= 5, f"only few faults were met: {ends}")


NUMBERS = """\
version: 1
data: {path: x.h5, standardize: false}
model: {dim: 8, layers: 1, feed_forward: {dim: 8}, attention: {type: full, heads: 2}}
train: {duration: 3, batch_size: 4}
"""

with Workplace() as work:
    work.write("numbers.yaml", NUMBERS)
    for part in (b08_k9_older_formats, c13_best_and_patience, d9_hostile_hdf5, s3_sparse_checkpoint, d10_changing_data, h03_no_locks, h08_large_chunks, p6_internal_fault):
        part(work)
        print(part.__name__, "passed")
finish(92)
