# SPDX-License-Identifier: Apache-2.0
"""bench attention: a cell for each variant and length, the arithmetic of the formulas, what is left out and why, the three files, refusals."""
import csv
import io
import json
import os
import stat
import subprocess
import xml.etree.ElementTree as xml

from support import BINARY, Workplace, check, finish

DIM, HEADS, BATCH = 16, 2, 3
SVG = "{http://www.w3.org/2000/svg}"


def pairs(variant, n):
    return sum(min(n, i + 3) - max(0, i - 2) for i in range(n)) if variant == "local" else n * n


def flops(variant, n):
    """Forward and backward: four projections of 2 C^2 a row, backward twice that; softmax 4 and 10 D a pair; a linear state 4 and 8 D^2 a row."""
    own = 12 * n * (DIM // HEADS)**2 * HEADS if variant == "linear" else 14 * pairs(variant, n) * DIM
    return BATCH * (own + 6 * n * 4 * DIM**2)


with Workplace() as work:
    base = ["bench", "attention", "--attention", "full,local,linear", "--dim", str(DIM), "--heads", str(HEADS), "--batch", str(BATCH),
            "model.attention.local.left=2", "model.attention.local.right=2"]
    done = work.call(*base, "--lengths", "64,16", "--json", "--csv", "out.csv", "--picture", "out.svg")
    check(done.returncode == 0, done.stderr)
    result = json.loads(done.stdout)
    check([(c["attention"], c["length"]) for c in result["cells"]] == [(v, n) for v in ("full", "local", "linear") for n in (16, 64)], done.stdout)
    for cell in result["cells"]:
        check(cell["flops"] == flops(cell["attention"], cell["length"]), f"{cell}: {flops(cell['attention'], cell['length'])}")
        check(cell["forward_ms"] > 0 and cell["backward_ms"] > 0, str(cell))
        rate = cell["flops"] / (cell["forward_ms"] + cell["backward_ms"]) * 1000
        check(abs(cell["flops_per_s"] / rate - 1) < 1e-9 and abs(cell["share_of_peak"] - rate / result["peak_flops_per_s"]) < 1e-9, str(cell))
        check(cell["peak_bytes"] >= BATCH * cell["length"] * DIM * 4, "a pass makes at least its result")
    rows = list(csv.DictReader(io.StringIO(work.read("out.csv"))))
    check([(r["attention"], int(r["length"]), float(r["flops"]), int(r["peak_bytes"])) for r in rows]
          == [(c["attention"], c["length"], c["flops"], c["peak_bytes"]) for c in result["cells"]], str(rows))
    svg = xml.parse(work.file("out.svg")).getroot()
    check(len(svg.findall(SVG + "polyline")) == 3 and len(svg.findall(SVG + "circle")) == 6, "a curve for each variant")
    check({"full", "local", "linear"} <= {t.text for t in svg.iter(SVG + "text")}, "the legend")

    # Quadratic ones are left out where they would take too long; what follows from the formulas, not from the clock.
    done = work.call(*base, "--lengths", "16,65536", "--limit", "0.5", "--json")
    cells = {(c["attention"], c["length"]): c for c in json.loads(done.stdout)["cells"]}
    check("left out: would take about" in cells["full", 65536]["note"] and "forward_ms" not in cells["full", 65536], done.stdout)
    check("forward_ms" in cells["full", 16], done.stdout)
    table = work.call(*base, "--lengths", "16,65536", "--limit", "0.5").stdout.splitlines()
    check("attention" in table[0] and "of peak" in table[0] and "left out" in table[2] and len(table) == 7, str(table))

    # Lengths in thousands of 1024 rows.
    done = work.call(*base, "--lengths", "2k,16,1K", "--json")
    check({c["length"] for c in json.loads(done.stdout or '{"cells": []}')["cells"]} == {16, 1024, 2048}, done.stdout + done.stderr)

    # The files may be other things than files: standard output, the end of a link, a FIFO.
    short = [*base, "--lengths", "16", "--json"]
    head = work.read("out.csv").splitlines()[0]
    done = work.call(*short, "--csv", "/dev/stdout")
    check(done.returncode == 0 and done.stdout.splitlines()[0] == head and '"cells"' in done.stdout, f"a pipe: {done.stdout}{done.stderr}")
    with open(work.file("both.txt"), "w", encoding="utf-8") as out:
        done = subprocess.run([BINARY, *short, "--csv", "/dev/stdout"], cwd=work.path, stdout=out, stderr=subprocess.PIPE, text=True, check=False)
    check(done.returncode == 0 and work.read("both.txt").splitlines()[0] == head and '"cells"' in work.read("both.txt"), f"a file: {work.read('both.txt')}{done.stderr}")
    work.write("target.csv", "")
    os.symlink("target.csv", work.file("link.csv"))
    os.mkfifo(work.file("fifo"))
    with subprocess.Popen(["cat", work.file("fifo")], stdout=subprocess.PIPE, text=True) as reader:
        done = work.call(*short, "--csv", "link.csv", "--picture", "fifo")
        if not stat.S_ISFIFO(os.stat(work.file("fifo")).st_mode):
            reader.kill()
        check(done.returncode == 0 and "</svg>" in reader.communicate()[0], f"a FIFO: {done.stderr}")
    check(os.path.islink(work.file("link.csv")) and work.read("target.csv").splitlines()[0] == head, "a link")

    # Bad input.
    def refuse(code, words, *needles):
        work.refused(code, ["bench", "attention", "--csv", "run", *words], *needles)
    refuse(2, ["--attention", "fulll"], "unknown variant 'fulll'", "did you mean 'full'?")
    refuse(2, ["--lengths", "0"], "--lengths")
    for length in ("many", "k", "0k", "-1k", "4kk", "4 k", "1.5k", "9999999k"):
        refuse(2, ["--lengths", length], "--lengths", "0" if length == "0k" else length)
    refuse(2, ["--dim", "10", "--heads", "3"], "heads", "10")
    refuse(2, ["model.dim=128", "--lengths", "16"], "'model.dim' is 128", "--dim is 64")
    refuse(2, ["model.attention.heads=4", "--lengths", "16"], "'model.attention.heads' is 4", "--heads is 2")
    refuse(2, ["model.attention.local.lft=3"], "unknown key 'lft'", "left")
    done = work.call("bench", "attention", "--variants", "linear,full", "--lengths", "16", "model.attention.dropout=0.1", "--json")
    cells = {c["attention"]: c for c in json.loads(done.stdout)["cells"]}
    check(done.returncode == 0 and "model.attention.dropout" in cells["linear"]["note"] and "note" not in cells["full"], done.stdout)
    check(not [f for f in os.listdir(work.path) if ".tmp" in f], "something was left behind")
finish(109)
