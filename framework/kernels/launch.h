// SPDX-License-Identifier: Apache-2.0
// The only switch over devices. A kernel is a struct with one static member function per device, of one signature, whose first
// parameter is the Execution: a kernel missing for a device stops the link, not a run.
#pragma once
#include <type_traits>
#include <utility>

#include "framework/core/device.h"
#include "framework/core/error.h"

namespace tapeformer::kernels {

// K is a kernel template over the element type, T float or double. Only the reference device computes in double.
template <template <class> class K, class T, class... Args>
void launch(const Execution& on, Args&&... args) {
  if (on.device == Device::reference) return K<T>::reference(on, std::forward<Args>(args)...);
  if constexpr (std::is_same_v<T, float>)
    if (on.device == Device::cpu) return K<T>::cpu(on, std::forward<Args>(args)...);
  fail(ExitCode::unavailable, "the device {} does not compute in float{}; the reference device does", name_of(on.device), 8 * sizeof(T));
}

}  // namespace tapeformer::kernels
