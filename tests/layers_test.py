# SPDX-License-Identifier: Apache-2.0
"""Reads every #include of the sources: a file includes its own folder and lower layers only, and third-party headers stay where they belong."""
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LAYER = {"framework/core": 0, "framework/kernels": 1, "framework/config": 1, "framework/io": 1, "framework/autograd": 2, "framework/data": 2,
         "framework/ops": 3, "framework/optim": 3, "framework/nn": 4, "framework/train": 5, "models": 6, "datasets": 6, "tools": 7}
# Beyond the numbers: models do not know the trainer; data sets know only data, config, io and core. The context of autograd is what kernels'
# callers pass down, and the tape adds gradients by a kernel; optimisers and components read their settings through config.
FORBIDDEN = {("models", "framework/train"), ("models", "datasets")}
ONLY = {"datasets": {"framework/core", "framework/config", "framework/io", "framework/data", "datasets"}}
# Headers that may only be named in .cpp files of these folders (or in headers below them, for Highway's files).
SEALED = {"hdf5.h": ("framework/io", "tools"), "png.h": ("framework/io", "tools"), "yaml-cpp/": ("framework/config",), "oneapi/dnnl/": ("framework/kernels/cpu", "tools"),
          "hwy/": ("framework/kernels/cpu", "tools"), "nlohmann/": ("framework/data", "datasets", "tools"), "CLI/": ("tools",)}


def folder_of(path):
    return next((f for f in sorted(LAYER, key=len, reverse=True) if path.startswith(f + "/")), None)


def faults_of(path, text):
    own = folder_of(path)
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        match = re.match(r'\s*#\s*include\s*["<]([^">]+)[">]', line)
        if not match:
            continue
        name = match.group(1)
        other = folder_of(name)
        if other and other != own:
            if LAYER[other] >= LAYER[own] or (own, other) in FORBIDDEN or (own in ONLY and other not in ONLY[own]):
                found.append(f"{path}:{number}: {own} (layer {LAYER[own]}) includes {name} (layer {LAYER[other]})")
        for sealed, homes in SEALED.items():
            if name.startswith(sealed) and not (path.startswith(homes) and (path.endswith(".cpp") or sealed == "hwy/" or own == "tools")):
                found.append(f"{path}:{number}: {name} does not belong in this file")
    return found


def main():
    found, files = [], 0
    for top in ("framework", "models", "datasets", "tools"):
        for folder, _, names in os.walk(os.path.join(ROOT, top)):
            for name in names:
                if name.endswith((".h", ".cpp", ".def")):
                    path = os.path.relpath(os.path.join(folder, name), ROOT)
                    with open(os.path.join(ROOT, path), encoding="utf-8") as source:
                        text = source.read()
                    files += 1
                    found += faults_of(path, text)
                    if "SPDX-License-Identifier: Apache-2.0" not in text.split("\n", 1)[0]:
                        found.append(f"{path}:1: the first line is not the SPDX line")
    # The check itself: an upward include and a leaked header must be seen.
    if not faults_of("framework/core/x.h", '#include "framework/ops/linear.h"') or not faults_of("framework/io/x.h", "#include <hdf5.h>"):
        found.append("the check does not see a planted fault")
    if files < 150:
        found.append(f"only {files} files were read")
    print("\n".join(found) if found else f"{files} files keep the layers")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
