#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what is missing of the packages the build needs (Debian 12 names); asks for nothing and downloads nothing when all are there.
# setup.sh [--tests] [PACKAGE ...]: with --tests what the tests need too, and the packages named.
set -euo pipefail
packages="g++ cmake ninja-build git pkg-config libdnnl-dev libyaml-cpp-dev libhdf5-dev libpng-dev libfmt-dev libhwy-dev libcli11-dev nlohmann-json3-dev libxxhash-dev libutf8proc-dev libfast-float-dev"
if [ "${1:-}" = "--tests" ]; then
  packages="$packages catch2 python3 python3-h5py python3-xxhash binutils valgrind"
  shift
fi
packages="$packages $*"
missing=""
for p in $packages; do
  dpkg-query -W -f='${Status}' "$p" 2>/dev/null | grep -q '^install ok installed$' || missing="$missing $p"
done
if [ -n "$missing" ]; then
  echo "installing:$missing"
  sudo=""
  [ "$(id -u)" -eq 0 ] || sudo="sudo"
  export DEBIAN_FRONTEND=noninteractive
  $sudo apt-get update -qq
  # shellcheck disable=SC2086  # one word a package
  $sudo apt-get install -y -qq --no-install-recommends $missing >/dev/null
fi
