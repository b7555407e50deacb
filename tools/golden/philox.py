#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/philox.json: the key and first words of every purpose that draws random numbers, computed apart from the C++ code.

Philox-4x32-10 after Salmon, Moraes, Dror, Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3"; keys are XXH64 of
"<purpose>:<name>[:<head>[:<round>]]" seeded with the run's seed. Needs Debian's python3-xxhash.
Usage: tools/golden/philox.py > tests/golden/philox.json
"""
import json
import math
import sys

import xxhash

MASK = 0xFFFFFFFF
NO_SAMPLE = MASK
# purpose, name, head, round, seed; then (row, column, sample, step) of some draws.
CASES = [
    ("init", "encoder.layers.0.attention.query.weight", None, None, 1, [(0, 0, NO_SAMPLE, 0), (15, 63, NO_SAMPLE, 0)]),
    ("init", "embedding.tokens.weight", None, None, 0, [(0, 0, NO_SAMPLE, 0), (9, 6, NO_SAMPLE, 0)]),
    ("dropout", "embedding", None, None, 1, [(0, 0, 0, 1), (41, 7, 5, 1)]),
    ("dropout", "encoder.layers.0.feed_forward", None, None, 1, [(0, 0, 0, 1), (3, 18, 4294967294, 4294967295)]),
    ("dropout", "encoder.layers.0.feed_forward.inner", None, None, 2**64 - 1, [(0, 1, 12, 100)]),
    ("attention_dropout", "encoder.layers.0.attention", 0, None, 1, [(0, 0, 0, 1), (1000, 999, 3, 17)]),
    ("attention_dropout", "encoder.layers.11.attention", 11, None, 1, [(0, 2, 0, 1)]),
    ("order", "data", None, None, 1, [(0, 0, NO_SAMPLE, 0), (3, 20, NO_SAMPLE, 7)]),
    ("split", "fish", None, None, 1, [(0, 0, NO_SAMPLE, 0)]),
    ("split", "\u00e9t\u00e9", None, None, 1, [(2, 4, NO_SAMPLE, 0)]),
    ("data", "listops", None, None, 1, [(0, 0, 0, 0), (0, 40, 70000, 0)]),
    ("rotations", "encoder.layers.0.attention", 1, 3, 1, [(0, 0, NO_SAMPLE, 0), (7, 9, NO_SAMPLE, 2)]),
    ("layout", "encoder.layers.0.attention", 1, None, 1, [(1, 0, NO_SAMPLE, 17), (16, 13, NO_SAMPLE, 17)]),
    ("planes", "encoder.layers.0.attention", 0, None, 1, [(0, 0, NO_SAMPLE, 0), (31, 16, NO_SAMPLE, 5)]),
    ("picks", "encoder.layers.0.attention", 0, None, 1, [(0, 0, NO_SAMPLE, 0), (0, 299, NO_SAMPLE, 5)]),
    ("features", "encoder.layers.0.attention", 3, 0, 1, [(0, 0, NO_SAMPLE, 0), (255, 15, NO_SAMPLE, 2)]),
    ("features", "encoder.layers.0.attention", 3, 1, 1, [(0, 0, NO_SAMPLE, 0)]),
    ("features", "encoder.layers.0.attention", None, None, 1, [(0, 0, NO_SAMPLE, 0)]),
    ("centroids", "encoder.layers.0.attention", 2, None, 1, [(0, 0, NO_SAMPLE, 0), (15, 31, NO_SAMPLE, 0)]),
    ("gumbel", "encoder.layers.0.attention", 1, 0, 1, [(0, 0, 3, 17), (4, 2, 3, 17)]),
    ("pack_dropout", "encoder.layers.0.attention", 0, None, 1, [(15, 299, 3, 17)]),
    ("cluster_dropout", "encoder.layers.0.attention", 0, None, 1, [(15, 299, 3, 17)]),
]
PERMUTATIONS = [(1, 0, 1), (1, 0, 10), (1, 1, 10), (1, 0, 16), (9, 3, 1000), (1, 0, 54000)]  # seed, epoch, n


def philox(counter, key):
    c, k = list(counter), [key & MASK, key >> 32]
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k[0], b & MASK, (a >> 32) ^ c[3] ^ k[1], a & MASK]
        k = [(k[0] + 0x9E3779B9) & MASK, (k[1] + 0xBB67AE85) & MASK]
    return c


def key_of(seed, *parts):
    return xxhash.xxh64_intdigest(":".join(str(p) for p in parts if p is not None).encode(), seed=seed)


def permuted(key, epoch, n, index):
    """Four Feistel rounds over the least even number of bits that holds n - 1, again until the value is below n."""
    half = max(1, ((n - 1).bit_length() + 1) // 2)
    mask = (1 << half) - 1
    while True:
        left, right = index >> half, index & mask
        for turn in range(4):
            left, right = right, (left ^ philox((right, turn, NO_SAMPLE, epoch), key)[0]) & mask
        index = left << half | right
        if index < n:
            return index


def uniform(word):
    return (word + 0.5) * 2.0**-32


def gaussian(words, column):
    """Box and Muller 1958: words 0 and 1 make columns 0 (cosine) and 1 (sine) of a block, words 2 and 3 the others."""
    first = 0 if column % 4 < 2 else 2
    turn = math.cos if column % 2 == 0 else math.sin
    return math.sqrt(-2 * math.log(uniform(words[first]))) * turn(2 * math.pi * uniform(words[first + 1]))


def draw(key, row, column, sample, step):
    words = philox((column // 4, row, sample, step), key)
    word = words[column % 4]
    return {"row": row, "column": column, "sample": sample, "step": step, "block": words, "word": word,
            "uniform": uniform(word), "gaussian": gaussian(words, column)}


def main():
    assert philox((0, 0, 0, 0), 0) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]  # as published
    cases = []
    for purpose, name, head, turn, seed, draws in CASES:
        key = key_of(seed, purpose, name, head, turn)
        cases.append({"purpose": purpose, "name": name, "head": head, "round": turn, "seed": seed, "key": key,
                      "draws": [draw(key, *place) for place in draws]})
    orders = []
    for seed, epoch, n in PERMUTATIONS:
        key = key_of(seed, "order", "data")
        orders.append({"seed": seed, "epoch": epoch, "n": n, "first": [permuted(key, epoch, n, i) for i in range(min(n, 16))]})
    # One line an entry, so that a change reads well.
    write = sys.stdout.write
    write('{"draws": [\n' + ",\n".join(json.dumps(c) for c in cases) + '\n],\n"orders": [\n' + ",\n".join(json.dumps(o) for o in orders) + "\n]}\n")


if __name__ == "__main__":
    main()
