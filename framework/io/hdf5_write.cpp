// SPDX-License-Identifier: Apache-2.0
// Writing of HDF5: groups, contiguous data sets, strings and attributes, without times, in the encodings that h5py reads as bool and str.
#include <hdf5.h>

#include <algorithm>
#include <cstring>

#include "framework/io/hdf5_calls.h"
#include "framework/io/text.h"

namespace tapeformer::io {
namespace {

int64_t stored_type(Dtype dtype) {
  switch (dtype) {
    case Dtype::f32:
      return H5T_IEEE_F32LE;
    case Dtype::f64:
      return H5T_IEEE_F64LE;
    case Dtype::i32:
      return H5T_STD_I32LE;
    case Dtype::i64:
      return H5T_STD_I64LE;
    case Dtype::u8:
      return H5T_STD_U8LE;
    case Dtype::u32:
      return H5T_STD_U32LE;
    case Dtype::u64:
      return H5T_STD_U64LE;
  }
  return -1;
}

Hdf5Handle string_type(const Hdf5Origin& origin) {
  Hdf5Handle type(hdf5_checked(H5Tcopy(H5T_C_S1), origin, "make", "a string type"), H5Tclose);
  hdf5_checked(H5Tset_size(type.id(), H5T_VARIABLE), origin, "make", "a string type");
  hdf5_checked(H5Tset_cset(type.id(), H5T_CSET_UTF8), origin, "make", "a string type");
  return type;
}

// h5py's boolean.
Hdf5Handle boolean_type(const Hdf5Origin& origin) {
  Hdf5Handle type(hdf5_checked(H5Tenum_create(H5T_STD_I8LE), origin, "make", "a boolean type"), H5Tclose);
  const int8_t values[] = {0, 1};
  hdf5_checked(H5Tenum_insert(type.id(), "FALSE", &values[0]), origin, "make", "a boolean type");
  hdf5_checked(H5Tenum_insert(type.id(), "TRUE", &values[1]), origin, "make", "a boolean type");
  return type;
}

Hdf5Handle space_of(const std::vector<hsize_t>& sizes, const Hdf5Origin& origin, const std::string& path) {
  const hid_t space = sizes.empty() ? H5Screate(H5S_SCALAR) : H5Screate_simple(static_cast<int>(sizes.size()), sizes.data(), nullptr);
  return Hdf5Handle(hdf5_checked(space, origin, "make the sizes of", path), H5Sclose);
}

// Properties for a new object: no times, so that the bytes repeat.
Hdf5Handle object_properties(hid_t property_class, const Hdf5Origin& origin) {
  Hdf5Handle properties(hdf5_checked(H5Pcreate(property_class), origin, "make", "properties"), H5Pclose);
  hdf5_checked(H5Pset_obj_track_times(properties.id(), false), origin, "make", "properties");
  return properties;
}

Hdf5Handle link_properties(const Hdf5Origin& origin) {
  Hdf5Handle properties(hdf5_checked(H5Pcreate(H5P_LINK_CREATE), origin, "make", "properties"), H5Pclose);
  hdf5_checked(H5Pset_char_encoding(properties.id(), H5T_CSET_UTF8), origin, "make", "properties");
  return properties;
}

std::vector<hsize_t> sizes_of(const Shape& shape) {
  std::vector<hsize_t> sizes;
  for (int i = 0; i < shape.rank(); ++i) sizes.push_back(static_cast<hsize_t>(shape[i]));
  return sizes;
}

// As many rows as make 1 MiB, or all.
std::vector<hsize_t> chunk_of(Dtype dtype, const Shape& shape) {
  constexpr int64_t bytes = int64_t{1} << 20;
  std::vector<hsize_t> chunk = sizes_of(shape);
  const int64_t row = shape.count() / shape[0] * static_cast<int64_t>(size_of(dtype));
  chunk[0] = static_cast<hsize_t>(std::min(shape[0], (bytes + row - 1) / row));
  return chunk;
}

bool can_deflate(const Shape& shape) { return shape.rank() > 0 && shape.count() > 0; }

// `chunk` empty: contiguous.
Hdf5Handle create_dataset(int64_t file, const std::string& path, int64_t type, int64_t space, const Hdf5Origin& origin,
                          const std::vector<hsize_t>& chunk = {}) {
  const Hdf5Handle properties = object_properties(H5P_DATASET_CREATE, origin);
  if (chunk.empty()) {
    hdf5_checked(H5Pset_layout(properties.id(), H5D_CONTIGUOUS), origin, "lay out", path);
  } else {
    hdf5_checked(H5Pset_chunk(properties.id(), static_cast<int>(chunk.size()), chunk.data()), origin, "lay out", path);
    hdf5_checked(H5Pset_shuffle(properties.id()), origin, "lay out", path);
    hdf5_checked(H5Pset_deflate(properties.id(), 4), origin, "lay out", path);
  }
  // Numbers are written whole at once; HDF5 insists on a fill value for strings.
  if (H5Tget_class(type) != H5T_STRING) hdf5_checked(H5Pset_fill_time(properties.id(), H5D_FILL_TIME_NEVER), origin, "lay out", path);
  const Hdf5Handle link = link_properties(origin);
  return Hdf5Handle(
      hdf5_checked(H5Dcreate2(file, path.c_str(), type, space, link.id(), properties.id(), H5P_DEFAULT), origin, "create", path), H5Dclose);
}

// HDF5 ends a string at its first NUL: such a text would come back shorter.
void check_text(const std::string& text, const std::string& path) {
  require(text.find('\0') == text.npos && !first_invalid_utf8(text), "{}: a text with a NUL byte or not UTF-8 cannot be stored", path);
}

std::string parent(const std::string& path) { return path.substr(0, std::max<size_t>(1, path.rfind('/'))); }

}  // namespace

void Hdf5File::write_group(const std::string& path) {
  require(path.starts_with('/'), "the path '{}' in {} does not begin with '/'", path, origin_->name);
  if (has(path)) return;
  const Hdf5Quiet quiet;
  write_group(parent(path));
  const Hdf5Handle properties = object_properties(H5P_GROUP_CREATE, *origin_), link = link_properties(*origin_);
  const Hdf5Handle group(
      hdf5_checked(H5Gcreate2(file_.id(), path.c_str(), link.id(), properties.id(), H5P_DEFAULT), *origin_, "create", path), H5Gclose);
}

void Hdf5File::write(const std::string& path, const Tensor& tensor, Storage storage) {
  require(tensor.defined() && tensor.contiguous(), "{}: a contiguous tensor was expected", path);
  write_group(parent(path));
  const Hdf5Quiet quiet;
  const Hdf5Handle space = space_of(sizes_of(tensor.shape()), *origin_, path);
  const bool deflated = storage == Storage::deflated && can_deflate(tensor.shape());
  const Hdf5Handle dataset = create_dataset(file_.id(), path, stored_type(tensor.dtype()), space.id(), *origin_,
                                            deflated ? chunk_of(tensor.dtype(), tensor.shape()) : std::vector<hsize_t>());
  if (tensor.count() == 0) return;
  hdf5_checked(H5Dwrite(dataset.id(), hdf5_memory_type(tensor.dtype()), H5S_ALL, H5S_ALL, H5P_DEFAULT, tensor.raw()), *origin_, "write",
               path);
}

Hdf5Rows Hdf5File::write_rows(const std::string& path, Dtype dtype, const Shape& shape, Storage storage) {
  require(shape.rank() > 0, "{}: rows were expected", path);
  write_group(parent(path));
  const Hdf5Quiet quiet;
  const Hdf5Handle space = space_of(sizes_of(shape), *origin_, path);
  const std::vector<hsize_t> chunk = can_deflate(shape) ? chunk_of(dtype, shape) : sizes_of(shape);
  std::vector<int64_t> sizes;
  for (int i = 0; i < shape.rank(); ++i) sizes.push_back(shape[i]);
  Hdf5Rows rows(origin_, path, std::move(sizes), std::max<int64_t>(1, static_cast<int64_t>(chunk[0])));
  rows.dataset_ = create_dataset(file_.id(), path, stored_type(dtype), space.id(), *origin_,
                                 storage == Storage::deflated && can_deflate(shape) ? chunk : std::vector<hsize_t>());
  rows.type_ = Hdf5Handle(hdf5_checked(H5Tcopy(hdf5_memory_type(dtype)), *origin_, "make", "a type"), H5Tclose);
  return rows;
}

Hdf5Rows Hdf5File::write_text_rows(const std::string& path, int64_t count) {
  write_group(parent(path));
  const Hdf5Quiet quiet;
  Hdf5Rows rows(origin_, path, {count}, 4096);
  rows.type_ = string_type(*origin_);
  rows.dataset_ = create_dataset(file_.id(), path, rows.type_.id(), space_of({static_cast<hsize_t>(count)}, *origin_, path).id(), *origin_);
  return rows;
}

void Hdf5Rows::write(const void* data, int64_t rows) {
  require(rows >= 0 && written_ + rows <= sizes_[0], "{}: {} rows of {} are written, {} more were given", path_, written_, sizes_[0], rows);
  if (rows == 0) return;
  const Hdf5Quiet quiet;
  std::vector<hsize_t> start(sizes_.size()), count(sizes_.begin(), sizes_.end());
  start[0] = static_cast<hsize_t>(written_);
  count[0] = static_cast<hsize_t>(rows);
  const Hdf5Handle in_memory = space_of(count, *origin_, path_);
  const Hdf5Handle in_file(hdf5_checked(H5Dget_space(dataset_.id()), *origin_, "write", path_), H5Sclose);
  hdf5_checked(H5Sselect_hyperslab(in_file.id(), H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr), *origin_, "write", path_);
  hdf5_checked(H5Dwrite(dataset_.id(), type_.id(), in_memory.id(), in_file.id(), H5P_DEFAULT, data), *origin_, "write", path_);
  written_ += rows;
}

void Hdf5Rows::append(const void* numbers, int64_t rows) { write(numbers, rows); }

void Hdf5Rows::append(const std::vector<std::string>& texts) {
  std::vector<const char*> pointers;
  for (const std::string& text : texts) {
    check_text(text, path_);
    pointers.push_back(text.c_str());
  }
  write(pointers.data(), static_cast<int64_t>(texts.size()));
}

void Hdf5File::write_strings(const std::string& path, const std::vector<const char*>& texts, int64_t space) {
  const Hdf5Handle type = string_type(*origin_);
  const Hdf5Handle dataset = create_dataset(file_.id(), path, type.id(), space, *origin_);
  if (texts.empty()) return;
  hdf5_checked(H5Dwrite(dataset.id(), type.id(), H5S_ALL, H5S_ALL, H5P_DEFAULT, texts.data()), *origin_, "write", path);
}

void Hdf5File::write_text(const std::string& path, const std::string& text) {
  check_text(text, path);
  write_group(parent(path));
  const Hdf5Quiet quiet;
  write_strings(path, {text.c_str()}, space_of({}, *origin_, path).id());
}

void Hdf5File::write_texts(const std::string& path, const std::vector<std::string>& texts) {
  std::vector<const char*> pointers;
  for (const std::string& text : texts) {
    check_text(text, path);
    pointers.push_back(text.c_str());
  }
  write_group(parent(path));
  const Hdf5Quiet quiet;
  write_strings(path, pointers, space_of({texts.size()}, *origin_, path).id());
}

// The attribute that H5DSset_label of the high-level library writes: one variable string for each axis.
void Hdf5File::write_axis_labels(const std::string& path, const std::vector<std::string>& labels) {
  std::vector<const char*> pointers;
  for (const std::string& label : labels) {
    check_text(label, path);
    pointers.push_back(label.c_str());
  }
  const Hdf5Quiet quiet;
  {
    // Its contents may not be there yet.
    const Hdf5Handle dataset(hdf5_checked(H5Dopen2(file_.id(), path.c_str(), H5P_DEFAULT), *origin_, "open", path), H5Dclose);
    const Hdf5Handle axes(hdf5_checked(H5Dget_space(dataset.id()), *origin_, "open", path), H5Sclose);
    require(H5Sget_simple_extent_ndims(axes.id()) == static_cast<int>(labels.size()), "{}: {} labels for its axes", path, labels.size());
  }
  Hdf5Handle type(hdf5_checked(H5Tcopy(H5T_C_S1), *origin_, "make", "a string type"), H5Tclose);
  hdf5_checked(H5Tset_size(type.id(), H5T_VARIABLE), *origin_, "make", "a string type");
  const Hdf5Handle space = space_of({labels.size()}, *origin_, path);
  const Hdf5Handle attribute(hdf5_checked(H5Acreate_by_name(file_.id(), path.c_str(), "DIMENSION_LABELS", type.id(), space.id(),
                                                            H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
                                          *origin_, "label the axes of", path),
                             H5Aclose);
  hdf5_checked(H5Awrite(attribute.id(), type.id(), pointers.data()), *origin_, "label the axes of", path);
}

void Hdf5File::write_attribute(const std::string& path, const std::string& name, const Attribute& value) {
  if (!has(path)) write_group(path);
  const Hdf5Quiet quiet;
  const Hdf5Handle scalar = space_of({}, *origin_, path);
  const auto put = [&](int64_t stored, int64_t memory, const void* data) {
    const Hdf5Handle attribute(
        hdf5_checked(H5Acreate_by_name(file_.id(), path.c_str(), name.c_str(), stored, scalar.id(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
                     *origin_, "create an attribute of", path),
        H5Aclose);
    hdf5_checked(H5Awrite(attribute.id(), memory, data), *origin_, "write an attribute of", path);
  };
  if (const auto* truth = std::get_if<bool>(&value)) {
    const Hdf5Handle type = boolean_type(*origin_);
    const int8_t byte = *truth ? 1 : 0;
    put(type.id(), type.id(), &byte);
  } else if (const auto* number = std::get_if<int64_t>(&value)) {
    put(H5T_STD_I64LE, H5T_NATIVE_INT64, number);
  } else if (const auto* natural = std::get_if<uint64_t>(&value)) {
    put(H5T_STD_U64LE, H5T_NATIVE_UINT64, natural);
  } else if (const auto* real = std::get_if<double>(&value)) {
    put(H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, real);
  } else {
    const std::string& text = std::get<std::string>(value);
    check_text(text, path);
    const Hdf5Handle type = string_type(*origin_);
    const char* pointer = text.c_str();
    put(type.id(), type.id(), &pointer);
  }
}

}  // namespace tapeformer::io
