# SPDX-License-Identifier: Apache-2.0
"""BatchNorm on the command line: batches of one row, statistics that are saved and used, evaluation without side effects."""
import json
import os
import shutil

import h5py
import numpy

from support import CONFIG, Workplace, check, finish

NORM = ["model.norm.type=batch_norm"]
SERIES = CONFIG[:CONFIG.index("  train: {path")] + """\
  train: {path: train.csv}
  valid: {path: valid.csv}
  sequence: sequence
  standardize: false
""" + CONFIG[CONFIG.index("tokenizer:"):]


def one_row(work):
    # B01: 65 samples in batches of 8, and batches of 1. With samples of one row this is refused before the first update, by sizes; with longer ones it works.
    header, *rows = work.read("train.tsv").splitlines()
    rows = [r for r in rows if len(r.split("\t")[0].split()) > 1]
    rows = (rows * 3)[:64]
    parts = ["data.train.path=sizes.tsv", 'data.valid.path=""', 'data.test.path=""', "train.duration=2ep"]
    for last, code in ((rows[0], 0), ("7\t7", 3)):
        work.write("sizes.tsv", "\n".join([header, *rows, last]) + "\n")
        for size, micro in ((8, "auto"), (1, "auto"), (13, 4)):
            words = [*parts, *NORM, f"train.batch_size={size}", f"train.micro_batch_size={micro}"]
            if code:
                work.refused(3, ["train", "config.yaml", "-o", "run", *words], "batch_norm", "sample 65", "one row", "train.batch_size", "layer_norm")
            else:
                work.train(f"sizes-{size}", *words)
                check(all(numpy.isfinite(v).all() for v in work.parameters(f"sizes-{size}").values()), f"batches of {size}: not finite")
        for extra in (["train.batch_size=65"], ["model.norm.freeze=true"], ["model.norm.type=layer_norm", "train.batch_size=1"]):
            work.train(f"fine-{code}-{len(extra)}-{extra[0]}", *parts, *NORM, "train.batch_size=8", *extra)


def one_row_elsewhere(work):
    # Batches by tokens that leave a sample of one row alone, in any order or only in some; there are none where it has company, or where the
    # run ends before.
    header, *rows = work.read("train.tsv").splitlines()
    rows = [r for r in rows if len(r.split("\t")[0].split()) > 1]
    long = "[MAX " + "1 " * 7 + "]\t1"  # 9 rows
    words = [*NORM, "train.batch_tokens=9", "train.duration=4ep", "data.train.path=tokens.tsv", 'data.valid.path=""', 'data.test.path=""']
    work.write("tokens.tsv", "\n".join([header, *[long] * 5, "7\t1"]) + "\n")
    work.refused(3, ["train", "config.yaml", "-o", "run", *words], "batch_norm", "sample 6", "train part", "one row", "train.batch_tokens")
    for name, extra in (("company", ["train.batch_tokens=10", "train.micro_batch_size=2"]), ("frozen", ["model.norm.freeze=true"]), ("ends", ["data.shuffle=false", "train.duration=5"])):
        work.train(f"tokens-{name}", *words, *extra)
    work.write("tokens.tsv", "\n".join([header, *[long] * 3, "[MAX 1 1 1 1 1 1 ]\t1", "7\t1"]) + "\n")  # the last fits beside the one before it
    once = next(i for i in range(30) if work.call("train", "config.yaml", "-o", f"once-{i}", *words, f"run.seed={i}", "train.duration=1ep").returncode == 0)
    work.refused(3, ["train", "config.yaml", "-o", "run", *words, f"run.seed={once}", "train.duration=30ep"], "sample 5", "train part", "one row")
    # An evaluation with the batches' own statistics, in the run and afterwards, and a recalibration.
    words = [*NORM, "eval.batch_size=8"]
    work.write("last.tsv", "\n".join([header, *rows[:8], "7\t1"]) + "\n")
    own = [*words, "eval.batchnorm=batch", "data.valid.path=last.tsv"]
    work.refused(3, ["train", "config.yaml", "-o", "run", *own], "batch_norm", "sample 9", "valid part", "one row", "eval.batch_size")
    work.refused(3, ["train", "config.yaml", "-o", "run", *own, "eval.batch_size=1"], "sample 9", "valid part")
    work.train("own", *own, "eval.batch_size=9")
    work.train("evaluated", *words, "data.train.path=last.tsv", "train.batch_size=9", 'data.valid.path=""', "data.test.path=last.tsv", "train.duration=2")
    for batchnorm, part in (("batch", "test"), ("recalibrate", "train")):
        done = work.call("eval", "evaluated", "--batchnorm", batchnorm)
        check(done.returncode == 3 and all(w in done.stderr for w in ("sample 9", f"{part} part", "one row")), f"{batchnorm}: exit {done.returncode} {done.stderr}")
        check(not os.path.exists(work.file("evaluated", "eval")), f"{batchnorm}: wrote something")
        check(work.call("eval", "evaluated", "--batchnorm", batchnorm, "eval.batch_size=9").returncode == 0, f"{batchnorm} of nine")
        shutil.rmtree(work.file("evaluated", "eval"))
    check(work.call("eval", "evaluated").returncode == 0, "running statistics")


def statistics(work):
    # B04, B05: inputs with mean 100; the saved statistics give the metrics of the run itself, and are those of the data.
    generator = numpy.random.default_rng(1)
    for part, count in (("train", 60), ("valid", 20)):
        lines = ["sequence,a,b,label"]
        for s in range(count):
            for _ in range(3 + s % 5):
                a, b = 100 + generator.normal(size=2)
                lines.append(f"{s},{a:.4f},{b:.4f},{s % 2}")
        work.write(part + ".csv", "\n".join(lines) + "\n")
    work.write("series.yaml", SERIES)
    done = work.call("train", "series.yaml", "-o", "hundred", *NORM, "train.duration=200", "eval.every=50", "checkpoint.every=50", "checkpoint.best=none",
                     "model.dropout=0", "optim.lr=1e-5", "schedule.type=constant", "schedule.warmup=0")
    check(done.returncode == 0, done.stderr)
    logged = [m for m in work.metrics("hundred") if m["split"] == "valid"][-1]
    result = json.loads(work.call("eval", "hundred", "--split", "valid", "--json").stdout)
    for name in ("loss", "accuracy", "f1_macro", "mcc"):
        check(result[name] == logged[f"valid/{name}"], f"{name} is {result[name]} from the checkpoint and {logged[f'valid/{name}']} in the run")
    file = work.file("hundred", "checkpoints", work.checkpoints("hundred")[-1])
    listing = work.call("inspect", file).stdout
    check("running_mean" in listing and "running_var" in listing, "inspect lists the statistics")
    done = work.call("eval", "hundred", "--split", "valid", "--batchnorm", "recalibrate", "--json")
    check(done.returncode == 0, done.stderr)
    again = json.loads(done.stdout)["loss"]
    check(abs(again - result["loss"]) < 0.1 * result["loss"], f"running statistics give {result['loss']}, those of the whole data {again}")
    with h5py.File(file, "r") as h5:
        mean = h5["buffers/encoder.layers.0.attention_norm.running_mean"][()]
        check(numpy.abs(mean).max() > 10, f"the first statistics do not see a mean of 100: {mean}")
        check(int(h5["buffers/encoder.layers.0.attention_norm.num_batches_tracked"][0]) == 200, "the statistics moved once an update")


def no_side_effects(work):
    # B09: evaluation in the middle of an epoch changes nothing, with dropout and BatchNorm on; the same for any way of evaluating.
    words = [*NORM, "model.dropout=0.5", "checkpoint.best=none", "checkpoint.every=100", "log.every=100"]
    work.train("never", *words, "eval.every=100")
    for name, extra in (("often", ["eval.every=3"]), ("batch", ["eval.every=1", "eval.batchnorm=batch"]), ("small", ["eval.every=2", "eval.batch_size=1"])):
        work.train(name, *words, *extra)
        difference = work.same("never", name)
        check(difference is None or difference.startswith(("control", "metrics")), f"{name}: {difference}")
    # N-8: frozen from the start, the statistics stay as they begin; from an update on, as they were then.
    for name, extra, batches in (("frozen", ["model.norm.freeze=true"], 0), ("later", ["model.norm.freeze_from=5"], 4)):
        work.train(name, *NORM, *extra)
        with h5py.File(work.file(name, "checkpoints", "step-00000012.h5"), "r") as h5:
            tracked = int(h5["buffers/encoder.layers.0.attention_norm.num_batches_tracked"][0])
            check(tracked == batches, f"{name}: {tracked} batches tracked, expected {batches}")


def frozen_by_name(work):
    # B03: a frozen layer keeps its weights and its statistics, also from a run that it starts with; the others move.
    work.train("source", *NORM, "checkpoint.best=none")
    words = [*NORM, "train.frozen=[embedding.*, encoder.layers.0.*]", "averaging.decay=0.5", "checkpoint.best=none"]
    work.train("tuned", *words, "--init-from", "source")
    files = [h5py.File(work.file(run, "checkpoints", work.checkpoints(run)[-1]), "r") for run in ("source", "tuned")]
    counts = {True: 0, False: 0}
    for group in ("model", "buffers"):
        for name in files[0][group]:
            stays = name.startswith(("embedding.", "encoder.layers.0."))
            same = bool((files[0][group][name][()] == files[1][group][name][()]).all())
            check(same == stays, f"{group}/{name}: the same is {same}")
            counts[stays] += 1
    check(counts[True] > 15 and counts[False] > 15, f"{counts}")
    check("encoder.layers.0.attention.query.weight: not trainable" in work.call("inspect", work.file("tuned", "checkpoints", work.checkpoints("tuned")[-1])).stdout,
          "inspect says what is not trainable")
    check(not any(name.startswith("encoder.layers.0") for slot in files[1]["optimizer"] for name in files[1]["optimizer"][slot]), "no moments of what is frozen")
    done = work.call("eval", "tuned", "--split", "valid")
    check(done.returncode == 0 and "averaged" in done.stderr, f"averages of what was trained, and the rest as it was: {done.stderr}")
    loss = json.loads(work.call("eval", "tuned", "--split", "valid", "--json").stdout)["loss"]
    logged = [m for m in work.metrics("tuned") if m["split"] == "valid"][-1]["valid/loss"]
    check(loss == logged, f"the run's last loss is {logged}, that of its checkpoint {loss}")
    check(not any(name.startswith("encoder.layers.0") for name in files[1]["ema"]), "no averages of what is frozen")
    for file in files:
        file.close()
    # Stopped and taken up again it is the same run.
    work.copy_as_killed("tuned", 4, "half")
    work.resume("half")
    check(work.same("tuned", "half") is None, f"resumed: {work.same('tuned', 'half')}")
    # Draws that are only counted are the seed's.
    work.train("hashed", "model.attention.type=reformer", "checkpoint.best=none")
    for seed, warns in ((7, False), (8, True)):
        done = work.train(f"hashed-{seed}", "model.attention.type=reformer", "--init-from", "hashed", "train.frozen=encoder.layers.0.*", f"run.seed={seed}")
        check(("run.seed' 7 and is drawn from 8" in done.stderr) == warns, f"seed {seed}: {done.stderr}")
    # With every BatchNorm frozen nothing uses a batch's own statistics, and nothing says that it did.
    work.train("fixed", *NORM, "train.frozen='*norm.*'", "train.batch_size=1", "--init-from", "source")
    for source in ("batch", "recalibrate"):
        work.refused(2, ["eval", "fixed", "--split", "valid", "--batchnorm", source], f"--batchnorm {source}", "train.frozen=[]", run="fixed/eval")
        done = work.call("eval", "fixed", "train.frozen=[]", "eval.batch_size=8", "--split", "valid", "--batchnorm", source)
        check(done.returncode == 0, f"what the message advises: {done.stderr}")
        shutil.rmtree(work.file("fixed", "eval"))
    done = work.call("eval", "tuned", "--split", "valid", "--batchnorm", "batch")
    check(done.returncode == 0 and "(3 of 5, the others are frozen)" in done.stderr, f"some are frozen: {done.stderr}")
    work.refused(2, ["train", "config.yaml", "-o", "run", "train.frozen=[encoder.layer.0.*]"], "train.frozen", "encoder.layer.0.*", "embedding.tokens.weight")
    work.refused(2, ["train", "config.yaml", "-o", "run", "train.frozen='*'"], "train.frozen", "none to train")


def told_as_used(work):
    # Where only the running statistics can be used, eval does not say that it used others.
    work.train("layers", "eval.every=12")
    def at(run, update):
        return work.file(run, "checkpoints", f"step-{update:08d}.h5")
    for model, needles in (("layers", ["no BatchNorm", "model.norm.type"]), ("frozen", ["model.norm.freeze: true", "model.norm.freeze=false"]),
                           (at("later", 12), ["model.norm.freeze_from: 5", "model.norm.freeze_from=0"])):
        for source in ("batch", "recalibrate"):
            work.refused(2, ["eval", model, "--split", "valid", "--batchnorm", source], f"--batchnorm {source}", *needles, run="layers/eval")
        done = work.call("eval", model, "--split", "valid")
        check(done.returncode == 0 and ("; BatchNorm: running statistics" in done.stderr) == (model != "layers"), f"{model}: {done.stderr}")
        shutil.rmtree(work.file("layers", "eval"), ignore_errors=True)
    for model, extra in (("frozen", ["model.norm.freeze=false"]), (at("later", 12), ["model.norm.freeze_from=0"]), (at("later", 4), [])):
        for source, says in (("batch", "its own statistics for each of 2"), ("recalibrate", "recalibrated on 6")):
            done = work.call("eval", model, *extra, "--split", "valid", "--batchnorm", source)
            check(done.returncode == 0 and says in done.stderr, f"{model} {extra} {source}: exit {done.returncode} {done.stderr}")


with Workplace() as work:
    for part in (one_row, one_row_elsewhere, statistics, no_side_effects, frozen_by_name, told_as_used):
        part(work)
finish(110)
