// SPDX-License-Identifier: Apache-2.0
// Strings of HDF5: of fixed length (padded with NUL or spaces, or ended by NUL) and of varying length, ASCII or UTF-8.
#include <hdf5.h>

#include "framework/io/hdf5_calls.h"
#include "framework/io/text.h"

namespace tapeformer::io {
namespace {

constexpr size_t longest_fixed = size_t{16} << 20;

// Gives the strings that HDF5 allocated back to it.
struct Reclaimed {
  hid_t type, space;
  std::vector<char*>& texts;
  ~Reclaimed() { H5Dvlen_reclaim(type, space, H5P_DEFAULT, texts.data()); }
};

std::string unpadded(const char* bytes, size_t width, H5T_str_t padding) {
  std::string_view text(bytes, width);
  if (padding == H5T_STR_NULLTERM) text = text.substr(0, text.find('\0'));
  const std::string_view filler = padding == H5T_STR_SPACEPAD ? std::string_view("\0 ", 2) : std::string_view("\0", 1);
  const size_t last = text.find_last_not_of(filler);
  return std::string(text.substr(0, last == text.npos ? 0 : last + 1));
}

std::vector<std::string> varying(const Hdf5Handle& memory_type, int64_t space, size_t count, const std::function<int(int64_t, void*)>& read,
                                 const Hdf5Origin& origin, const std::string& where) {
  std::vector<char*> pointers(count, nullptr);
  const Reclaimed reclaimed{memory_type.id(), space, pointers};
  hdf5_checked(read(memory_type.id(), pointers.data()), origin, "read", where);
  std::vector<std::string> texts(count);
  for (size_t i = 0; i < count; ++i)
    if (pointers[i] != nullptr) texts[i] = pointers[i];
  return texts;
}

}  // namespace

std::vector<std::string> hdf5_strings(int64_t type, int64_t space, size_t count, const std::string& where, const Hdf5Origin& origin,
                                      const std::function<int(int64_t, void*)>& read) {
  if (count == 0) return {};
  const Hdf5Handle memory_type(hdf5_checked(H5Tcopy(type), origin, "copy the type of", where), H5Tclose);
  std::vector<std::string> texts;
  if (H5Tis_variable_str(type) > 0) texts = varying(memory_type, space, count, read, origin, where);
  else {
    const size_t width = H5Tget_size(type);
    if (width == 0 || width > longest_fixed)
      fail(origin.code, "{} has strings of {} bytes; at most {} are read", where, width, longest_fixed);
    std::vector<char> bytes(count * width);
    hdf5_checked(read(memory_type.id(), bytes.data()), origin, "read", where);
    for (size_t i = 0; i < count; ++i) texts.push_back(unpadded(bytes.data() + i * width, width, H5Tget_strpad(type)));
  }
  for (size_t i = 0; i < count; ++i)
    if (const auto bad = first_invalid_utf8(texts[i]))
      fail(origin.code, "{}, string {}: byte {} is not UTF-8; convert the strings", where, i, *bad);
  return texts;
}

}  // namespace tapeformer::io
