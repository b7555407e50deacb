// SPDX-License-Identifier: Apache-2.0
// Files as other programs write them, made with the C library directly: any stored type, layout and string kind.
#pragma once
#include <hdf5.h>

#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

namespace tapeformer {

struct Handle {
  Handle(hid_t i, herr_t (*c)(hid_t)) : id(i), close(c) {
    if (i < 0) throw std::runtime_error("the test cannot make its file");
  }
  ~Handle() { close(id); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  hid_t id;
  herr_t (*close)(hid_t);
};

enum class Layout { contiguous, chunked, gzip, unlimited };
inline std::vector<Layout> all_layouts() { return {Layout::contiguous, Layout::chunked, Layout::gzip, Layout::unlimited}; }

// One data set in a new file; `values` have the type `memory`.
inline void write_raw(const std::filesystem::path& path, const char* name, hid_t stored, std::vector<hsize_t> sizes, hid_t memory,
                      const void* values, Layout layout) {
  const Handle file(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), H5Fclose);
  const Handle properties(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  std::vector<hsize_t> most = sizes;
  if (layout != Layout::contiguous) {
    std::vector<hsize_t> chunk(sizes.size(), 1);
    chunk[0] = 2;
    H5Pset_chunk(properties.id, static_cast<int>(chunk.size()), chunk.data());
  }
  if (layout == Layout::gzip) {
    H5Pset_shuffle(properties.id);
    H5Pset_deflate(properties.id, 6);
  }
  if (layout == Layout::unlimited) most[0] = H5S_UNLIMITED;
  const Handle space(H5Screate_simple(static_cast<int>(sizes.size()), sizes.data(), most.data()), H5Sclose);
  const Handle dataset(H5Dcreate2(file.id, name, stored, space.id, H5P_DEFAULT, properties.id, H5P_DEFAULT), H5Dclose);
  if (values != nullptr && H5Dwrite(dataset.id, memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) < 0)
    throw std::runtime_error("the test cannot write");
}

// Strings of varying length (padding -1) or of 10 bytes and more, padded as H5T_str_t says.
inline void write_raw_strings(const std::filesystem::path& path, const char* name, const std::vector<std::string>& texts, H5T_cset_t set,
                              int padding, Layout layout) {
  const Handle type(H5Tcopy(H5T_C_S1), H5Tclose);
  H5Tset_cset(type.id, set);
  if (padding < 0) {
    H5Tset_size(type.id, H5T_VARIABLE);
    std::vector<const char*> pointers;
    for (const std::string& text : texts) pointers.push_back(text.c_str());
    write_raw(path, name, type.id, {texts.size()}, type.id, pointers.data(), layout);
    return;
  }
  size_t width = 10;
  for (const std::string& text : texts) width = std::max(width, text.size());
  if (padding == H5T_STR_NULLTERM) ++width;
  H5Tset_size(type.id, width);
  H5Tset_strpad(type.id, static_cast<H5T_str_t>(padding));
  std::string bytes;
  for (const std::string& text : texts) bytes += text + std::string(width - text.size(), padding == H5T_STR_SPACEPAD ? ' ' : '\0');
  write_raw(path, name, type.id, {texts.size()}, type.id, bytes.data(), layout);
}

}  // namespace tapeformer
