#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Real data from Debian's packages: which of ten languages is a word from? Installs the word lists, makes data/words, trains, evaluates, predicts.
set -euo pipefail
cd "$(dirname "$0")/../.."
tools/setup.sh python3 wamerican wngerman wfrench witalian wspanish wdutch wswedish wpolish wportuguese wdanish
[ -f build/release/build.ninja ] || cmake --preset release >/dev/null
cmake --build build/release
tapeformer=build/release/tapeformer
[ -f data/words/test.tsv ] || python3 tools/examples/words.py data/words
run=runs/words/$(date +%Y%m%d-%H%M%S)
$tapeformer train configs/words/full.yaml -o "$run"
$tapeformer eval "$run" --split test
printf '%s\n' zeitgeist bellissimo hurtigtog queijo szczęście smörgås gezelligheid | $tapeformer predict "$run" -
echo "the run is in $PWD/$run"
