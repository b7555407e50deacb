# SPDX-License-Identifier: Apache-2.0
"""Full disks, limits of files, foreign and edited checkpoints, changed configs: the documented exit code, and what was good stays good."""
import hashlib
import json
import os
import re
import resource
import shutil
import subprocess
import time

import h5py

from support import BINARY, Workplace, check, edit_checkpoint, finish, hash_of

MAY_CHANGE = ("train.duration", "log.", "eval.every", "checkpoint.every", "checkpoint.keep_last", "device.")


def whole(work, run, file):
    """The checkpoint reads back, with no checkpoint beside it changed."""
    shutil.copy(file, work.file("copy.h5"))
    done = work.call("eval", "copy.h5")
    check(done.returncode == 0, f"{run}: {file} is not usable: {done.stderr}")


def bytes_of(text):
    number, unit = text.split()
    return float(number) * 1024 ** ("B", "KiB", "MiB", "GiB", "TiB").index(unit)


def disk_full(work):
    # D04, R-1: what a run will write is estimated before its first update. Checkpoints of many updates fit on no disk.
    work.train("good", "checkpoint.every=4", "train.duration=12")
    numbers = r"about (\S+ \S+) needed \((\d+) checkpoints? of (\S+ \S+) and (\S+ \S+) of logs\), (\S+ \S+) free"
    every = ["checkpoint.every=1", "checkpoint.keep_last=-1", "log.every=100000"]
    for words, run in ((["config.yaml", "-o", "run"], "run"), (["--resume", "good"], None)):
        before = sorted(os.listdir(work.file("good")))
        done = work.call("train", *words, *every, "train.duration=3000M")
        found = re.search(numbers, done.stderr)
        check(done.returncode == 6 and found, f"{words}: exit {done.returncode}\n{done.stderr}")
        needed, count, size, logs, free = (found[i] if i == 2 else bytes_of(found[i]) for i in range(1, 6))
        check(int(count) == 3_000_000_001 - (12 if run is None else 0), f"{count} checkpoints")
        check(abs(needed / (int(count) * size + logs) - 1) < 0.05 and needed > free, found[0])
        real = os.stat(work.file("good", "checkpoints", "step-00000012.h5")).st_size
        check(0.7 < size / real < 1.5, f"a checkpoint of {size} bytes is estimated, it has {real}")
        check(not os.path.exists(work.file("run")) and sorted(os.listdir(work.file("good"))) == before, "a refused run left something")
    # As many checkpoints as are kept, whatever the duration.
    work.train("few", "checkpoint.every=1", "checkpoint.keep_last=2", "log.every=100000", "eval.every=100000", "train.duration=3000M", "--max-time", "1s", code=75)
    # K-4, R-2: a small file system fills while the run saves every step.
    mount = work.file("small")
    os.makedirs(mount)
    mounted = os.geteuid() == 0 and subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "none", mount], capture_output=True, check=False).returncode == 0
    if mounted:
        try:
            work.refused(6, ["train", "config.yaml", "-o", "small/run", *every, "train.duration=100"], "needed", "free", run="small/run")
            process = work.start("train", "config.yaml", "-o", "small/run", "checkpoint.every=1", "checkpoint.keep_last=2", "train.duration=100k", "log.every=100000", "eval.every=100000")
            while process.poll() is None and not (os.path.isdir(os.path.join(mount, "run", "checkpoints")) and len(work.checkpoints("small/run")) >= 2):
                time.sleep(0.01)
            with open(os.path.join(mount, "filler"), "wb", buffering=0) as filler:
                while process.poll() is None:
                    try:
                        filler.write(bytes(1 << 12))
                    except OSError:
                        time.sleep(0.001)
            messages = process.communicate()[1]
            check(process.returncode == 6 and messages.strip().splitlines()[-1].startswith("error[6]"), f"disk full: exit {process.returncode}\n{messages[-500:]}")
            check("No space left" in messages, messages[-500:])
            os.remove(os.path.join(mount, "filler"))
            kept = work.checkpoints("small/run")
            check(len(kept) >= 2 and not [f for f in os.listdir(os.path.join(mount, "run", "checkpoints")) if ".tmp-" in f], f"left behind: {kept}")
            for name in kept[-2:]:
                whole(work, "small", os.path.join(mount, "run", "checkpoints", name))
            work.resume("small/run", "train.duration=" + str(int(kept[-1][5:13]) + 2), "checkpoint.keep_last=1")
        finally:
            subprocess.run(["umount", mount], check=False)
    # The same by a limit on the size of a file: the first save fails, then one in the middle of a run.
    def limited(size, *words):
        return subprocess.run([BINARY, *words], cwd=work.path, capture_output=True, text=True, check=False, timeout=60,
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size)))

    for size in (4096, 50000):
        work.copy_as_killed("good", 4, "limited")
        done = limited(size, "train", "--resume", "limited", "log.tensorboard=false")
        check(done.returncode == 6 and "error[6]" in done.stderr, f"files of at most {size}: exit {done.returncode}\n{done.stderr}")
        check(work.checkpoints("limited") == ["step-00000004.h5"], f"files of at most {size}: {os.listdir(work.file('limited', 'checkpoints'))}")
        work.resume("limited")
        check(work.same("good", "limited") is None, f"after a limit of {size}: {work.same('good', 'limited')}")
        shutil.rmtree(work.file("limited"))
    done = limited(4096, "train", "config.yaml", "-o", "fresh")
    check(done.returncode == 6 and "error[6]" in done.stderr, f"a fresh run: exit {done.returncode}\n{done.stderr}")


def edited(work):
    # K-7, D07, D09: whole files that hold something else. The place is named, nothing is run, followed or taken.
    def transpose(h5):
        value = h5[name_of_matrix(h5)]
        name, array = value.name, value[()].T.copy()
        del h5[name]
        h5[name] = array

    def name_of_matrix(h5):
        return "model/" + next(n for n in sorted(h5["model"]) if h5["model"][n].ndim == 2 and h5["model"][n].shape[0] != h5["model"][n].shape[1])

    def prefixed(h5):
        for name in list(h5["model"]):
            h5.move(f"model/{name}", f"model/model.{name}")

    def same_shape(h5):
        h5.move("model/encoder.layers.0.attention.query.bias", "model/encoder.layers.0.attention.other.bias")

    def link(h5):
        del h5["model/head.output.bias"]
        h5["model/head.output.bias"] = h5py.ExternalLink("/etc/passwd", "/x")

    def weight(h5):
        h5["model/head.output.bias"][0] += 1

    def moment(h5):
        h5["optimizer/exp_avg/head.output.bias"].attrs["xxh64"] = 7

    def huge(h5):
        del h5["model/head.output.bias"]
        h5.create_dataset("model/head.output.bias", (1 << 45,), "f4", chunks=(1024,))

    def unknown_key(h5):
        text = h5["config/resolved_yaml"][()]
        del h5["config/resolved_yaml"]
        h5["config/resolved_yaml"] = text + b"\nnovel: {key: 1}\n"

    changes = {"transposed": (transpose, "in the file"), "prefixed": (prefixed, "missing in the file"), "renamed": (same_shape, "missing in the file"),
               "weight": (weight, "/model/head.output.bias"), "moment": (moment, "/optimizer/exp_avg/head.output.bias"),
               "link": (link, "head.output.bias"), "huge": (huge, "head.output.bias"), "no state": (lambda h5: h5.attrs.__delitem__("step"), "step"),
               "no config": (lambda h5: h5.__delitem__("config"), "config"), "no description": (lambda h5: h5.__delitem__("description_json"), "description"),
               "extra": (lambda h5: h5.__setitem__("model/extra.weight", [1.0]), "only in the file: /model/extra.weight"),
               "bad description": (lambda h5: (h5.__delitem__("description_json"), h5.__setitem__("description_json", "{")), "description"),
               "bad config": (lambda h5: (h5.__delitem__("config/resolved_yaml"), h5.__setitem__("config/resolved_yaml", "model: [")), "config"),
               "other vocabulary": (lambda h5: (h5.__delitem__("tokenizer_json"), h5.__setitem__("tokenizer_json", "{}")), None),
               "no overrides": (lambda h5: h5.__delitem__("config/overrides"), "/config/overrides"),
               "unknown key": (unknown_key, "novel")}
    # The vocabulary that is read is the one of the description; overrides are for going on alone.
    codes = {"other vocabulary": 0, "no overrides, eval": 0, "no overrides, predict": 0}
    predicted = work.call("predict", work.file("good", "checkpoints", "step-00000008.h5"), "test.tsv").stdout
    check(len(predicted.splitlines()) == 17, predicted)
    for name, (change, says) in changes.items():
        work.copy_as_killed("good", 8, "edited")
        file = work.file("edited", "checkpoints", "step-00000008.h5")
        edit_checkpoint(file, change)
        with open(file, "rb") as source:
            before = source.read()
        for words in (["train", "--resume", "edited"], ["eval", file], ["predict", file, "test.tsv"]):
            done = work.call(*words)
            expected = codes.get(name, codes.get(f"{name}, {words[0]}", 4))
            check(done.returncode == expected, f"{name}, {words[0]}: exit {done.returncode}, expected {expected}\n{done.stderr}")
            check(expected == 0 or says in done.stderr, f"{name}, {words[0]}: '{says}' is not in\n{done.stderr}")
            if expected == 0 and words[0] == "predict":
                check(done.stdout == predicted, f"{name}: other predictions\n{done.stdout}")
            if expected == 0 and words[0] == "train":
                check(work.same("good", "edited") is None, f"{name}: {work.same('good', 'edited')}")
        with open(file, "rb") as source:
            check(source.read() == before, f"{name}: the file was changed")
        shutil.rmtree(work.file("edited"))
    # Text in a checkpoint is data.
    work.copy_as_killed("good", 8, "edited")
    file = work.file("edited", "checkpoints", "step-00000008.h5")
    edit_checkpoint(file, lambda h5: h5.attrs.update({"creator": "$(touch touched)`touch touched`", "path": "../../touched"}))
    check(work.call("inspect", file).returncode == 0 and work.call("eval", file).returncode == 0, "an attribute of text")
    check(not os.path.exists(work.file("touched")), "text in a checkpoint was run")


def provenance(work):
    # What a checkpoint says of where it comes from, and the hash of each tensor, against h5py, sha256 and xxhash.
    lines = [line.rsplit("  # from: ", 1)[0] + "\n" for line in work.read("good", "config.resolved.yaml").splitlines()]
    digest = hashlib.sha256("".join(lines).encode()).hexdigest()
    work.copy_as_killed("good", 8, "later")
    work.resume("later")
    for run in ("good", "later"):
        with h5py.File(work.file(run, "checkpoints", work.checkpoints(run)[-1]), "r") as h5:
            check(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", h5.attrs["created"]), f"created {h5.attrs['created']}")
            check(re.fullmatch(r"[0-9a-f]{40}|unknown", h5.attrs["git_commit"]), f"git_commit {h5.attrs['git_commit']}")
            check(h5.attrs["git_commit"] == json.loads(work.read(run, "run.json"))["git_commit"], "run.json says the same commit")
            check(h5.attrs["config_sha256"] == digest, f"{run}: config_sha256 {h5.attrs['config_sha256']}, {digest} expected")
            check(h5.attrs["precision"] == "fp32", f"precision {h5.attrs['precision']}")
            tensors = [h5[group][name] for group in ("model", "buffers", "optimizer/exp_avg", "optimizer/exp_avg_sq") if group in h5 for name in h5[group]]
            check(len(tensors) > 50, f"only {len(tensors)} tensors")
            for tensor in tensors:
                check(tensor.attrs["xxh64"] == hash_of(tensor) and tensor.attrs["xxh64"].dtype == "u8", f"xxh64 of {tensor.name}")
    shutil.rmtree(work.file("later"))
    done = work.call("train", "config.yaml", "-o", "dated", env={"SOURCE_DATE_EPOCH": "86400"})
    with h5py.File(work.file("dated", "checkpoints", "step-00000012.h5"), "r") as h5:
        check(done.returncode == 0 and h5.attrs["created"] == "1970-01-02T00:00:00Z", f"created {h5.attrs['created']} {done.stderr}")


def changed_config(work):
    # K-11, B07: each key changed in turn. What may change is followed, everything else is refused by name; nothing is written then.
    explained = work.call("config", "explain").stdout
    kinds = dict(re.findall(r"^  ([a-z_.0-9]+): (.*); default .*$", explained, re.M))
    defaults = dict(re.findall(r"^  ([a-z_.0-9]+): .*; default (.*)$", explained, re.M))
    resolved = work.read("good", "config.resolved.yaml")
    check(len(kinds) > 80, f"{len(kinds)} keys found")
    work.copy_as_killed("good", 8, "other")
    refused = allowed = 0
    for key, kind in kinds.items():
        value = {"true or false": "true" if defaults[key] == "false" else "false", "text": "other"}.get(kind)
        if kind.startswith("one of "):
            words = [w for w in kind[7:].split(", ") if w not in (defaults[key], "auto", "cuda", "fp64", "tf32", "bf16-mixed", "fp16-mixed", "byte", "batch_norm")]
            value = words[-1] if words else None
        elif "number" in kind or "integer" in kind or "count" in kind:
            value = "0.25" if "< 1" in kind else "5"
        if value is None or key in ("version", "model.attention.heads", "train.precision", "data.window.hop", "data.window.length", "schedule.min_lr"):
            continue
        done = work.call("train", "--resume", "other", f"{key}={value}", "train.duration=8")
        may = key.startswith(MAY_CHANGE)
        if done.returncode == 2:  # no valid combination with the rest
            continue
        if f"{key.rsplit('.', 1)[-1]}: {value}\n" in resolved and done.returncode == 0:
            continue  # not another value
        check(done.returncode == (0 if may else 4), f"{key}={value}: exit {done.returncode}\n{done.stderr}")
        check(key in done.stderr or done.returncode == 0, f"{key}={value} is not named: {done.stderr}")
        refused, allowed = refused + (not may), allowed + may
    check(refused >= 45 and allowed >= 5, f"only {refused} refused and {allowed} allowed keys were tried")
    check(work.checkpoints("other")[-1] == "step-00000008.h5", "a refused resume wrote something")
    # D-10: the data are not those of the run any more.
    rows = work.read("train.tsv")
    work.write("train.tsv", rows.replace("\t1\n", "\t2\n", 1))
    done = work.call("train", "--resume", "other")
    check(done.returncode == 3 and "fingerprint" in done.stderr, f"changed data: exit {done.returncode} {done.stderr}")
    work.write("train.tsv", rows)
    work.resume("other")
    check(work.same("good", "other") is None, "after refused changes the run ends the same")


def used_directory(work):
    # P-4: nothing is lost, whatever stands there.
    for name in ("config.yaml", "good/run.json"):
        done = work.call("train", "config.yaml", "-o", name)
        check(done.returncode == 6, f"-o on a file: exit {done.returncode} {done.stderr}")
    # What the file system refuses is exit 6 with the path and the reason.
    os.symlink("loop", work.file("loop"))
    for name, reason in (("n" * 300, "File name too long"), ("loop", "symbolic links"), ("config.yaml/run", "Not a directory"), ("loop/run", "symbolic links")):
        done = work.call("train", "config.yaml", "-o", name)
        check(done.returncode == 6 and name in done.stderr and reason in done.stderr, f"-o {name[:20]}: exit {done.returncode} {done.stderr}")
    for words in (["eval", "loop"], ["predict", "loop"], ["inspect", "loop"], ["data", "inspect", "loop"], ["eval", "n" * 300], ["train", "--resume", "loop"],
                  ["train", "loop", "-o", "run"], ["data", "make", "listops", "-o", "loop", "train=1", "valid=1", "test=1"]):
        done = work.call(*words)
        name = "n" * 300 if "n" * 300 in words else "loop"
        check(done.returncode in (2, 3, 4, 6) and name in done.stderr, f"{words}: exit {done.returncode} {done.stderr}")
    os.makedirs(work.file("empty"))
    work.refused(2, ["train", "config.yaml", "-o", "empty", "model.dim=0"], "model.dim")
    check(os.path.isdir(work.file("empty")), "a refused config removed the directory")
    work.train("empty")
    before = {name: os.stat(work.file("good", name)).st_size for name in os.listdir(work.file("good")) if name != "LOCK"}
    done = work.call("train", "config.yaml", "-o", "good", "--overwrite", "data.train.path=missing.tsv")
    check(done.returncode == 3, f"{done.returncode} {done.stderr}")
    kept = [f for f in os.listdir(work.path) if f == "good" or f.startswith("good.old-")]
    check(any({n: os.stat(work.file(f, n)).st_size for n in os.listdir(work.file(f))}.items() >= before.items() for f in kept), f"the old run is gone: {kept}")


with Workplace() as work:
    for part in (disk_full, edited, provenance, changed_config, used_directory):
        part(work)
finish(780)
