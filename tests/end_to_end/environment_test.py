# SPDX-License-Identifier: Apache-2.0
"""What surrounds a run changes nothing in it: locale, time zone, paths, umask, closed streams, threads, signals, other runs in the same directory."""
import json
import os
import re
import shutil
import signal
import subprocess
import time

from support import BINARY, CONFIG, Workplace, check, finish

LONG = ["train.duration=8000", "checkpoint.every=1000", "eval.every=1000", "log.every=500", "device.threads=1", "model.layers=1"]


def surroundings(work):
    # C-10, P-5: five environments, one result.
    work.train("plain")
    environments = {"locale": {"LC_ALL": "de_DE.UTF-8", "LANG": "de_DE.UTF-8"}, "zone": {"TZ": "Pacific/Apia"}, "broken": {"LC_ALL": "xx", "TZ": ":no/where"},
                    "posix": {"LC_ALL": "POSIX", "HOME": "", "TMPDIR": "/nonexistent", "COLUMNS": "x", "TERM": ""}}
    for name, variables in environments.items():
        done = work.call("train", "config.yaml", "-o", name, env=variables)
        check(done.returncode == 0, f"{variables}: exit {done.returncode}\n{done.stderr}")
        check(work.same("plain", name) is None, f"{variables}: {work.same('plain', name)}")
    for name in ("with space", "übung-日本", "two\nlines", "quote'd \"and\" $HOME", "-o"):
        place = work.file("in " + name)
        os.makedirs(place)
        for part in ("train.tsv", "valid.tsv", "test.tsv", "config.yaml"):
            shutil.copy(work.file(part), place)
        run = os.path.join(place, "run " + name)
        done = subprocess.run([BINARY, "train", "config.yaml", f"--output={run}"], cwd=place, capture_output=True, text=True, check=False, timeout=60)
        check(done.returncode == 0, f"in {place!r}: exit {done.returncode}\n{done.stderr}")
        check(work.same("plain", run) is None, f"in {place!r}: {work.same('plain', run)}")
        done = work.call("eval", run, "--split", "valid", "--json")
        check(done.returncode == 3 or json.loads(done.stdout)["samples"] == 16, f"eval {run!r}: {done.stderr}")
    for mask in (0o077, 0o000):
        done = subprocess.run([BINARY, "train", "config.yaml", "-o", f"mask-{mask}"], cwd=work.path, capture_output=True, check=False, umask=mask, timeout=60)
        check(done.returncode == 0 and work.same("plain", f"mask-{mask}") is None, f"umask {mask:o}: exit {done.returncode}")
    check(os.stat(work.file(f"mask-{0o077}", "metrics.jsonl")).st_mode & 0o077 == 0, "umask 077 is kept")


def streams(work):
    # P-2: closed, full and abandoned streams, a terminal that goes away.
    for name, redirect in (("stderr", "2>&-"), ("stdout", ">&-"), ("all", "<&- >&- 2>&-"), ("full", "2>/dev/full >/dev/full"), ("pipe", "2>&1 | true")):
        done = subprocess.run(["bash", "-c", f"'{BINARY}' train config.yaml -o closed-{name} {redirect}; exit ${{PIPESTATUS[0]}}"], cwd=work.path,
                              capture_output=True, check=False, timeout=60)
        check(done.returncode == 0, f"{redirect}: exit {done.returncode}")
        check(work.same("plain", f"closed-{name}") is None, f"{redirect}: {work.same('plain', f'closed-{name}')}")
    check(os.listdir(work.file("closed-all")) and not b"step" in open(work.file("closed-all", "LOCK"), "rb").read(), "messages went into the lock")
    done = subprocess.run(["bash", "-c", f"'{BINARY}' eval plain --json >/dev/full"], cwd=work.path, capture_output=True, text=True, check=False, timeout=60)
    check(done.returncode == 6 and "standard output" in done.stderr, f"a full stdout: exit {done.returncode} {done.stderr}")
    process = start(work, "hangup")
    process.send_signal(signal.SIGHUP)
    check(process.wait(timeout=120) == 0 and work.same("straight", "hangup") is None, f"SIGHUP: exit {process.returncode}")


def limits(work):
    # fewer threads than asked for are said, and nothing is left behind.
    for words in ("train config.yaml -o crowded device.threads=64", "predict plain --threads 64 test.tsv"):
        done = subprocess.run(["bash", "-c", f"ulimit -v 400000; exec '{BINARY}' {words}"], cwd=work.path, capture_output=True, text=True, check=False, timeout=60)
        check(done.returncode == 6 and re.search(r"only \d+ of 64 threads", done.stderr) and not done.stdout, f"{words}: exit {done.returncode} {done.stderr}")
    check(not os.path.exists(work.file("crowded")), "a run without threads left its directory")


def start(work, run, *words, **options):
    """A run that has made its first update."""
    process = subprocess.Popen([BINARY, "train", "config.yaml", "-o", run, *LONG, *words], cwd=work.path, stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, text=True, **options)
    end = time.time() + 60
    while process.poll() is None and not os.path.exists(work.file(run, "run.json")) and time.time() < end:
        time.sleep(0.002)
    time.sleep(0.05)
    ended = process.poll() is not None
    check(not ended, f"{run}: ended too early: {process.communicate()[1] if ended else ''}")
    return process


def signals(work):
    work.train("straight", *LONG)
    # J03: the whole group is signalled, twice over two sittings; each time one save and the newest file goes on.
    process = start(work, "group", start_new_session=True)
    for sitting in range(2):
        os.killpg(process.pid, signal.SIGTERM)
        _, messages = process.communicate(timeout=60)
        check(process.returncode == 143 and messages.count("stopped and saved") == 1, f"sitting {sitting}: exit {process.returncode}\n{messages}")
        step = json.loads(work.read("group", "run.json"))["step"]
        check(work.checkpoints("group")[-1] == f"step-{step:08}.h5", f"sitting {sitting}: step {step}, {work.checkpoints('group')}")
        if sitting == 0:
            process = subprocess.Popen([BINARY, "train", "--resume", "group"], cwd=work.path, stderr=subprocess.PIPE, text=True, start_new_session=True)
            while json.loads(work.read("group", "run.json"))["status"] != "running":
                time.sleep(0.002)
            time.sleep(0.05)
    work.resume("group")
    check(work.same("straight", "group") is None, f"after two signals to the group: {work.same('straight', 'group')}")
    # P-1, J01: a second signal leaves at once and spoils nothing.
    process = start(work, "twice")
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGTERM)
    check(process.wait(timeout=30) in (130, 143), f"two signals: exit {process.returncode}")
    if work.checkpoints("twice"):
        work.resume("twice")
        check(work.same("straight", "twice") is None, "after two signals the run goes on")


def one_winner(work):
    # J04, P-3: eight starts at once, in a new directory, over an old run and in a run that waits; one owner each time.
    def race(run, words):
        processes = [subprocess.Popen([BINARY, *words], cwd=work.path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) for _ in range(8)]
        ends = [(p.communicate(timeout=120)[1], p.returncode) for p in processes]
        return sorted(code for _, code in ends), ends

    for turn in range(3):
        codes, ends = race(f"race-{turn}", ["train", "config.yaml", "-o", f"race-{turn}"])
        check(codes == [0] + [6] * 7, f"fresh start {turn}: {codes}\n{ends}")
        check(work.same("plain", f"race-{turn}") is None, f"the winner of {turn}: {work.same('plain', f'race-{turn}')}")
    check(not [f for f in os.listdir(work.path) if ".old-" in f], "a fresh start moved something aside")
    work.copy_as_killed("race-0", 4, "waiting")
    codes, ends = race("waiting", ["train", "--resume", "waiting"])
    check(codes.count(0) >= 1 and set(codes) <= {0, 6}, f"resumed at once: {codes}\n{ends}")
    check(work.same("plain", "waiting") is None, f"resumed at once: {work.same('plain', 'waiting')}")
    codes, ends = race("race-1", ["train", "config.yaml", "-o", "race-1", "--overwrite"])
    check(codes.count(0) >= 1 and set(codes) <= {0, 6}, f"overwritten at once: {codes}\n{ends}")
    check(work.same("plain", "race-1") is None, f"overwritten at once: {work.same('plain', 'race-1')}")
    aside = [f for f in os.listdir(work.path) if f.startswith("race-1.old-")]
    check(len(aside) == codes.count(0), f"{codes.count(0)} runs overwrote, {aside} stand aside")
    for name in aside:
        check(work.same("plain", name) is None, f"{name}, moved aside, is not whole: {work.same('plain', name)}")


def threads(work):
    # J06, N-9: fifty updates on any number of threads, all kinds of layers, repeated.
    words = ["train.duration=50", "model.attention.type=[local, linear]", "model.norm.type=[batch_norm, layer_norm]", "train.batch_tokens=100"]
    work.train("threads-1", *words, "device.threads=1")
    for count in (1, 2, 3, 8):
        run = f"threads-again-{count}"
        work.train(run, *words, f"device.threads={count}")
        check(work.same("threads-1", run) is None, f"{count} threads: {work.same('threads-1', run)}")


with Workplace() as work:
    check("duration: 12" in CONFIG, "the short run has 12 updates")
    for part in (surroundings, signals, streams, limits, one_winner, threads):
        part(work)
finish(70)
