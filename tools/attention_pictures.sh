#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Draws the pictures of models/attention/README.md: the pattern of each variant of variants.def for 64 rows, as configs/listops/compare sets it,
# and of the forms that a variant has beside that. Needs a build; takes a few seconds. The same pattern is the same bytes.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
tapeformer=${TAPEFORMER:-build/release/tapeformer}
pictures=models/attention/pictures
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$pictures"

# draw PICTURE VARIANT [OVERRIDE ...]: two pixels a pair, so 128 x 128 pixels of one bit.
draw() {
  local picture=$1 variant=$2
  shift 2
  "$tapeformer" -q attn "configs/listops/compare/$variant.yaml" "$@" --pattern --length 64 --layer 0 --head 0 --pixels 2 -o "$work/$picture" >/dev/null
  [ "$(stat -c %s "$work/$picture.png")" -lt 3072 ] || { echo "$picture.png has 3 KB or more" >&2; exit 1; }
  mv "$work/$picture.png" "$pictures/$picture.png"
}

variants=$(sed -n 's/^ATTENTION_VARIANT(\([a-z_0-9]*\)).*/\1/p' models/attention/variants.def)
for variant in $variants; do draw "$variant" "$variant"; done

# form VARIANT NAME OVERRIDE: another form of a variant, drawn where the variant exists.
form() {
  case " $(echo $variants) " in *" $1 "*) draw "$1_$2" "$1" "model.attention.$1=$3" ;; esac
}
form local blocked '{form: blocked, block: 8, blocks_left: 1, blocks_right: 1}'
form sparse_transformer fixed '{pattern: fixed, stride: 16}'
