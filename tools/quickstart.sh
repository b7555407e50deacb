#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# From a bare Debian 12 to a trained model: installs what is missing, builds, makes data, trains, evaluates, predicts. About five minutes on two cores.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
echo "== 1/5 packages"
tools/setup.sh
echo "== 2/5 build (release, without tests) in build/release"
[ -f build/release/build.ninja ] || cmake --preset release >/dev/null
cmake --build build/release
tapeformer=build/release/tapeformer
echo "== 3/5 data: 60,000 small ListOps trees in data/listops/quickstart"
[ -f data/listops/quickstart/test.tsv ] || $tapeformer data make listops configs/listops/quickstart_data.yaml -o data/listops/quickstart
run=runs/quickstart/$(date +%Y%m%d-%H%M%S)
echo "== 4/5 train configs/listops/quickstart.yaml in $run"
$tapeformer train configs/listops/quickstart.yaml -o "$run"
$tapeformer eval "$run" --split test
echo "== 5/5 predict three lines"
printf '%s\n' '[MAX 2 9 [MIN 4 7 ] 0 ]' '[SM 3 4 [MED 1 5 8 ] ]' '[MIN 6 [SM 9 9 ] 7 ]' | $tapeformer predict "$run" -
echo "the run is in $root/$run"
