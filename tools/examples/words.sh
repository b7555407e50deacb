#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Real data from Debian's packages: which of ten languages is a word from? Installs the word lists, makes data/words, trains, evaluates, predicts.
set -euo pipefail
cd "$(dirname "$0")/../.."
tools/setup.sh
lists="wamerican wngerman wfrench witalian wspanish wdutch wswedish wpolish wportuguese wdanish"
missing=""
for p in $lists python3; do dpkg-query -W -f='${Status}' "$p" 2>/dev/null | grep -q '^install ok installed$' || missing="$missing $p"; done
if [ -n "$missing" ]; then
  echo "installing:$missing"
  sudo=""
  [ "$(id -u)" -eq 0 ] || sudo="sudo"
  $sudo apt-get update -qq
  # shellcheck disable=SC2086
  DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq --no-install-recommends $missing >/dev/null
fi
[ -f build/release/build.ninja ] || cmake --preset release >/dev/null
cmake --build build/release
tapeformer=build/release/tapeformer
[ -f data/words/test.tsv ] || python3 tools/examples/words.py data/words
run=runs/words/$(date +%Y%m%d-%H%M%S)
$tapeformer train configs/words/full.yaml -o "$run"
$tapeformer eval "$run" --split test
printf '%s\n' zeitgeist bellissimo hurtigtog queijo szczęście smörgås gezelligheid | $tapeformer predict "$run" -
echo "the run is in $PWD/$run"
