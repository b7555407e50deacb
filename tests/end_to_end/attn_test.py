# SPDX-License-Identifier: Apache-2.0
"""attn: weights equal to the formulas computed here from the checkpoint, patterns as the config says, pictures with the same contents, refusals."""
import os
import struct
import zlib

import h5py
import numpy

from support import Workplace, check, finish

TEXT = "[MAX 1 2 [MIN 3 4 ] 9 [SM 2 2 ] 0 ]"
N = len(TEXT.split())


def pixels(file):
    """A grey PNG without interlacing as an array, 0 black to 255 white; the depth."""
    with open(file, "rb") as source:
        data = source.read()
    check(data[:8] == b"\x89PNG\r\n\x1a\n", "a PNG")
    at, image = 8, b""
    while at < len(data):
        length, kind = struct.unpack(">I4s", data[at:at + 8])
        body = data[at + 8:at + 8 + length]
        check(zlib.crc32(kind + body) == struct.unpack(">I", data[at + 8 + length:at + 12 + length])[0], "a chunk's checksum")
        if kind == b"IHDR":
            width, height, depth, colour, _, _, interlace = struct.unpack(">IIBBBBB", body)
            check(colour == 0 and interlace == 0, "grey")
        image += body if kind == b"IDAT" else b""
        at += 12 + length
    raw, stride = zlib.decompress(image), (width * depth + 7) // 8
    rows, before = [], bytes(stride)
    for y in range(height):
        kind, line = raw[y * (stride + 1)], bytearray(raw[y * (stride + 1) + 1:(y + 1) * (stride + 1)])
        for x in range(stride):
            left, up, corner = (line[x - 1] if x else 0), before[x], (before[x - 1] if x else 0)
            paeth = min((abs(up - corner), 0, left), (abs(left - corner), 1, up), (abs(left + up - 2 * corner), 2, corner))[2]
            line[x] = (line[x] + (0, left, up, (left + up) // 2, paeth)[kind]) & 255
        before = bytes(line)
        values = numpy.frombuffer(before, dtype=numpy.uint8)
        rows.append(numpy.unpackbits(values)[:width] * 255 if depth == 1 else values)
    return numpy.array(rows), depth


def normalised(x, weight, bias):
    centred = x - x.mean(axis=1, keepdims=True)
    return centred / numpy.sqrt((centred**2).mean(axis=1, keepdims=True) + 1e-5) * weight + bias


def first_layer_weights(work, run, tokens, feature):
    """[heads, n, n] in double from the checkpoint: softmax of all pairs, or of a feature map's products."""
    p = {name: v.astype(numpy.float64) for name, v in work.parameters(run).items()}
    x = p["embedding.tokens.weight"][tokens] + p["embedding.positions.weight"][:len(tokens)]
    layer = "encoder.layers.0."
    x = normalised(x, p[layer + "attention_norm.weight"], p[layer + "attention_norm.bias"])
    q, k = (x @ p[f"{layer}attention.{part}.weight"].T + p[f"{layer}attention.{part}.bias"] for part in ("query", "key"))
    found = []
    for h in range(2):
        qh, kh = q[:, h * 8:h * 8 + 8], k[:, h * 8:h * 8 + 8]
        w = feature(qh) @ feature(kh).T if feature else numpy.exp(qh @ kh.T / 8**0.5)
        found.append(w / (w.sum(axis=1, keepdims=True) + (1e-6 if feature else 0)))
    return numpy.array(found)


def ok(work, *words):
    done = work.call("attn", *words)
    check(done.returncode == 0, f"attn {words}: exit {done.returncode}\n{done.stderr}")
    return done.stdout.splitlines()


def numbers_of(work, run):
    """The tokens' numbers, from the vocabulary in the run's directory."""
    import json
    tokenizer = json.loads(work.read(run, "tokenizer", "tokenizer.json"))
    words = tokenizer["vocab"] if "vocab" in tokenizer else tokenizer["tokens"]
    return [words.index(w) if isinstance(words, list) else words[w] for w in TEXT.split()]


def weights(work):
    for variant, feature in (("full", None), ("linear", lambda x: numpy.where(x > 0, x + 1, numpy.exp(x)))):
        work.train(variant, f"model.attention.type={variant}", "eval.every=12", "checkpoint.every=12")
        lines = ok(work, variant, "--text", TEXT, "-o", variant + "-map")
        check(len(lines) == 4 and "layer 1 head 1: " in lines[3] and lines[3].endswith(variant + "-map-layer1-head1.png"), str(lines))
        with h5py.File(work.file(variant + "-map.h5"), "r") as h5:
            check(h5.attrs["encoding-type"] == "attention-map" and [t.decode() for t in h5["tokens"][()]] == TEXT.split(), "the tokens")
            w = h5["encoder.layers.0.attention/weights"][()]
            check([d.label for d in h5["encoder.layers.0.attention/weights"].dims] == ["head", "query", "key"], "labels of the axes")
            check(h5["encoder.layers.1.attention/weights"].shape == (2, N, N), "the other layer")
        expected = first_layer_weights(work, variant, numbers_of(work, variant), feature)
        check(w.shape == (2, N, N) and numpy.abs(w - expected).max() < 1e-5, f"{variant}: {numpy.abs(w - expected).max()}")
        image, depth = pixels(work.file(variant + "-map-layer0-head1.png"))
        side = image.shape[0] // N
        check(depth == 8 and image.shape == (N * side, N * side) and N * side >= 256, str(image.shape))
        check(numpy.abs(image[::side, ::side] - 255 * (1 - w[1] / w[1].max())).max() <= 1, "the picture shows the weights")


def patterns(work):
    words = ["config.yaml", "model.attention.type=local", "model.attention.local={left: 2, right: 1}", "--pattern"]
    lines = ok(work, *words, "--length", "20", "--layer", "1", "--head", "0", "--pixels", "3", "-o", "band")
    i, j = numpy.indices((20, 20))
    expected = (j >= i - 2) & (j <= i + 1)
    check(lines == [f"layer 1 head 0: {expected.sum()} of 400 pairs allowed ({100 * expected.mean():.1f} %)  band.png"], str(lines))
    with h5py.File(work.file("band.h5"), "r") as h5:
        check((h5["encoder.layers.1.attention/pattern"][()] == expected[None]).all() and h5["heads"][()].tolist() == [0], "the pattern")
        check("encoder.layers.0.attention" not in h5 and "tokens" not in h5, "what was not asked for")
    image, depth = pixels(work.file("band.png"))
    check(depth == 1 and (image == numpy.kron(~expected, numpy.ones((3, 3))) * 255).all(), "the picture")
    check(ok(work, *words, "--length", "20", "--layer", "1", "--head", "0", "-o", "ended.png")[0].endswith("  ended.png"), "a prefix that names the file")
    check(os.path.exists(work.file("ended.h5")) and not os.path.exists(work.file("ended.png.png")), "a prefix that names the file")
    # Weights have the same pattern; a mix of heads has one each.
    ok(work, *words[:-1], "--length", "20", "--layer", "0", "-o", "weights")
    with h5py.File(work.file("weights.h5"), "r") as h5:
        w = h5["encoder.layers.0.attention/weights"][()]
    check(((w != 0) == expected[None]).all() and numpy.abs(w.sum(axis=2) - 1).max() < 1e-5, "weights outside the pattern")
    groups = "model.attention.groups=[{type: local, local: {left: 0, right: 0}}, {type: full}]"
    ok(work, "config.yaml", "~model.attention.type", "~model.attention.heads", groups, "--pattern", "--length", "7", "--layer", "0", "-o", "mix")
    with h5py.File(work.file("mix.h5"), "r") as h5:
        found = h5["encoder.layers.0.attention/pattern"][()]
    check((found[0] == numpy.eye(7)).all() and found[1].all(), "each head has its own pattern")
    # Heads without weights in front of others, or behind them, keep nothing from these.
    def by_head(first, second):
        groups = f"model.attention.groups=[{first}, {second}]"
        ok(work, "config.yaml", "~model.attention.type", "~model.attention.heads", groups, "--pattern", "--length", "20", "-o", "pair")
        with h5py.File(work.file("pair.h5"), "r") as h5:
            return [h5[f"encoder.layers.{layer}.attention/pattern"][()] for layer in (0, 1)]
    band, none, decided = "{type: local, local: {left: 2, right: 1}}", "{type: compressed, compressed: {mode: conv}}", "{type: cluster}"
    for found in by_head(band, none):
        check((found[0] == expected).all() and found[1].all(), "a band beside heads without weights")
    # What the first layer's cluster heads decide depends on their own projections only, which the variant beside them does not change.
    mixed, whole = by_head(none, decided), by_head("{type: full}", decided)
    check(mixed[0][0].all() and not whole[0][1].all() and (mixed[0][1] == whole[0][1]).all(), "clusters beside heads without weights")
    check(mixed[1][0].all() and not mixed[1][1].all(), "the second layer")
    # Of a trained model; the weights say the same where all heads have them.
    groups = ["~model.attention.type", "~model.attention.heads", f"model.attention.groups=[{none}, {decided}]", "eval.every=12", "checkpoint.every=12"]
    work.train("trained", *groups)
    ok(work, "trained", "--text", TEXT, "--pattern", "-o", "trained")
    with h5py.File(work.file("trained.h5"), "r") as h5:
        after = h5["encoder.layers.0.attention/pattern"][()]
    check(after[0].all() and not after[1].all() and after[1].any(axis=1).all(), "a trained model")
    work.refused(2, ["attn", "trained", "--text", TEXT, "-o", "map"], "--pattern", run="map.h5")
    ok(work, "trained", "--text", TEXT, "--head", "1", "-o", "trained")
    with h5py.File(work.file("trained.h5"), "r") as h5:
        weights = h5["encoder.layers.0.attention/weights"][()]
    check(((weights[0] != 0) == (after[1] != 0)).all(), "the weights of the head that has some")


def files(work):
    lines = [line.split("\t")[0] for line in work.read("test.tsv").splitlines()[1:]]
    ok(work, "full", "test.tsv", "--sample", "3", "--layer", "0", "--head", "1", "-o", "third")
    with h5py.File(work.file("third.h5"), "r") as h5:
        check([t.decode() for t in h5["tokens"][()]] == lines[2].split() and h5["heads"][()].tolist() == [1], "the third sample")
    ok(work, work.file("full", "checkpoints", "last.h5"), "--length", "5", "-o", "five")
    ok(work, "config.yaml", "--text", TEXT, "-o", "fresh")


def bytes_of_text(work):
    # A byte that is no character alone, and signs that no file of text holds, stand as \\xNN.
    text = "a\u00e9 \U0001f600\x01"
    ok(work, "config.yaml", "tokenizer.type=byte", "--text", text, "-o", "bytes")
    expected = [chr(b) if 0x20 <= b < 0x7f else f"\\x{b:02x}" for b in text.encode()]
    with h5py.File(work.file("bytes.h5"), "r") as h5:
        check([t.decode() for t in h5["tokens"][()]] == expected, f"{h5['tokens'][()]} instead of {expected}")
    work.write("nul.jsonl", '{"Source": "x\\u0000y", "Target": "1"}\n')
    for kind, expected in (("byte", ["x", "\\x00", "y"]), ("whitespace", ["<unk>"])):
        ok(work, "config.yaml", f"tokenizer.type={kind}", "nul.jsonl", "-o", "nul")
        with h5py.File(work.file("nul.h5"), "r") as h5:
            check([t.decode() for t in h5["tokens"][()]] == expected, f"{kind}: {h5['tokens'][()]}")


def refused(work):
    before = sorted(os.listdir(work.path))

    def refuse(code, words, *needles):
        work.refused(code, ["attn", *words, "-o", "map"], *needles, run="map.h5")
    refuse(2, ["full"], "--text", "--length")
    refuse(2, ["full", "test.tsv", "--text", TEXT], "one sequence")
    refuse(2, ["full", "--length", "5", "--text", TEXT], "--text")
    refuse(2, ["full", "test.tsv", "train.tsv"], "one file is enough")
    refuse(2, ["full", "--text", TEXT, "--layer", "2"], "--layer 2", "has 2")
    refuse(2, ["full", "--text", TEXT, "--head", "2"], "--head 2")
    refuse(2, ["full", "--length", "65"], "--length 65", "64")
    refuse(2, ["full", "--text", TEXT, "optim.lr=1"], "no key that attn can change")
    refuse(2, ["full", "--text", TEXT, "--pattern", "--weights"], "--weights")
    refuse(2, ["config.yaml", "--length", "5", "model.attention.type=fill"], "fill", "full")
    refuse(3, ["full", "--text", " "], "--text")
    refuse(3, ["full", "test.tsv", "--sample", "99"], "--sample", "16")
    refuse(3, ["full", "missing.tsv"], "missing.tsv")
    refuse(4, ["missing", "--length", "5"], "missing")
    done = work.call("attn", "full", "--text", TEXT)
    check(done.returncode == 2 and "--output" in done.stderr, done.stderr)
    check(sorted(os.listdir(work.path)) == before, "a refused call left something")


with Workplace() as work:
    weights(work)
    patterns(work)
    files(work)
    bytes_of_text(work)
    refused(work)
finish(130)
