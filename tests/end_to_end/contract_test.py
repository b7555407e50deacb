# SPDX-License-Identifier: Apache-2.0
"""Every attention variant, and groups of heads, with both norms: train 20 steps, resume byte-equal, evaluate, predict; threads, evaluation and logging change nothing."""
import json
import os
import re
from concurrent.futures import ThreadPoolExecutor

from support import ROOT, Workplace, check, finish

EXPECTED_VARIANTS = 27

with open(os.path.join(ROOT, "models", "attention", "variants.def"), encoding="utf-8") as lines:
    variants = re.findall(r"^ATTENTION_VARIANT\((\w+)\)", lines.read(), re.M)
check(len(variants) == EXPECTED_VARIANTS, f"{len(variants)} variants found")



GROUPS = ["~model.attention.type", "~model.attention.heads",
          "model.attention.groups=[{type: local, heads: 1, local: {left: 2}}, {type: global_external, heads: 2}, {type: bigbird, heads: 1}]"]


def keeps_the_contract(work, name, attention, norm):
    run = f"{name}-{norm}"
    work.train(run, *attention, f"model.norm.type={norm}", "train.duration=20", "checkpoint.every=10", "eval.every=20")
    work.copy_as_killed(run, 10, run + "-resumed")
    work.resume(run + "-resumed")
    check(work.same(run, run + "-resumed") is None, f"{run}: {work.same(run, run + '-resumed')}")
    done = work.call("eval", run, "--json")
    check(done.returncode == 0, f"eval {run}: {done.stderr}")
    result = json.loads(done.stdout)
    check(result["samples"] == 16 and 0 <= result["accuracy"] <= 1, f"{run}: {done.stdout}")
    check(work.call("eval", run, "--json").stdout == done.stdout, f"{run}: evaluating twice differs")
    one = work.call("predict", run, "-", stdin="[MAX 2 9 ]\n")
    many = work.call("predict", run, "-", stdin="[MIN 1 2 3 4 ]\n[MAX 2 9 ]\n[SM 5 5 ]\n")
    check(one.returncode == 0 and many.returncode == 0, one.stderr + many.stderr)
    check(one.stdout.splitlines()[1].split(",", 1)[1] == many.stdout.splitlines()[2].split(",", 1)[1], f"{run}: batch mates change a prediction")
    check(len(many.stdout.splitlines()) == 4, many.stdout)


with Workplace() as work:
    with ThreadPoolExecutor(2) as pool:
        chosen = [(v, [f"model.attention.type={v}"]) for v in variants] + [("groups", GROUPS)]
        for done in [pool.submit(keeps_the_contract, work, *c, norm) for c in chosen for norm in ("layer_norm", "batch_norm")]:
            done.result()

    work.train("threads-1", "device.threads=1")
    for threads in (2, 3, 8):
        work.train(f"threads-{threads}", f"device.threads={threads}")
        check(work.same("threads-1", f"threads-{threads}") is None, f"{threads} threads: {work.same('threads-1', f'threads-{threads}')}")
    work.train("quiet", "eval.every=100", "checkpoint.every=100", "log.every=100", "checkpoint.best=none", "device.threads=1")
    work.train("loud", "eval.every=1", "checkpoint.every=1", "log.every=1", "checkpoint.best=none", "device.threads=1")
    groups = [d for d in (work.same("quiet", "loud"),) if d and not d.startswith(("control", "metrics"))]
    check(not groups, f"evaluating, saving or logging changed the run: {groups}")
    work.train("reference", "device.type=reference")
    a, b = work.metrics("reference")[0]["train/loss"], work.metrics("threads-1")[0]["train/loss"]
    check(abs(a - b) < 1e-5, f"reference and cpu: first loss {a} and {b}")
    work.train("double", "device.type=reference", "train.precision=fp64")
finish(1 + 18 * len(variants))
