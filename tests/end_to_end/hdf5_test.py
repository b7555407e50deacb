# SPDX-License-Identifier: Apache-2.0
"""HDF5 from and for h5py: a matrix of stored types, layouts and faults, the converted file, guessed names, and a large file that is streamed."""
import datetime
import itertools
import os
import re

import h5py
import numpy

from support import Workplace, check, finish, peak_memory

CONFIG = """\
version: 1
data: {path: x.h5, standardize: false}
model: {dim: 8, layers: 1, feed_forward: {dim: 8}, attention: {type: full, heads: 2}}
train: {duration: 2, batch_size: 2}
device: {threads: 1}
"""
INTEGERS = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"]
FLOATS = ["f2", "f4", "f8"]
LAYOUTS = {"contiguous": {}, "chunked": {"chunks": True}, "deflate": {"chunks": True, "compression": "gzip", "shuffle": True}}

TOKENS = numpy.array([[1, 2, 3], [0, 4, 2], [4, 4, 0], [2, 0, 1]])
NUMBERS = numpy.array([[[0.5, -2], [3, 4]], [[1, 0], [-8, 0.25]], [[6, 7], [8, 9]], [[2, 2], [1, 64]]])
LABELS = numpy.array([2, 0, 1, 2])


def write(path, datasets, layout=None):
    with h5py.File(path, "w") as file:
        for name, values in datasets.items():
            file.create_dataset(name, data=values, **(layout or {} if numpy.ndim(values) > 0 else {}))


def samples(work, *overrides):
    """What the training part holds, as `data stats --samples` prints it: (label or target, tokens or rows) of each sample."""
    done = work.call("data", "stats", "x.yaml", "--samples", "100", *overrides)
    check(done.returncode == 0, f"{overrides}: exit {done.returncode}\n{done.stderr}")
    found = []
    for line in done.stdout.splitlines():
        words = line.split()
        if line.startswith("train ") and line.rstrip().split(" label ")[0].split(" target ")[0].endswith("rows)"):
            found.append((words[words.index("rows)") + 2:], []))
        elif line.startswith("  ") and found:
            found[-1][1].append([float(w.replace("<unk>", "0")) for w in words])
    return found, done.stdout


def expect(work, rows, labels, what, *overrides):
    found, _ = samples(work, *overrides)
    check(len(found) == len(labels), f"{what}: {len(found)} samples")
    for (label, got), row, right in zip(found, rows, labels):
        check(float(label[0]) == right, f"{what}: label {label}, {right} was expected")
        want = row if numpy.ndim(row) == 2 else [row]
        check(numpy.array_equal(numpy.array(got), numpy.array(want)), f"{what}: read {got}, {want} was written")


def refused(work, what, naming, *overrides):
    done = work.call("data", "stats", "x.yaml", *overrides)
    check(done.returncode == 3, f"{what}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    check(naming in done.stderr, f"{what}: {naming} is not named\n{done.stderr}")


def matrix(work):
    """Every number type x byte order x layout, as tokens, values, labels and offsets."""
    files = 0
    for kind, order, (layout, how) in itertools.product(INTEGERS, "<>", LAYOUTS.items()):
        if kind[1] == "1" and order == ">":
            continue
        as_kind = numpy.dtype(order + kind)
        what = f"{order}{kind} {layout}"
        write(work.file("x.h5"), {"X": TOKENS.astype(as_kind), "y": LABELS.astype(as_kind)}, how)
        expect(work, TOKENS, LABELS, f"tokens {what}")
        write(work.file("x.h5"), {"train/input_ids": TOKENS.ravel().astype(as_kind), "train/offsets": numpy.arange(0, 13, 3).astype(as_kind),
                                  "train/labels": LABELS.astype(as_kind)}, how)
        expect(work, TOKENS, LABELS, f"packed {what}")
        files += 2
    for kind, order, (layout, how) in itertools.product(FLOATS, "<>", LAYOUTS.items()):
        as_kind = numpy.dtype(order + kind)
        what = f"{order}{kind} {layout}"
        write(work.file("x.h5"), {"X": NUMBERS.astype(as_kind), "y": LABELS.astype(as_kind)}, how)
        expect(work, NUMBERS, LABELS, f"values {what}")
        write(work.file("x.h5"), {"X": NUMBERS.astype(as_kind), "y": (LABELS + 0.5).astype(as_kind)}, how)
        expect(work, NUMBERS, LABELS + 0.5, f"targets {what}", "data.task=regression")
        files += 2
    for layout, how in LAYOUTS.items():
        images = numpy.arange(24, dtype="u1").reshape(4, 3, 2) * 10
        write(work.file("x.h5"), {"X": images, "y": LABELS}, how)
        expect(work, images, LABELS, f"uint8 images {layout}")
        files += 1
    return files


def texts(work):
    """Labels as strings of every kind."""
    right = ["no", "yes", "no", "yes"]
    kinds = {
        "variable utf-8": numpy.array(right, dtype=h5py.string_dtype()),
        "variable ascii": numpy.array(right, dtype=h5py.string_dtype("ascii")),
        "fixed utf-8": numpy.array([r.encode() for r in right], dtype=h5py.string_dtype("utf-8", 5)),
        "fixed ascii": numpy.array([r.encode() for r in right], dtype="S4"),
    }
    for what, labels in kinds.items():
        write(work.file("x.h5"), {"X": TOKENS, "y": labels})
        found, _ = samples(work)
        check([label for (label,), _ in found] == right, f"{what}: {found}")
    for padding in (h5py.h5t.STR_NULLTERM, h5py.h5t.STR_NULLPAD, h5py.h5t.STR_SPACEPAD):
        write(work.file("x.h5"), {"X": TOKENS})
        kind = h5py.h5t.C_S1.copy()
        kind.set_size(6)
        kind.set_strpad(padding)
        with h5py.File(work.file("x.h5"), "a") as file:
            fill = b" " if padding == h5py.h5t.STR_SPACEPAD else b"\0"
            space = h5py.h5s.create_simple((4,))
            labels = h5py.h5d.create(file.id, b"y", kind, space)
            labels.write(space, space, numpy.array([r.encode().ljust(6, fill) for r in right], dtype="S6"), kind)
        found, _ = samples(work)
        check([label for (label,), _ in found] == right, f"padding {padding}: {found}")
    write(work.file("x.h5"), {"X": TOKENS, "y": numpy.array([b"no", b"\xff", b"no", b"no"], dtype="S3")})
    refused(work, "labels that are not UTF-8", "/y")
    return len(kinds) + 4


def faults(work):
    """Each must be exit 3 that names the data set."""
    nan = NUMBERS.copy()
    nan[1, 1, 0] = numpy.nan
    table = [
        ("a scalar", {"X": 7, "y": LABELS}, "/X"),
        ("one axis", {"X": TOKENS[0], "y": LABELS[:3]}, "/X"),
        ("four axes", {"X": NUMBERS[..., None], "y": LABELS}, "/X"),
        ("no samples", {"X": TOKENS[:0], "y": LABELS[:0]}, "x.h5"),
        ("empty sequences", {"X": TOKENS[:, :0], "y": LABELS}, "/X"),
        ("no features", {"X": NUMBERS[..., :0], "y": LABELS}, "/X"),
        ("fewer labels", {"X": TOKENS, "y": LABELS[:3]}, "/y"),
        ("a scalar label", {"X": TOKENS, "y": 3}, "/y"),
        ("labels of two axes", {"X": TOKENS, "y": TOKENS[:, :2]}, "/y"),
        ("a negative label", {"X": TOKENS, "y": LABELS - 1}, "/X, example 2"),
        ("a fraction as label", {"X": TOKENS, "y": LABELS + 0.5}, "/y"),
        ("NaN as label", {"X": TOKENS, "y": LABELS * numpy.nan}, "/y"),
        ("a label of 2^40", {"X": TOKENS, "y": LABELS + 2**40}, "/y"),
        ("a negative token", {"X": TOKENS - 1, "y": LABELS}, "/X, example 2"),
        ("a token of 2^31", {"X": TOKENS + 2**31, "y": LABELS}, "/X"),
        ("a token of 2^63", {"X": TOKENS.astype("u8") + 2**63, "y": LABELS}, "/X"),
        ("NaN in the values", {"X": nan, "y": LABELS}, "/X, example 2, row 2"),
        ("above float32", {"X": NUMBERS * 1e300, "y": LABELS}, "/X"),
        ("texts as input", {"X": numpy.array([b"a", b"b"], dtype="S1"), "y": LABELS[:2]}, "/X"),
        ("complex numbers", {"X": NUMBERS * 1j, "y": LABELS}, "/X"),
        ("weights that are negative", {"X": TOKENS, "y": LABELS, "weights": LABELS - 1.5}, "/X, example 2"),
        ("fewer ids", {"X": TOKENS, "y": LABELS, "ids": LABELS[:2]}, "/ids"),
        ("packed: no offsets", {"train/input_ids": TOKENS[0], "train/labels": LABELS}, "/train/offsets"),
        ("packed: no labels", {"train/input_ids": TOKENS[0], "train/offsets": [0, 3]}, "/train/labels"),
        ("packed: two axes", {"train/input_ids": TOKENS, "train/offsets": [0, 4], "train/labels": [0]}, "/train/input_ids"),
        ("packed: falling", {"train/input_ids": TOKENS[0], "train/offsets": [0, 2, 1, 3], "train/labels": LABELS[:3]}, "/train/offsets"),
        ("packed: too far", {"train/input_ids": TOKENS[0], "train/offsets": [0, 4], "train/labels": [0]}, "/train/offsets"),
        ("nothing known", {"a": TOKENS, "b": LABELS}, "/a, /b"),
    ]
    for what, datasets, naming in table:
        write(work.file("x.h5"), datasets)
        refused(work, what, naming)
    write(work.file("x.h5"), {"X": TOKENS, "y": LABELS})
    refused(work, "a missing input", "no data set /Z", "data.input=/Z")
    refused(work, "a missing label", "no data set /z", "data.label=/z")
    with h5py.File(work.file("x.h5"), "w") as file:
        file["X"] = h5py.Empty("f4")
        file["y"] = LABELS
    refused(work, "a null data space", "/X")
    with h5py.File(work.file("x.h5"), "w") as file:
        file.create_dataset("X", data=TOKENS, chunks=True, compression="lzf")
        file["y"] = LABELS
    refused(work, "a filter that is not built in", "/X")
    with h5py.File(work.file("x.h5"), "w") as file:
        file["X"] = h5py.ExternalLink("other.h5", "/X")
        file["y"] = LABELS
    refused(work, "a link to another file", "/X")
    write(work.file("x.h5"), {"X": numpy.zeros((64, 4, 64)), "y": numpy.zeros(64, "i4")})
    whole = os.path.getsize(work.file("x.h5"))
    for size in (whole - 1, whole // 2, 96):
        os.truncate(work.file("x.h5"), size)
        refused(work, f"cut to {size} bytes", "x.h5")
    return len(table) + 8


def names(work):
    """Guessed and given names, columns beside them, and parts cut by seed."""
    for x, y in (("X", "y"), ("x", "y"), ("data", "label"), ("sequences", "labels")):
        write(work.file("x.h5"), {x: TOKENS, y: LABELS})
        found, text = samples(work)
        check(len(found) == 4 and f"guessed the sequences in /{x}, the labels in /{y}" in text, text)
    write(work.file("x.h5"), {"in/seq": TOKENS, "out": LABELS[:, None], "who": numpy.array([b"a", b"b", b"c", b"d"]), "w": [1.0, 2, 3, 4]})
    _, text = samples(work, "data.input=in/seq", "data.label=/out", "data.id=/who", "data.weight=/w")
    check("train b (3 rows) label 0 weight 2" in text and "guessed" not in text, text)
    write(work.file("x.h5"), {"X": numpy.tile(TOKENS, (25, 1)), "y": numpy.tile(LABELS, 25)})
    _, text = samples(work, "data.split.valid=0.2", "data.split.test=0.1")
    check("train: 70 samples" in text and "valid: 20 samples" in text and "test: 10 samples" in text, text)
    check(len(re.findall(r"^    2 +10  50.0 %$", text, re.M)) == 1, f"the cut is not stratified: {text}")
    write(work.file("v.h5"), {"X": TOKENS, "y": LABELS + 1})
    refused(work, "a label that training lacks", "v.h5", "data.valid.path=v.h5")
    done = work.call("train", "x.yaml", "-o", "run", "data.split.valid=0.2")
    check(done.returncode == 0, done.stderr)
    check("guessed" in done.stderr, done.stderr)


def converted(work):
    """What `data convert` writes, through the eyes of h5py."""
    env = {"SOURCE_DATE_EPOCH": "86400"}
    done = work.call("data", "convert", "config.yaml", "-o", "plain.h5", env=env)
    check(done.returncode == 0, done.stderr)
    with h5py.File(work.file("plain.h5")) as file:
        root = dict(file.attrs)
        check(root["encoding-type"] == "seq-dataset" and root["encoding-version"] == "1.0" and root["task"] == "classification", root)
        check(root["created"] == "1970-01-02T00:00:00Z" and root["creator"].startswith("tapeformer "), root)
        check(len(root["source_fingerprint"]) == 32 and root["vocab_size"] > 10 and root["max_length"] == 64, root)
        train = file["train"]
        check(train.attrs["num_examples"] == 64 and train["offsets"].shape == (65,), dict(train.attrs))
        for name, axis in (("train/input_ids", "token"), ("train/offsets", "example"), ("train/labels", "example"), ("label_names", "class")):
            check(file[name].dims[0].label == axis, f"{name}: {file[name].dims[0].label}")
        check(train["input_ids"].dtype == "<i4" and train["offsets"].dtype == "<i8" and train["input_ids"].chunks is None, "types")
        tokens = train["input_ids"][:]
    check(work.call("data", "convert", "config.yaml", "-o", "again.h5", env=env).returncode == 0, "convert")
    with open(work.file("plain.h5"), "rb") as a, open(work.file("again.h5"), "rb") as b:
        check(a.read() == b.read(), "the same data and time give another file")
    check(work.call("data", "convert", "config.yaml", "-o", "now.h5").returncode == 0, "convert")
    with h5py.File(work.file("now.h5")) as file:
        age = datetime.datetime.now(datetime.timezone.utc) - datetime.datetime.fromisoformat(file.attrs["created"].replace("Z", "+00:00"))
        check(abs(age.total_seconds()) < 60, f"created {age} ago")
    check(work.call("data", "convert", "config.yaml", "-o", "bad.h5", env={"SOURCE_DATE_EPOCH": "noon"}).returncode == 2, "a bad epoch")
    done = work.call("data", "convert", "config.yaml", "-o", "small.h5", "--compress")
    check(done.returncode == 0 and "warn" in done.stderr.lower(), done.stderr)
    with h5py.File(work.file("small.h5")) as file:
        check(file["train/input_ids"].compression == "gzip" and numpy.array_equal(file["train/input_ids"][:], tokens), "compressed tokens")
    a, b = (work.call("data", "stats", name, "--samples", "64").stdout for name in ("config.yaml", "h5.yaml"))
    check(a.count("\ntrain ") == 64 and a[a.index("train 1 ("):] == b[b.index("train 1 ("):], "the converted file reads otherwise")

    rows = numpy.random.default_rng(1).integers(0, 4, (1 << 16, 8)).astype("f4")
    write(work.file("x.h5"), {"X": rows.reshape(-1, 16, 8), "y": numpy.arange(len(rows) // 16) % 2})
    check(work.call("data", "convert", "x.yaml", "-o", "big.h5", "--compress").returncode == 0, "convert --compress")
    with h5py.File(work.file("big.h5")) as file:
        values = file["train/values"]
        check(values.chunks[0] * 8 * 4 >= 1 << 20 and values.compression == "gzip", f"chunks {values.chunks}")
        check(values.dims[0].label == "row" and values.dims[1].label == "feature", "labels of the axes")
        check(numpy.array_equal(values[:], rows), "compressed values")
    done = work.call("train", "x.yaml", "-o", "from-big", "data.path=big.h5")
    check(done.returncode == 0, done.stderr)


def streamed(work):
    """Training on 300 MB takes less than 200 MB of memory, and says when the chunks are too large to be read in random order."""
    count, length, features = 2344, 250, 128  # 300 MB
    with h5py.File(work.file("x.h5"), "w") as file:
        values = file.create_dataset("X", (count, length, features), "f4")
        for at in range(0, count, 256):
            values[at:at + 256] = numpy.random.default_rng(at).normal(size=(min(256, count - at), length, features))
        file["y"] = numpy.arange(count) % 3
    check(os.path.getsize(work.file("x.h5")) > 300e6, "the file is too small to tell")
    code, messages, peak = peak_memory(work, "train", "x.yaml", "-o", "large", "train.duration=3", "train.batch_size=4", "data.standardize=true")
    check(code == 0, messages)
    check(peak < 200 << 20, f"peak memory {peak >> 20} MiB")
    print(f"peak memory while training on {os.path.getsize(work.file('x.h5')) >> 20} MiB: {peak >> 20} MiB")
    os.remove(work.file("x.h5"))
    with h5py.File(work.file("x.h5"), "w") as file:
        file.create_dataset("X", data=numpy.zeros((1000, 100, 100), "f4"), chunks=(500, 100, 100), compression="gzip")
        file["y"] = numpy.arange(1000) % 2
    _, text = samples(work)
    check("warning: x.h5: /X is stored in chunks of 500 rows, 19 MiB" in text, text[-2000:])


with Workplace() as work:
    with open(work.file("x.yaml"), "w", encoding="utf-8") as out:
        out.write(CONFIG)
    with open(work.file("h5.yaml"), "w", encoding="utf-8") as out:
        out.write(CONFIG.replace("x.h5", "plain.h5"))
    files = matrix(work)
    files += texts(work)
    files += faults(work)
    check(files >= 120, f"only {files} files were made")
    names(work)
    converted(work)
    streamed(work)
finish(1300)
