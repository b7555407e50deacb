# SPDX-License-Identifier: Apache-2.0
"""model summary: the sizes that it prints are those it computed for."""
import json

from support import Workplace, check, finish


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


with Workplace() as work:
    for part in (lengths,):
        part(work)
finish(15)
