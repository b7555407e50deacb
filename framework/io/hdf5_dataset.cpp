// SPDX-License-Identifier: Apache-2.0
// Data sets of HDF5: what is refused before anything is allocated, and reading of numbers and strings.
#include <hdf5.h>

#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "framework/core/log.h"
#include "framework/io/hdf5_calls.h"

namespace tapeformer::io {
namespace {

constexpr uint64_t largest_chunk = uint64_t{256} << 20;
// deflate cannot exceed 1032:1. Data that unpack to more than this at a larger ratio are a bomb or a mistake.
constexpr uint64_t harmless = uint64_t{64} << 20;
constexpr uint64_t largest_ratio = 1100;

// The product of the sizes and `bytes`, or nothing when it does not fit.
std::optional<uint64_t> product(const std::vector<int64_t>& sizes, uint64_t bytes) {
  uint64_t n = bytes;
  for (const int64_t size : sizes)
    if (__builtin_mul_overflow(n, static_cast<uint64_t>(size), &n)) return std::nullopt;
  return n;
}

// How a stored number lies: an integer with or without sign, or a float.
struct Stored {
  bool floating, is_signed;
  size_t width;
};

Stored stored_number(hid_t type) {
  const Hdf5Handle base(H5Tget_class(type) == H5T_ENUM ? H5Tget_super(type) : H5Tcopy(type), H5Tclose);
  return {H5Tget_class(base.id()) == H5T_FLOAT, H5Tget_sign(base.id()) == H5T_SGN_2, H5Tget_size(base.id())};
}

// True when every value of the stored type is one of the dtype, up to the rounding of floats.
bool always_fits(Stored from, Dtype to) {
  if (is_floating(to)) return !from.floating || from.width <= size_of(to) || to == Dtype::f64;
  const bool to_signed = to == Dtype::i32 || to == Dtype::i64;
  if (from.floating || (from.is_signed && !to_signed)) return false;
  return from.is_signed == to_signed ? from.width <= size_of(to) : from.width < size_of(to);
}

// Why `value` is not a To, or null.
template <class To, class From>
const char* misfit([[maybe_unused]] From value) {
  if constexpr (std::is_floating_point_v<To> && std::is_integral_v<From>) {
    return nullptr;
  } else if constexpr (std::is_floating_point_v<To>) {
    return std::isfinite(value) && std::abs(value) > std::numeric_limits<To>::max() ? "out of range" : nullptr;
  } else if constexpr (std::is_floating_point_v<From>) {
    if (!std::isfinite(value)) return "NaN or infinity";
    if (value != std::trunc(value)) return "a fraction";
    // 2^digits is the first value past the top, and a double.
    const double top = std::ldexp(1.0, std::numeric_limits<To>::digits);
    return value >= top || value < (std::is_signed_v<To> ? -top : 0.0) ? "out of range" : nullptr;
  } else {
    return std::in_range<To>(value) ? nullptr : "out of range";
  }
}

// Narrows `count` values; answers the place of the first that does not fit and why, or null.
template <class To, class From>
std::pair<size_t, const char*> narrow(const From* from, size_t count, To* to) {
  for (size_t i = 0; i < count; ++i) {
    if (const char* why = misfit<To>(from[i])) return {i, why};
    to[i] = static_cast<To>(from[i]);
  }
  return {0, nullptr};
}

template <class From>
std::pair<size_t, const char*> narrow(const void* from, size_t count, Dtype dtype, void* to) {
  const auto* values = static_cast<const From*>(from);
  switch (dtype) {
    case Dtype::f32:
      return narrow(values, count, static_cast<float*>(to));
    case Dtype::f64:
      return narrow(values, count, static_cast<double*>(to));
    case Dtype::i32:
      return narrow(values, count, static_cast<int32_t*>(to));
    case Dtype::i64:
      return narrow(values, count, static_cast<int64_t*>(to));
    case Dtype::u8:
      return narrow(values, count, static_cast<uint8_t*>(to));
    case Dtype::u32:
      return narrow(values, count, static_cast<uint32_t*>(to));
    case Dtype::u64:
      return narrow(values, count, static_cast<uint64_t*>(to));
  }
  return {0, nullptr};
}

void check_filters(hid_t properties, const std::string& where, ExitCode code) {
  const int filters = H5Pget_nfilters(properties);
  for (int i = 0; i < filters; ++i) {
    unsigned flags = 0, config = 0;
    size_t values = 0;
    std::array<char, 80> name{};
    const H5Z_filter_t filter =
        H5Pget_filter2(properties, static_cast<unsigned>(i), &flags, &values, nullptr, name.size() - 1, name.data(), &config);
    if (filter < 0 || H5Zfilter_avail(filter) <= 0)
      fail(code,
           "{} is packed with filter {} '{}', which is not built in; store it again with gzip or without compression (h5repack -f NONE)",
           where, filter, printable(name.data()));
  }
}

}  // namespace

Hdf5Dataset::Hdf5Dataset(std::shared_ptr<const Hdf5Origin> origin, std::string path, Hdf5Handle dataset)
    : origin_(std::move(origin)), path_(std::move(path)), dataset_(std::move(dataset)) {
  type_ = Hdf5Handle(hdf5_checked(H5Dget_type(dataset_.id()), *origin_, "read the type of", path_), H5Tclose);
  space_ = Hdf5Handle(hdf5_checked(H5Dget_space(dataset_.id()), *origin_, "read the sizes of", path_), H5Sclose);
  kind_ = hdf5_kind(type_.id(), where(), origin_->code);
  if (kind_ != Hdf5Kind::text && kind_ != Hdf5Kind::floating && stored_number(type_.id()).width > 8)
    fail(origin_->code, "{} has integers of more than 64 bits", where());
  if (H5Sget_simple_extent_type(space_.id()) == H5S_NULL) fail(origin_->code, "{} is empty (a null data space)", where());
  const int rank = hdf5_checked(H5Sget_simple_extent_ndims(space_.id()), *origin_, "read the sizes of", path_);
  std::vector<hsize_t> sizes(static_cast<size_t>(rank));
  H5Sget_simple_extent_dims(space_.id(), sizes.data(), nullptr);
  for (const hsize_t size : sizes) {
    if (size > INT64_MAX) fail(origin_->code, "{} declares {} rows", where(), size);
    sizes_.push_back(static_cast<int64_t>(size));
  }
  const Hdf5Handle properties(hdf5_checked(H5Dget_create_plist(dataset_.id()), *origin_, "read the layout of", path_), H5Pclose);
  if (H5Pget_layout(properties.id()) == H5D_CHUNKED) {
    std::vector<hsize_t> chunk(sizes.size());
    hdf5_checked(H5Pget_chunk(properties.id(), rank, chunk.data()), *origin_, "read the layout of", path_);
    chunk_.emplace(chunk.begin(), chunk.end());
  }
  check_storage(properties.id());
}

std::string Hdf5Dataset::where() const { return fmt::format("{}: {}", printable(origin_->name), printable(path_)); }

void Hdf5Dataset::check_storage(int64_t properties) const {
  const ExitCode code = origin_->code;
  const H5D_layout_t layout = H5Pget_layout(properties);
  if (layout == H5D_VIRTUAL) fail(code, "{} is a virtual data set, kept in other files; copy it into one (h5repack)", where());
  if (H5Pget_external_count(properties) > 0) fail(code, "{} keeps its data in another file; copy it into one (h5repack)", where());
  check_filters(properties, where(), code);
  const auto declared = product(sizes_, H5Tget_size(type_.id()));
  const uint64_t stored = H5Dget_storage_size(dataset_.id());
  if (!declared || *declared > INT64_MAX / 8) fail(code, "{} declares more elements than any memory holds", where());
  const bool too_few = layout == H5D_CHUNKED ? *declared > harmless && *declared / largest_ratio > stored : *declared > stored;
  if (too_few || (*declared > 0 && stored == 0))
    fail(code, "{} declares {} bytes but {} are stored; the file is damaged or was never filled", where(), *declared, stored);
  if (chunk_ && product(*chunk_, H5Tget_size(type_.id())).value_or(UINT64_MAX) > largest_chunk)
    fail(code, "{} has chunks of more than {} MiB; store it again with smaller ones (h5repack -l)", where(), largest_chunk >> 20);
}

int64_t Hdf5Dataset::row_elements() const {
  int64_t n = 1;
  for (size_t i = 1; i < sizes_.size(); ++i) n *= sizes_[i];
  return n;
}

int64_t Hdf5Dataset::row_bytes() const { return row_elements() * static_cast<int64_t>(H5Tget_size(type_.id())); }

int64_t Hdf5Dataset::count() const { return rows() * row_elements(); }

Dtype Hdf5Dataset::natural_dtype() const {
  if (kind_ == Hdf5Kind::text) fail(origin_->code, "{} holds strings; numbers were expected", where());
  if (kind_ == Hdf5Kind::boolean) return Dtype::u8;
  const Stored stored = stored_number(type_.id());
  if (stored.floating) return stored.width > 4 ? Dtype::f64 : Dtype::f32;
  for (const Dtype dtype : {Dtype::u8, Dtype::i32, Dtype::u32, Dtype::i64})
    if (always_fits(stored, dtype)) return dtype;
  return Dtype::u64;
}

// The rows in the file, and as many elements in a row in memory.
std::pair<Hdf5Handle, Hdf5Handle> Hdf5Dataset::select_rows(int64_t first, int64_t count) const {
  require(first >= 0 && count >= 0 && first + count <= rows(), "{}: rows {} to {} of {}", where(), first, first + count, rows());
  Hdf5Handle file(hdf5_checked(H5Scopy(space_.id()), *origin_, "select rows of", path_), H5Sclose);
  if (!sizes_.empty()) {
    std::vector<hsize_t> start(sizes_.size(), 0), size(sizes_.begin(), sizes_.end());
    start[0] = static_cast<hsize_t>(first);
    size[0] = static_cast<hsize_t>(count);
    hdf5_checked(H5Sselect_hyperslab(file.id(), H5S_SELECT_SET, start.data(), nullptr, size.data(), nullptr), *origin_, "select rows of",
                 path_);
  }
  const auto elements = static_cast<hsize_t>(count * row_elements());
  Hdf5Handle memory(hdf5_checked(H5Screate_simple(1, &elements, nullptr), *origin_, "select rows of", path_), H5Sclose);
  return {std::move(file), std::move(memory)};
}

void Hdf5Dataset::read_rows(int64_t first, int64_t count, Dtype dtype, void* out) const {
  const Hdf5Quiet quiet;
  if (kind_ == Hdf5Kind::text) fail(origin_->code, "{} holds strings; numbers were expected", where());
  const auto [file, memory] = select_rows(first, count);
  const auto elements = static_cast<size_t>(count * row_elements());
  if (elements == 0) return;
  const Stored stored = stored_number(type_.id());
  const bool enumeration = H5Tget_class(type_.id()) == H5T_ENUM;
  if (!enumeration && always_fits(stored, dtype)) {
    hdf5_checked(H5Dread(dataset_.id(), hdf5_memory_type(dtype), memory.id(), file.id(), H5P_DEFAULT, out), *origin_, "read", path_);
    return;
  }
  // HDF5 would clamp what does not fit: read the widest number of the kind and check each value.
  const Dtype wide = stored.floating ? Dtype::f64 : stored.is_signed ? Dtype::i64 : Dtype::u64;
  std::vector<std::byte> values(elements * 8);
  if (enumeration) {  // HDF5 has no conversion from an enumeration to numbers, only from its base
    const Hdf5Handle native(H5Tget_native_type(type_.id(), H5T_DIR_DEFAULT), H5Tclose);
    const Hdf5Handle base(H5Tget_super(native.id()), H5Tclose);
    hdf5_checked(H5Dread(dataset_.id(), native.id(), memory.id(), file.id(), H5P_DEFAULT, values.data()), *origin_, "read", path_);
    hdf5_checked(H5Tconvert(base.id(), hdf5_memory_type(wide), elements, values.data(), nullptr, H5P_DEFAULT), *origin_, "convert", path_);
  } else {
    hdf5_checked(H5Dread(dataset_.id(), hdf5_memory_type(wide), memory.id(), file.id(), H5P_DEFAULT, values.data()), *origin_, "read",
                 path_);
  }
  const auto [place, why] = wide == Dtype::f64   ? narrow<double>(values.data(), elements, dtype, out)
                            : wide == Dtype::i64 ? narrow<int64_t>(values.data(), elements, dtype, out)
                                                 : narrow<uint64_t>(values.data(), elements, dtype, out);
  if (why != nullptr)
    fail(origin_->code, "{}, row {} (from 0): {} for {}", where(), first + static_cast<int64_t>(place) / row_elements(), why,
         name_of(dtype));
}

Tensor Hdf5Dataset::read_rows(int64_t first, int64_t count, Dtype dtype) const {
  if (sizes_.size() > Shape::max_rank) fail(origin_->code, "{} has {} axes; at most {} are read", where(), sizes_.size(), Shape::max_rank);
  Shape shape;
  for (size_t i = 0; i < sizes_.size(); ++i) shape.append(i == 0 ? count : sizes_[i]);
  Tensor rows(dtype, shape);
  read_rows(first, count, dtype, rows.raw());
  return rows;
}

std::vector<std::string> Hdf5Dataset::texts(int64_t first, int64_t count) const {
  const Hdf5Quiet quiet;
  if (kind_ != Hdf5Kind::text) fail(origin_->code, "{} holds numbers; strings were expected", where());
  const auto [file, memory] = select_rows(first, count);
  const int64_t file_space = file.id(), memory_space = memory.id();
  return hdf5_strings(type_.id(), memory_space, static_cast<size_t>(count * row_elements()), where(), *origin_,
                      [&](int64_t type, void* out) { return H5Dread(dataset_.id(), type, memory_space, file_space, H5P_DEFAULT, out); });
}

std::string Hdf5Dataset::text() const {
  if (count() != 1) fail(origin_->code, "{} has {} strings; one was expected", where(), count());
  return texts()[0];
}

}  // namespace tapeformer::io
