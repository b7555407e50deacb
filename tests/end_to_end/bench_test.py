# SPDX-License-Identifier: Apache-2.0
"""`bench`: what the profile says of a step, against the formulas written out here; inference. No check depends on speed."""
import array
import json

from support import Workplace, check, finish

CONFIG = """\
version: 1
run: {{seed: 3}}
data: {{task: classification, path: none.tsv, max_length: 64}}
model:
  dim: 32
  layers: 3
  dropout: 0.1
  feed_forward: {{dim: 48, activation: relu, dropout: 0.1}}
  norm: {{type: {norm}, position: pre}}
  attention: {{type: {attention}, heads: 2, local: {{form: band, left: 4, right: 4}}}}
  pooling: mean
optim: {{type: adamw, lr: 1.0e-3, weight_decay: 0.01, clip_norm: 1.0}}
train: {{duration: 10, batch_size: 8}}
device: {{threads: 2}}
"""
LAYERS, DIM, HEADS, HIDDEN, BATCH, LENGTH, CLASSES = 3, 32, 2, 48, 8, 64, 7
ROWS, HEAD_DIM = BATCH * LENGTH, DIM // HEADS
SIZES = ["--batch", str(BATCH), "--length", str(LENGTH), "--classes", str(CLASSES), "--steps", "4", "--warmup", "1"]


def run(work, *words, config="full"):
    done = work.call("bench", "step", f"{config}.yaml", *SIZES, *words)
    check(done.returncode == 0, f"bench step {config} {words}: exit {done.returncode}\n{done.stderr}")
    return done.stdout


def line(profile, op, which):
    found = [row for row in profile["rows"] if row["op"] == op and row["pass"] == which]
    check(len(found) == 1, f"{len(found)} lines for {op} {which}")
    return found[0]


def check_work(profile, op, calls, forward, backward=None, passes=("forward", "backward")):
    for which, flops in zip(passes, (forward, backward)):
        row = line(profile, op, which)
        check(row["calls"] == calls, f"{op} {which}: {row['calls']} calls a step, expected {calls}")
        check(flops is None or row["flops"] == calls * flops, f"{op} {which}: {row['flops']} FLOPs, expected {calls} * {flops}")


def check_shape(profile):
    rows = profile["rows"]
    check(all(a["ms"] >= b["ms"] for a, b in zip(rows, rows[1:])), "the lines are not sorted by time")
    check(len({(r["op"], r["pass"]) for r in rows}) == len(rows), "an op and pass has two lines")
    check(abs(sum(r["ms"] for r in rows) - profile["sum_ms"]) < 1e-9 * profile["sum_ms"], "the sum is not the sum")
    check(abs(profile["sum_ms"] / profile["step_ms"] - profile["explained"]) < 1e-9, "the share is not the share")
    check(0 < profile["explained"] <= 1, f"the lines explain {profile['explained']} of the step")
    check(profile["peak_gflops_per_s"] > 0 and profile["peak_gbytes_per_s"] > 0, "no peak")
    for r in rows:
        check(r["ms"] > 0 and r["calls"] > 0 and r["flops"] >= 0 and r["bytes"] >= 0, f"a line of nothing: {r}")
        check(abs(r["share_of_peak"] * profile["peak_gflops_per_s"] - r["gflops_per_s"]) < 1e-6, f"share of peak: {r}")
        check(abs(r["gflops_per_s"] * r["ms"] * 1e6 - r["flops"]) <= 1e-6 * r["flops"], f"GFLOP/s: {r}")


with Workplace() as workplace:
    for name, norm, attention in (("full", "layer_norm", "full"), ("local", "batch_norm", "local"), ("linear", "layer_norm", "linear")):
        workplace.write(f"{name}.yaml", CONFIG.format(norm=norm, attention=attention))

    plain = json.loads(run(workplace, "--json"))
    check("profile" not in plain, "a profile that nobody asked for")
    measured = json.loads(run(workplace, "--json", "--profile"))
    for key in ("loss", "gradient_norm"):
        check(plain[key] == measured[key], f"{key} is {measured[key]} with a profile, {plain[key]} without")

    full = measured["profile"]
    check_shape(full)
    head = 2 * BATCH * DIM * CLASSES
    check_work(full, "linear", 1, head + BATCH * CLASSES, 2 * head + BATCH * CLASSES)
    qkv = 2 * ROWS * DIM * 3 * DIM
    check_work(full, "norm_linear", LAYERS, qkv + 3 * ROWS * DIM + 8 * ROWS * DIM, 2 * qkv + 3 * ROWS * DIM + 12 * ROWS * DIM)
    out = 2 * ROWS * DIM * DIM
    check_work(full, "linear_residual", LAYERS, out + 3 * ROWS * DIM, 2 * out + 2 * ROWS * DIM)
    pairs = BATCH * HEADS * LENGTH * LENGTH
    check_work(full, "attention", LAYERS, pairs * (4 * HEAD_DIM + 5), pairs * (10 * HEAD_DIM + 6))
    products = 4 * ROWS * DIM * HIDDEN
    forward = products + 2 * ROWS * HIDDEN + ROWS * DIM + 2 * ROWS * DIM + 8 * ROWS * DIM
    check_work(full, "feed_forward", LAYERS, forward, 2 * products + 2 * ROWS * HIDDEN + ROWS * DIM + ROWS * DIM + 12 * ROWS * DIM)
    check_work(full, "layer_norm", 1, 8 * ROWS * DIM, 12 * ROWS * DIM)
    check_work(full, "embedding", 1, 0, ROWS * DIM)
    check_work(full, "pooling", 1, ROWS * DIM, ROWS * DIM)
    check_work(full, "cross_entropy", 1, None, 0)
    for what in ("data", "optimizer", "gradient_norm", "clear_gradients", "after_update", "accuracy"):
        check_work(full, what, 1, None, passes=("other",))
    model = json.loads(workplace.call("model", "summary", "full.yaml", "--batch", str(BATCH), "--classes", str(CLASSES), "--json").stdout)
    parameters = model["parameters"]
    check(line(full, "optimizer", "other")["bytes"] == 7 * 4 * parameters, "the optimiser reads four arrays and writes three")
    # Every array once: x, W, b, y; and then y, x, W twice (for dx and for dW), b.
    check(line(full, "linear", "forward")["bytes"] == 4 * (BATCH * DIM + DIM * CLASSES + CLASSES + BATCH * CLASSES), "bytes of linear")

    local = json.loads(run(workplace, "--json", "--profile", config="local"))["profile"]
    check_shape(local)
    band = BATCH * HEADS * sum(min(LENGTH, i + 5) - max(0, i - 4) for i in range(LENGTH))
    check_work(local, "attention", LAYERS, band * (4 * HEAD_DIM + 5), band * (10 * HEAD_DIM + 6))
    check_work(local, "batch_norm", 2 * LAYERS + 1, 4 * ROWS * DIM, 12 * ROWS * DIM)
    check_work(local, "batch_norm_statistics", 2 * LAYERS + 1, 4 * ROWS * DIM, passes=("forward",))

    linear = json.loads(run(workplace, "--json", "--profile", config="linear"))["profile"]
    check_shape(linear)
    state = 2 * ROWS * DIM * HEAD_DIM
    check_work(linear, "linear_attention", LAYERS, 2 * state + 10 * ROWS * DIM, 4 * state + 20 * ROWS * DIM)

    micro = json.loads(run(workplace, "--json", "--profile", "train.micro_batch_size=2"))["profile"]
    check_work(micro, "attention", 4 * LAYERS, pairs // 4 * (4 * HEAD_DIM + 5))
    check_work(micro, "optimizer", 1, None, passes=("other",))

    text = run(workplace, "--profile")
    for needle in ("median", "peak of 2 threads", "GFLOP/s", "GB/s", "of peak", "norm_linear", "backward", "optimizer", "sum", "the lines explain"):
        check(needle in text, f"'{needle}' is not in the table:\n{text}")
    check("GFLOP/s" not in run(workplace), "a table that nobody asked for")

    def predict(config, *words):
        done = workplace.call("bench", "predict", f"{config}.yaml", "--json", "--length", str(LENGTH), "--classes", str(CLASSES), *words)
        check(done.returncode == 0, f"bench predict {config} {words}: exit {done.returncode}\n{done.stderr}")
        return json.loads(done.stdout)

    def outputs(batch, steps):
        predict("full", "--warmup", "0", "--batch", str(batch), "--steps", str(steps), "--write-outputs", workplace.file("outputs"))
        with open(workplace.file("outputs"), "rb") as source:
            return array.array("f", source.read())

    for name, folded in (("full", 0), ("local", 2 * LAYERS), ("linear", 0)):
        got = predict(name, "--profile", "--batch", str(BATCH), "--steps", "4", "--warmup", "1")
        check(got["folded_layers"] == folded, f"{name}: {got['folded_layers']} layers folded, expected {folded}")
        for key in ("median_ms", "tokens_per_s", "peak_mib", "allocated_bytes"):
            check(got[key] > 0, f"{name}: {key} is {got[key]}")
        lines = {(row["op"], row["pass"]) for row in got["profile"]["rows"]}
        check(("softmax", "forward") in lines and ("feed_forward", "forward") in lines, f"{name}: lines {lines}")
        check(not any(which == "backward" for _, which in lines), f"{name}: inference goes backward")
        # One BatchNorm is left: the one behind the last layer.
        check(sum(r["calls"] for r in got["profile"]["rows"] if r["op"] == "batch_norm") == (1 if folded else 0), f"{name}: BatchNorm layers left")
    whole, halves = outputs(BATCH, 4), outputs(BATCH // 2, 8)
    check(len(whole) == 4 * BATCH * CLASSES, f"{len(whole)} probabilities")
    check(whole == halves, "a sequence's probabilities depend on its batch mates")
    for row in range(4 * BATCH):
        some = whole[row * CLASSES:(row + 1) * CLASSES]
        check(min(some) > 0 and abs(sum(some) - 1) < 1e-5, f"row {row}: {some} are no probabilities")
    check(len(set(whole)) > 4 * BATCH, "the probabilities are all alike")
    text = workplace.call("bench", "predict", "local.yaml", *SIZES).stdout
    check(f"{2 * LAYERS} BatchNorm layers folded" in text and "tokens/s" in text, text)

    # What has no classes of tokens is not measured as if it had.
    for key, overrides in (("data.task: tagging", ["data.task=tagging"]), ("data.task: regression", ["data.task=regression"]),
                           ("data.features", ["data.features=[a, b]", "data.sequence=s"]), ("data.sequence", ["data.sequence=s"]),
                           ("data.values", ["data.values=v", "data.path=none.jsonl"]), ("data.window", ["data.window.length=8"])):
        for verb in ("step", "predict"):
            workplace.refused(2, ["bench", verb, "full.yaml", *SIZES, *overrides], key, "random tokens of a classification")

finish(500)
