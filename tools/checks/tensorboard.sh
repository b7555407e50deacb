#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# TensorBoard's own reader, from PyPI, opens the event files of a run that was killed twice and resumed: one value a step, equal to metrics.jsonl.
# Makes an environment in build/tensorboard-env the first time (about a minute); after that it takes about ten seconds.
# Usage: tools/checks/tensorboard.sh [TAPEFORMER]    (build/release/tapeformer unless given)
set -euo pipefail
cd "$(dirname "$0")/../.."
TAPEFORMER=$(realpath "${1:-build/release/tapeformer}")
export TAPEFORMER PYTHONDONTWRITEBYTECODE=1
environment=build/tensorboard-env
if [ ! -f "$environment/ready" ]; then
  rm -rf "$environment"
  /usr/bin/python3 -m venv --system-site-packages "$environment"  # h5py is Debian's
  "$environment/bin/pip" install --quiet tensorboard 'setuptools<81'
  touch "$environment/ready"
fi
exec "$environment/bin/python" tools/checks/tensorboard_check.py
