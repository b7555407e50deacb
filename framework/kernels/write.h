// SPDX-License-Identifier: Apache-2.0
// Whether a kernel overwrites its result or adds to what is there.
#pragma once
namespace tapeformer::kernels {
enum class Write : bool { overwrite, add };
}
