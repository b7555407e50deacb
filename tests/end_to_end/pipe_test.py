# SPDX-License-Identifier: Apache-2.0
"""`predict` on a pipe that stays open: each row is answered before the next one is sent."""
import json
import os
import select
import subprocess

from support import BINARY, Workplace, check, finish

ARRAYS = """\
version: 1
data: {path: train.jsonl, values: values, missing: zero_with_flag}
model: {dim: 8, layers: 1, feed_forward: {dim: 8}, attention: {type: full, heads: 2}}
train: {duration: 3, batch_size: 2}
device: {threads: 1}
"""


def answer(process, seconds=60):
    """The next line of the results, or nothing when none comes in time."""
    ready, _, _ = select.select([process.stdout], [], [], seconds)
    return process.stdout.readline().decode().rstrip("\n") if ready else None


def talk(work, run, kind, header, rows):
    words = [BINARY, "predict", run, "-", "--input", kind]
    with subprocess.Popen(words, cwd=work.path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0) as process:
        process.stdin.write(header)
        for number, row in enumerate(rows, 1):
            process.stdin.write(row)
            if number == 1:
                check((answer(process) or "").startswith("id,"), f"{kind}: no header")
            line = answer(process)
            check(line is not None, f"{kind}: row {number} is not answered while the pipe is open")
            check(line.split(",")[0] == str(number), f"{kind}: row {number} is answered by {line}")
        # A row in two pieces waits for its end, and holds nothing back that stands before it.
        whole, half = rows[0], len(rows[0]) // 2
        process.stdin.write(whole + whole[:half])
        check(answer(process).split(",")[0] == str(len(rows) + 1), f"{kind}: a row is held back by half a row behind it")
        check(not select.select([process.stdout], [], [], 0.3)[0], f"{kind}: half a row is answered")
        process.stdin.write(whole[half:])
        check(answer(process).split(",")[0] == str(len(rows) + 2), f"{kind}: the second half does not complete the row")
        process.stdin.write(whole.rstrip(b"\n"))
        process.stdin.close()
        check(answer(process).split(",")[0] == str(len(rows) + 3), f"{kind}: the last row without a line end")
        check(process.stdout.read() == b"" and process.wait() == 0, process.stderr.read().decode())


with Workplace() as work:
    work.train("run")
    texts = ["[MAX 2 9 ]", "[MIN 1 2 3 4 ]", "[SM 5 5 ]"]
    talk(work, "run", "text", b"", [f"{t}\n".encode() for t in texts])
    talk(work, "run", "tsv", b"Source\tother\n", [f"{t}\t7\n".encode() for t in texts])
    talk(work, "run", "csv", b"other,Source\n", [f"7,\"{t}\"\r\n".encode() for t in texts])
    talk(work, "run", "jsonl", b"", [f'{{"Source": "{t}"}}\n'.encode() for t in texts])
    # A sample whose name is empty has a cell for it all the same.
    for kind, delimiter in (("csv", ","), ("tsv", "\t")):
        done = work.call("predict", "run", "-", "--input", "csv", "--id", "name", "--format", kind, stdin=f"name,Source\na,{texts[0]}\n,{texts[1]}\n")
        cells = [line.split(delimiter) for line in done.stdout.splitlines()]
        check([c[0] for c in cells] == ["id", "a", ""] and {len(c) for c in cells} == {3}, f"{kind}: {done.stdout}{done.stderr}")

    # A standard input that does not wait by itself, as some shells and editors leave it.
    out, into = os.pipe()
    os.set_blocking(out, False)
    with subprocess.Popen([BINARY, "predict", "run", "-", "--input", "text"], cwd=work.path, stdin=out, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          bufsize=0) as process:
        check((answer(process) or "").startswith("id,"), "no header")
        for number, text in enumerate(texts, 1):
            check(answer(process, 0.2) is None, f"an answer before row {number}")
            os.write(into, f"{text}\n".encode())
            check((answer(process) or "").startswith(f"{number},"), f"row {number} is not answered")
        os.close(into)
        check(process.wait() == 0, f"exit {process.returncode} {process.stderr.read().decode()}")
    os.close(out)

    with open(work.file("arrays.yaml"), "w", encoding="utf-8") as out:
        out.write(ARRAYS)
    with open(work.file("train.jsonl"), "w", encoding="utf-8") as out:
        for i in range(20):
            out.write(f'{{"values": [[{i % 3}, {i}], [null, 1]], "label": "{"even" if i % 2 == 0 else "odd"}"}}\n')
    done = work.call("train", "arrays.yaml", "-o", "arrays")
    check(done.returncode == 0, done.stderr)
    talk(work, "arrays", "jsonl", b"", [b'{"values": [[1, 2], [3, null]]}\n', b'{"values": [[1, 2]]}\n'])
    done = work.call("predict", "arrays", "-", "--input", "jsonl", stdin='{"values": [[1, 2, 3]]}\n')
    check(done.returncode == 3 and "3 numbers in a row, the model reads 2" in done.stderr, done.stderr)
    done = work.call("predict", "arrays", "-", "--input", "csv", stdin="values\n1\n")
    check(done.returncode == 2, done.stderr)
    # What becomes of long and empty samples may change; how the model was made may not.
    long = "1 " * 70
    done = work.call("predict", "run", "-", stdin=f"{texts[0]}\n\n{long}\n")
    check(done.returncode == 3 and "data.empty: skip" in done.stderr, done.stderr)
    done = work.call("predict", "run", "-", "data.empty=skip", stdin=f"{texts[0]}\n\n{long}\n")
    check(done.returncode == 3 and "data.truncate" in done.stderr, done.stderr)
    for words in (["-", "data.empty=skip", "data.truncate=right"], ["data.empty=skip", "data.truncate=right"], ["data.truncate=right", "-", "data.empty=skip"]):
        done = work.call("predict", "run", *words, stdin=f"{texts[0]}\n\n{long}\n")
        check(done.returncode == 0 and [line.split(",")[0] for line in done.stdout.splitlines()] == ["id", "1", "3"], f"{words}: {done.stdout}{done.stderr}")
        check("1 empty ones left out" in done.stderr and "1 sequences cut to 64 rows" in done.stderr, done.stderr)
    work.refused(2, ["predict", "run", "-", "optim.lr=1"], "'optim.lr=1' is no file, and no key that predict can change", "data.truncate", run="none")
    work.refused(2, ["predict", "run", "no=such.tsv"], "'no=such.tsv' is no file", run="none")
    work.refused(2, ["eval", "run", "data.max_length=3"], "'data.max_length=3' is no file, and no key that eval can change", run="none")
    for words in ([], ["data.truncate=right"]):
        done = work.call("attn", "run", "--text", long, "-o", "map", *words)
        check(done.returncode == (0 if words else 3), f"attn {words}: exit {done.returncode} {done.stderr}")
    # Evaluation too.
    work.write("long.tsv", f"Source\tTarget\n{texts[0]}\t9\n{long}\t1\n")
    work.refused(3, ["eval", "run", "data.test.path=long.tsv"], "long.tsv:3", "data.truncate", run="none")
    done = work.call("eval", "run", "data.test.path=long.tsv", "data.truncate=left", "--json")
    check(done.returncode == 0 and json.loads(done.stdout)["samples"] == 2, done.stderr)
    # A row of JSON without the key is no empty sample.
    done = work.call("predict", "run", "-", "data.empty=skip", "--input", "jsonl", stdin=f'{{"Source": "{texts[0]}"}}\n{{"Sauce": "x"}}\n')
    check(done.returncode == 3 and "row 2, column 'Source': the row has no such key" in done.stderr, done.stderr)
    # Ids are of one type, in predictions and in evaluations.
    done = work.call("predict", "run", "-", "--format", "jsonl", stdin=f"{texts[0]}\n")
    check(json.loads(done.stdout)["id"] == "1", done.stdout)
    many = work.file("many.csv")
    with open(many, "w", encoding="utf-8") as out:
        out.write("Source\n" + "".join(f"{t}\n" for t in texts) * 3000)
    with open(many, encoding="utf-8") as lines:
        piped = work.call("predict", "run", "-", "--input", "csv", stdin=lines.read())
    check(piped.returncode == 0 and piped.stdout == work.call("predict", "run", many).stdout, "a pipe and a file give other results")
    check(len(piped.stdout.splitlines()) == 9001, f"{len(piped.stdout.splitlines())} lines")
finish(50)
