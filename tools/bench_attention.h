// SPDX-License-Identifier: Apache-2.0
// The verb `bench attention`, for the verbs of bench.
#pragma once
#include "tools/command.h"

namespace tapeformer::tools {
void add_bench_attention(const Verb& bench, Command&);
}  // namespace tapeformer::tools
