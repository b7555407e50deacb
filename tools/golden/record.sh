#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Trains a tiny model on tiny data and keeps one file of each format with what it evaluates and predicts to, in tests/golden.
# checkpoint_hashed.h5 is step 24 of a later version's training of config.resolved.yaml beside data.h5: the first with hashes of its tensors.
# Only for a new format number: the files there now must stay readable, so a new format gets files beside them. Takes about a second.
# Usage: tools/golden/record.sh TAPEFORMER OUTPUT_DIRECTORY
set -euo pipefail
tapeformer=$(realpath "${1:?usage: record.sh TAPEFORMER OUTPUT_DIRECTORY}")
mkdir -p "${2:?usage: record.sh TAPEFORMER OUTPUT_DIRECTORY}"
output=$(realpath "$2")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

"$tapeformer" data make listops -o . seed=1 min_arguments=2 max_arguments=4 max_depth=3 min_length=0 max_length=40 train=48 valid=12 test=12
cat > text.yaml <<'YAML'
version: 1
data:
  task: classification
  train: {path: train.tsv, text: Source, label: Target}
  valid: {path: valid.tsv, text: Source, label: Target}
  test: {path: test.tsv, text: Source, label: Target}
  max_length: 40
tokenizer: {type: whitespace}
YAML
"$tapeformer" data convert text.yaml -o data.h5
cat > golden.yaml <<'YAML'
version: 1
run: {name: golden, seed: 7}
data:
  task: classification
  train: {path: data.h5}
  valid: {path: data.h5}
  test: {path: data.h5}
  max_length: 40
model:
  dim: 8
  layers: 3
  dropout: 0.1
  feed_forward: {dim: 12, dropout: 0.1}
  norm: {type: [layer_norm, batch_norm, batch_norm]}
  attention: {type: [full, local, linear], heads: 2, local: {left: 4, right: 4}}
optim: {type: adamw, lr: 1.0e-2, weight_decay: 0.01, clip_norm: 1.0}
schedule: {type: cosine, warmup: 3}
train: {duration: 24, batch_size: 12}
eval: {every: 8}
checkpoint: {every: 24, keep_last: 1}
log: {every: 4}
device: {threads: 1}
YAML
"$tapeformer" train golden.yaml -o run

cut -f1 test.tsv | tail -n +2 > lines.txt
"$tapeformer" eval run/checkpoints/step-00000024.h5 --split valid --json > evaluation.json
"$tapeformer" predict run/checkpoints/step-00000024.h5 lines.txt --proba --format jsonl > predictions.jsonl
cp run/checkpoints/step-00000024.h5 "$output/checkpoint.h5"
cp data.h5 lines.txt evaluation.json predictions.jsonl run/metrics.jsonl run/config.resolved.yaml "$output/"
ls -l "$output"
