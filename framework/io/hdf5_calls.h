// SPDX-License-Identifier: Apache-2.0
// What the HDF5 sources share: checked calls whose failures carry the library's own error stack, with its printing switched off.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "framework/core/dtype.h"
#include "framework/io/hdf5.h"

namespace tapeformer::io {

// While it lives, HDF5 prints nothing from this thread; its error stack starts empty.
class Hdf5Quiet {
 public:
  Hdf5Quiet();
  ~Hdf5Quiet();
  Hdf5Quiet(const Hdf5Quiet&) = delete;
  Hdf5Quiet& operator=(const Hdf5Quiet&) = delete;

 private:
  int (*print_)(int64_t, void*) = nullptr;
  void* data_ = nullptr;
};

// Fails with "<file>: cannot <what> <path>: <innermost messages of HDF5>".
[[noreturn]] void hdf5_failed(const Hdf5Origin& origin, std::string_view what, std::string_view path);

// An identifier or count as it is, unless it is negative.
template <class T>
T hdf5_checked(T result, const Hdf5Origin& origin, std::string_view what, std::string_view path) {
  if (result < 0) hdf5_failed(origin, what, path);
  return result;
}

// Access properties for following links: a link to another file fails and leaves what it names in `target`, which must outlive them.
Hdf5Handle hdf5_link_access(const Hdf5Origin& origin, std::string& target);

// Access properties of a file. Filters come from code that was linked, never from a library that a file or the environment names.
Hdf5Handle hdf5_file_access(const Hdf5Origin& origin);

// The in-memory type of a dtype; owned by the library.
int64_t hdf5_memory_type(Dtype dtype);

// The kind of a stored type; types that are neither numbers nor strings are refused. `where` names the data set or attribute.
Hdf5Kind hdf5_kind(int64_t type, const std::string& where, ExitCode code);

// Strings of a stored type, read by `read(memory type, destination)`: `count` elements that `space` selects.
std::vector<std::string> hdf5_strings(int64_t type, int64_t space, size_t count, const std::string& where, const Hdf5Origin& origin,
                                      const std::function<int(int64_t, void*)>& read);

}  // namespace tapeformer::io
