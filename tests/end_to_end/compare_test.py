# SPDX-License-Identifier: Apache-2.0
"""compare: killed in the middle and called again it does only what was left, and finds the same scores; what it refuses, and how it says so."""
import csv
import io
import json
import os
import re
import signal
import time

from support import CONFIG, Workplace, check, finish

STEPS = 20
VARIANTS = ["full", "local", "linear"]
SEEDS = [1, 2]
VOLATILE = {"tokens_per_s", "peak_bytes", "directory"}


def words(out, *more, size=64):
    return ["compare", "config.yaml", "--attention", ",".join(VARIANTS), "--seeds", ",".join(map(str, SEEDS)), "-o", out, f"train.duration={STEPS}",
            "train.batch_size=64", "checkpoint.every=5", "checkpoint.keep_last=-1", "eval.every=10", "log.every=1", f"model.dim={size}",
            f"model.feed_forward.dim={4 * size}", *more]


def run_of(out, variant, seed):
    return os.path.join(out, variant, f"seed-{seed}")


def scores(work, out):
    """The table without what is measured anew each time, as bytes."""
    def strip(value):
        if isinstance(value, dict):
            return {k: strip(v) for k, v in value.items() if k not in VOLATILE}
        return [strip(v) for v in value] if isinstance(value, list) else value
    rows = [{k: v for k, v in row.items() if k not in VOLATILE} for row in csv.DictReader(io.StringIO(work.read(out, "compare.csv")))]
    return json.dumps(strip(json.loads(work.read(out, "compare.json")))).encode() + json.dumps(rows).encode()


def log_lines(work, out):
    """(run, step, time) of every line that training logged."""
    found = []
    for variant in VARIANTS:
        for seed in SEEDS:
            run = run_of(out, variant, seed)
            if os.path.exists(work.file(run, "metrics.jsonl")):
                found += [(run, m["step"], m["time"]) for m in work.metrics(run) if m["split"] == "train"]
    return found


def steps_saved(work, run):
    folder = work.file(run, "checkpoints")
    return [int(f[5:-3]) for f in os.listdir(folder) if re.fullmatch(r"step-\d+\.h5", f)] if os.path.isdir(folder) else []


def wait_for_the_middle(work, process, out):
    """The run that has saved something and is not at its end; the parent is stopped then. Nothing if the moment was missed."""
    while process.poll() is None:
        for variant in VARIANTS:
            for seed in SEEDS:
                run = run_of(out, variant, seed)
                saved = steps_saved(work, run)
                if saved and variant != VARIANTS[0] and max(saved) < STEPS:
                    process.send_signal(signal.SIGSTOP)
                    return run
        time.sleep(0.002)
    return None


def met_in_the_middle(work, name):
    """(size, directory, process, run) with the parent stopped while a run is at work; larger models until one is slow enough to be met there."""
    for size in (64, 128, 256):
        out = f"{name}-{size}"
        process = work.start(*words(out, size=size))
        run = wait_for_the_middle(work, process, out)
        if run:
            yield size, out, process, run
        if process.poll() is None:
            process.kill()
            process.communicate()
    check(False, f"{name}: no comparison was met in its middle")


def stopped_in_the_middle(work):
    """SIGINT to the parent."""
    for size, out, process, _ in met_in_the_middle(work, "stopped"):
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGCONT)
        _, messages = process.communicate(timeout=60)
        if process.returncode != 0:  # 0: all was over when the signal came
            return size, out, process.returncode, messages


def killed_in_the_middle(work):
    """Parent and child killed by SIGKILL."""
    for size, out, process, run in met_in_the_middle(work, "cut"):
        os.kill(json.loads(work.read(run, "run.json"))["pid"], signal.SIGKILL)
        process.send_signal(signal.SIGKILL)
        process.wait()
        if max(steps_saved(work, run)) < STEPS:
            return size, out, run


def modified(work, out):
    return {os.path.join(d, f): os.stat(os.path.join(d, f)).st_mtime_ns for d, _, files in os.walk(work.file(out)) for f in files if f != "LOCK"}


def ok(work, *call, code=0):
    done = work.call(*call)
    check(done.returncode == code, f"{call}: exit {done.returncode}\n{done.stderr}")
    return done


with Workplace() as work:
    size, cut, run = killed_in_the_middle(work)
    at = max(steps_saved(work, run))
    finished = [r for r in (run_of(cut, v, s) for v in VARIANTS for s in SEEDS) if os.path.exists(work.file(r, "comparison.json"))]
    check(len(finished) >= 1, "a run was done before the kill")
    before = {r: modified(work, r) for r in finished}
    resumed = time.time()
    cut_table = ok(work, *words(cut, size=size)).stdout
    straight_table = ok(work, *words("straight", size=size)).stdout
    check(scores(work, cut) == scores(work, "straight"), "other scores after the kill")
    for r in finished:
        check(modified(work, r) == before[r], f"{r} was done and was touched again")
    fresh = [line for line in log_lines(work, cut) if line[2] > resumed]
    begun_anew = len(VARIANTS) * len(SEEDS) - len(finished) - 1
    check(len(fresh) == STEPS - at + STEPS * begun_anew, f"{len(fresh)} steps after the resume from step {at}, {begun_anew} runs left")
    check(len(log_lines(work, cut)) == STEPS * len(VARIANTS) * len(SEEDS), "every step was logged once")
    check(f"training to step {STEPS} from step {at}," in work.read(run, "log.txt"), "the run went on from its checkpoint")
    for variant in VARIANTS:
        difference = work.same(run_of(cut, variant, 1), run_of("straight", variant, 1))
        check(difference is None, f"{variant}: {difference}")

    # The table: what stands in it, and that it agrees with the runs' own evaluations.
    table = json.loads(work.read("straight", "compare.json"))
    for variant in table["variants"]:
        check(variant["status"] == "done" and len(variant["runs"]) == len(SEEDS), str(variant))
        found = []
        for one in variant["runs"]:
            found.append(json.loads(work.read(run_of("straight", variant["attention"], one["seed"]), "eval", "test", "metrics.json"))["accuracy"])
            check(one["accuracy"] == found[-1], "the score is that of the run's evaluation")
        check(abs(variant["mean"] - sum(found) / 2) < 1e-12 and abs(variant["standard_error"] - abs(found[0] - found[1]) / 2) < 1e-12, str(variant))
        check(variant["peak_bytes"] > 0 and variant["tokens_per_s"] > 0, str(variant))
    targets = [line.split("\t")[1] for line in work.read("test.tsv").splitlines()[1:]]
    train = [line.split("\t")[1] for line in work.read("train.tsv").splitlines()[1:]]
    commonest = max(sorted(set(train)), key=train.count)
    base = table["baseline"]
    check(base["answer"] == commonest and abs(base["metrics"]["accuracy"] - targets.count(commonest) / len(targets)) < 1e-12, str(base))
    pairs = {v["attention"]: v["pairs"] for v in table["variants"]}
    lengths = [len(line.split("\t")[0].split()) for line in work.read("test.tsv").splitlines()[1:]]
    band = sum(sum(min(n, i + 5) - max(0, i - 4) for i in range(n)) / n**2 for n in lengths) / len(lengths)
    check(pairs["full"] == 1 and pairs["linear"] == 1 and abs(pairs["local"] - band) < 1e-12, f"{pairs}, a band has {band}")
    for needle in [*VARIANTS, "always " + commonest, "100.0 %", "s.e.", "tokens/s"]:
        check(needle in straight_table, f"'{needle}' is not in the table:\n{straight_table}")
    strip = [" ".join(re.sub(r"\d+ +[\d.]+ .iB", "", t).split()) for t in (cut_table, straight_table)]  # widths follow the speeds
    check(strip[0] == strip[1], f"other tables:\n{cut_table}\n{straight_table}")

    # A third call finds everything done.
    before = {r: modified(work, r) for r in (run_of("straight", v, s) for v in VARIANTS for s in SEEDS)}
    check(ok(work, *words("straight", size=size)).stdout == straight_table, "another table")
    check(all(modified(work, r) == before[r] for r in before), "a third call did something")

    # Ctrl-C: saved, and the same command goes on.
    stopped_size, stopped, code, messages = stopped_in_the_middle(work)
    check(code == 130, f"exit {code}: {messages}")
    check("the same command goes on" in messages, messages)
    ok(work, *words(stopped, size=stopped_size))
    whole = "straight" if stopped_size == size else "straight-again"
    ok(work, *words(whole, size=stopped_size))
    check(scores(work, stopped) == scores(work, whole), "other scores after SIGINT")

    # Another config: every difference is named, nothing is touched; what only concerns another variant is none.
    done = ok(work, *words("straight", "optim.lr=0.5", "model.attention.local.left=1", size=size), code=4)
    for needle in ("optim.lr: 0.003 in ", "model.attention.local.left: 4 in ", "local/seed-2"):
        check(needle in done.stderr, f"'{needle}' is not in {done.stderr}")
    check(done.stdout == "" and all(modified(work, r) == before[r] for r in before), "a refused call did something")
    only = [w if w != ",".join(VARIANTS) else "linear" for w in words("straight", "model.attention.local.left=1", "log.every=7", size=size)]
    ok(work, *only)

    # A variant that cannot run is a row with its reason; the others are what was asked for.
    few = ["compare", "config.yaml", "--attention", "linear,full", "--seeds", "3", "-o"]
    done = ok(work, *few, "refused", "model.attention.dropout=0.1", "train.duration=2")
    row = next(line for line in done.stdout.splitlines() if line.startswith("linear"))
    check("model.attention.dropout" in row and "model.attention.type" in row, row)
    check(any(line.startswith("full ") and "1/1" in line for line in done.stdout.splitlines()), done.stdout)
    rows = {r["attention"]: r for r in csv.DictReader(io.StringIO(work.read("refused", "compare.csv")))}
    check(rows["linear"]["status"] == "refused" and "dropout" in rows["linear"]["reason"] and rows["full"]["status"] == "done", str(rows))
    # A run that fails leaves the others alone.
    done = ok(work, *few, "failed", "optim.lr=1e30", "optim.clip_norm=0", "train.duration=5", code=5)
    check("failed: seed 3: loss or gradient not finite" in done.stdout, done.stdout)

    # A variant's own file beside the config, built upon it, says its settings; it may not train in another way.
    own = ["compare", "config.yaml", "--attention", "full,local", "--seeds", "3", "-o"]
    work.write("local.yaml", "base: config.yaml\nmodel: {attention: {type: local, local: {left: 0, right: 0}}}\n")
    ok(work, *own, "own", "train.duration=2")
    pairs = {v["attention"]: v["pairs"] for v in json.loads(work.read("own", "compare.json"))["variants"]}
    check(pairs["full"] == 1 and abs(pairs["local"] - sum(1 / n for n in lengths) / len(lengths)) < 1e-12, str(pairs))
    work.write("local.yaml", "base: config.yaml\nmodel: {attention: {type: local}}\noptim: {lr: 0.1}\n")
    work.refused(2, [*own, "run"], "local.yaml: 'optim.lr' is 0.1, in config.yaml it is 0.003", "only the attention may differ")
    work.write("local.yaml", "base: config.yaml\nmodel: {attention: {type: full}}\n")
    done = ok(work, *own, "other", "train.duration=2")
    check("local.yaml: does not use 'local'" in done.stdout, done.stdout)
    work.write("local.yaml", "base: other.yaml\nmodel: {attention: {type: full}}\n")  # no file of this comparison
    ok(work, *own, "third", "train.duration=2")
    # Whatever YAML makes of its `base` is its base, and what is no YAML is not passed over.
    work.write("local.yaml", "{model: {attention: {type: full}}, 'base': ./config.yaml}\n")
    check("local.yaml: does not use 'local'" in ok(work, *own, "fourth", "train.duration=2").stdout, "another base")
    work.write("local.yaml", "base: config.yaml\nmodel: {attention: {type: local}\n")
    done = ok(work, *own, "fifth", "train.duration=2")
    check(re.search(r"^local .*refused: ", done.stdout, re.M), done.stdout)
    # A list of groups that became shorter is another config too.
    work.write("mixed.yaml", CONFIG.replace("type: full, heads: 2, ", ""))
    for count, code in ((4, 0), (2, 4)):
        groups = ", ".join(["{type: local}"] + ["{type: full}"] * (count - 1))
        work.write("local.yaml", f"base: mixed.yaml\nmodel: {{attention: {{groups: [{groups}]}}}}\n")
        done = ok(work, "compare", "mixed.yaml", "--attention", "local", "--seeds", "3", "-o", "shorter", "train.duration=2", code=code)
        check(code == 0 or re.search(r"model\.attention\.groups\.3\.type: full in .*, nothing now", done.stderr), done.stderr)
    os.remove(work.file("local.yaml"))

    # Rows that the model puts in front of a sequence are among those that all pairs are counted of.
    extra = 8
    ok(work, "compare", "config.yaml", "--attention", "full,bigbird,global_external", "--seeds", "3", "-o", "extra", "train.duration=2",
       f"model.attention.bigbird={{globals: external, count: {extra}, block: 2}}",
       f"model.attention.global_external={{count: {extra}, left: 0, right: 0}}")
    pairs = {v["attention"]: v["pairs"] for v in json.loads(work.read("extra", "compare.json"))["variants"]}
    crossed = sum(1 - (n * n - n) / (n + extra)**2 for n in lengths) / len(lengths)
    check(pairs["full"] == 1 and 0 < pairs["bigbird"] <= 1 and abs(pairs["global_external"] - crossed) < 1e-12, f"{pairs}, {crossed} was expected")

    # Without -o under the run's name; a second call goes on there.
    for _ in range(2):
        ok(work, "compare", "config.yaml", "--attention", "full", "--seeds", "3", "train.duration=2")
        check(sorted(os.listdir(work.file("runs", "compare"))) == ["tiny"] and work.metrics("runs/compare/tiny/full/seed-3")[-1]["step"] == 2, "runs/compare/tiny")
    ok(work, "compare", "config.yaml", "--attention", "full", "--seeds", "3", "train.duration=2", "run.name=../up")
    check(sorted(os.listdir(work.file("runs", "compare"))) == ["config", "tiny"], "a name that is no directory's")

    # Bad input: nothing on stdout, nothing left behind.
    good = ["compare", "config.yaml", "-o", "run"]
    work.refused(2, [*good, "--attention", "fll"], "unknown variant 'fll'", "did you mean 'full'?")
    work.refused(2, [*good, "--seeds", "1,2,1"], "--seeds: 1 stands twice")
    work.refused(2, [*good, "--seeds", "one"], "--seeds")
    work.refused(2, [*good, "--metric", "acuracy"], "--metric acuracy")
    work.refused(2, [*good, "model.dims=3"], "unknown key 'dims'")
    work.refused(2, [*good, "--attention", "linear", "model.attention.dropout=0.5"], "no variant can run", "model.attention.dropout")
    work.refused(2, ["compare", "missing.yaml", "-o", "run"], "missing.yaml")
    work.refused(3, [*good, "data.test.path=missing.tsv"], "missing.tsv")
    work.refused(2, [*good, "--max-time", "soon"], "--max-time soon")
    os.mkdir(work.file("strange"))
    work.write("strange/mine.txt", "mine")
    done = ok(work, "compare", "config.yaml", "-o", "strange", code=6)
    check("not empty" in done.stderr and os.listdir(work.file("strange")) == ["mine.txt"], done.stderr)
    # What a call killed inside its first save leaves is its own.
    os.mkdir(work.file("leftover"))
    for name in ("LOCK", "compare.json.tmp-0123abcd", "compare.csv.tmp-89abcdef"):
        work.write(f"leftover/{name}", '{"config": "conf')
    ok(work, *few, "leftover", "train.duration=2")
    check(not [f for f in os.listdir(work.file("leftover")) if ".tmp-" in f], f"left: {os.listdir(work.file('leftover'))}")
    with open(work.file("train.tsv"), "a", encoding="utf-8") as out:
        out.write("[MAX 1 2 ]\t2\n")
    check("the data is not what" in ok(work, *words("straight", size=size), code=3).stderr, "other data")
finish(120)
