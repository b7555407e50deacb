#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what is missing, builds everything with the tests, and runs every test.
set -euo pipefail
cd "$(dirname "$0")/.."
tools/setup.sh --tests
[ -f build/test/build.ninja ] || cmake --preset test >/dev/null
cmake --build build/test
ctest --test-dir build/test --output-on-failure "$@"
