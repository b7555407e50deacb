// SPDX-License-Identifier: Apache-2.0
// `tapeformer bench predict`, beside `bench step`.
#pragma once
#include "tools/command.h"

namespace tapeformer::tools {

void add_bench_predict(const Verb& bench, Command& command);

}  // namespace tapeformer::tools
