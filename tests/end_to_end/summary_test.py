# SPDX-License-Identifier: Apache-2.0
"""model summary: the sizes that it prints are those it computed for; options that the config has no use for are refused."""
import json

from support import CONFIG, Workplace, check, finish


def summary(work, *words):
    done = work.call("model", "summary", *words, "--json")
    check(done.returncode == 0, f"model summary {words}: exit {done.returncode}\n{done.stderr}")
    return json.loads(done.stdout)


def lengths(work):
    short, long = (summary(work, "config.yaml", "model.position.type=none", "model.attention.type=linear", f"data.max_length={n}") for n in (1, 1 << 24))
    check(long["length"] == 1 << 24 and short["length"] == 1, f"lengths {short['length']} and {long['length']}")
    check(long["parts"][0]["saved_bytes"] == (1 << 24) * short["parts"][0]["saved_bytes"], "the embedding of the longest sequence")
    for length in ((1 << 24) + 1, 2**32 + 5):
        work.refused(2, ["model", "summary", "config.yaml", f"data.max_length={length}"], "data.max_length", "16777216", str(length))
        work.refused(2, ["bench", "step", "config.yaml", f"data.max_length={length}"], "data.max_length")


def inputs(work):
    work.write("numbers.yaml", CONFIG.replace(".tsv", ".csv").replace("  max_length", "  sequence: sequence\n  max_length"))
    work.write("values.yaml", CONFIG.replace(".tsv", ".h5"))
    work.write("targets.yaml", CONFIG.replace("task: classification", "task: regression").replace("label: Target", "target: [a, b]"))
    check(summary(work, "numbers.yaml", "data.window.length=40", "~data.max_length")["length"] == 40, "the length of the windows")
    # HDF5 holds tokens or numbers; which, only the file says, or the option.
    tokens, rows = summary(work, "values.yaml", "--vocab", "50"), summary(work, "values.yaml", "--features", "3")
    check((tokens["vocab_size"], tokens["features"]) == (50, 0), str(tokens))
    check((rows["vocab_size"], rows["features"]) == (0, 3), str(rows))
    check(summary(work, "numbers.yaml", "--features", "5")["features"] == 5, "a long table")
    check(summary(work, "values.yaml", "--features", "3", "data.missing=zero_with_flag")["features"] == 6, "a flag beside each number")
    check(summary(work, "targets.yaml", "--vocab", "50")["outputs"] == 2, "two targets")
    for words, needles in ((["config.yaml", "--features", "3"], ["--features 3", "data.text"]),
                           (["config.yaml", "data.task=tagging", "--features", "3"], ["--features 3", "data.tokens"]),
                           (["numbers.yaml", "--vocab", "50"], ["--vocab 50", "data.sequence"]),
                           (["values.yaml", "--vocab", "50", "--features", "3"], ["--vocab 50", "--features 3"]),
                           (["targets.yaml", "--classes", "3"], ["--classes 3", "data.task: regression"])):
        work.refused(2, ["model", "summary", *words], *needles)


with Workplace() as work:
    for part in (lengths, inputs):
        part(work)
finish(50)
