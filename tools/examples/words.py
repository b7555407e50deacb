# SPDX-License-Identifier: Apache-2.0
"""Makes train.tsv, valid.tsv and test.tsv (word, language) from the word lists in /usr/share/dict.

Words of 4 to 24 letters and nothing but letters, lower-cased, that stand in one list only; 22,000 a language, drawn by sorting on a keyed
hash with seed 1; 20,000 to train, 1,000 to validate, 1,000 to test.
"""
import collections
import hashlib
import os
import sys

LISTS = {"english": ("american-english", "utf-8"), "german": ("ngerman", "utf-8"), "french": ("french", "utf-8"),
         "italian": ("italian", "utf-8"), "spanish": ("spanish", "utf-8"), "dutch": ("dutch", "utf-8"),
         "swedish": ("swedish", "latin-1"), "polish": ("polish", "utf-8"), "portuguese": ("portuguese", "utf-8"),
         "danish": ("danish", "utf-8")}
SEED, DRAWN, HELD_OUT = 1, 22000, 1000


def read(name, encoding):
    """The usable words of one list."""
    with open(os.path.join("/usr/share/dict", name), encoding=encoding) as lines:
        words = (line.strip().lower() for line in lines)
        return {w for w in words if 4 <= len(w) <= 24 and w.isalpha()}


def key(language, word):
    """A place in the keyed permutation of a language's words."""
    return hashlib.blake2b(f"{language}:{word}".encode(), key=SEED.to_bytes(8, "little"), digest_size=8).digest()


def main(directory):
    words = {language: read(*where) for language, where in LISTS.items()}
    seen = collections.Counter(w for some in words.values() for w in some)
    parts = {"train": [], "valid": [], "test": []}
    for language, some in words.items():
        own = sorted((w for w in some if seen[w] == 1), key=lambda w: key(language, w))[:DRAWN]
        if len(own) < DRAWN:
            sys.exit(f"{language}: only {len(own)} words, {DRAWN} are needed")
        cut = DRAWN - 2 * HELD_OUT
        for part, chosen in (("train", own[:cut]), ("valid", own[cut:cut + HELD_OUT]), ("test", own[cut + HELD_OUT:])):
            parts[part] += [(w, language) for w in chosen]
    os.makedirs(directory, exist_ok=True)
    for part, rows in parts.items():
        aside = os.path.join(directory, part + ".tsv.new")
        with open(aside, "w", encoding="utf-8") as out:
            out.write("word\tlanguage\n")
            out.writelines(f"{w}\t{language}\n" for w, language in rows)
    for part, rows in parts.items():
        os.replace(os.path.join(directory, part + ".tsv.new"), os.path.join(directory, part + ".tsv"))
        print(f"{part}: {len(rows)} words")


if __name__ == "__main__":
    main(sys.argv[1])
