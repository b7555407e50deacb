// SPDX-License-Identifier: Apache-2.0
// Files of HDF5: opening for reading, listing, attributes.
#include <hdf5.h>

#include <utility>

#include "framework/core/log.h"
#include "framework/io/hdf5_calls.h"

namespace tapeformer::io {
namespace {

// Exceptions may not cross the C library: what a callback of it throws is kept in `error` and thrown again by the caller.
struct Listing {
  std::vector<std::pair<std::string, bool>> names;  // and whether it is a hard link
  std::exception_ptr error;
};

herr_t add_link(hid_t, const char* name, const H5L_info_t* info, void* data) {
  auto& listing = *static_cast<Listing*>(data);
  try {
    listing.names.emplace_back(name, info->type == H5L_TYPE_HARD);
    return 0;
  } catch (...) {
    listing.error = std::current_exception();
    return -1;
  }
}

herr_t add_attribute(hid_t, const char* name, const H5A_info_t*, void* data) {
  auto& listing = *static_cast<Listing*>(data);
  try {
    listing.names.emplace_back(name, true);
    return 0;
  } catch (...) {
    listing.error = std::current_exception();
    return -1;
  }
}

// An object by its path. A link that leaves the file is refused by name.
Hdf5Handle open_object(const Hdf5Origin& origin, int64_t file, const std::string& path) {
  std::string target;
  const Hdf5Handle access = hdf5_link_access(origin, target);
  const hid_t object = H5Oopen(file, path.c_str(), access.id());
  if (object < 0 && !target.empty())
    fail(origin.code, "{}: {} is a link to {}; links out of the file are not followed, copy the data into one file", printable(origin.name),
         printable(path), printable(target));
  return Hdf5Handle(hdf5_checked(object, origin, "open", path), H5Oclose);
}

Attribute read_number(hid_t attribute, Hdf5Kind kind, hid_t type, const Hdf5Origin& origin, const std::string& where) {
  if (kind == Hdf5Kind::floating) {
    double value = 0;
    hdf5_checked(H5Aread(attribute, H5T_NATIVE_DOUBLE, &value), origin, "read", where);
    return value;
  }
  if (H5Tget_class(type) == H5T_ENUM) {
    const Hdf5Handle native(H5Tget_native_type(type, H5T_DIR_DEFAULT), H5Tclose);
    const Hdf5Handle base(H5Tget_super(native.id()), H5Tclose);
    if (H5Tget_size(native.id()) > sizeof(int64_t)) fail(origin.code, "{} has values of {} bytes", where, H5Tget_size(native.id()));
    int64_t value = 0;
    hdf5_checked(H5Aread(attribute, native.id(), &value), origin, "read", where);
    hdf5_checked(H5Tconvert(base.id(), H5T_NATIVE_INT64, 1, &value, nullptr, H5P_DEFAULT), origin, "convert", where);
    return kind == Hdf5Kind::boolean ? Attribute(value != 0) : Attribute(value);
  }
  if (H5Tget_sign(type) == H5T_SGN_NONE) {
    uint64_t value = 0;
    hdf5_checked(H5Aread(attribute, H5T_NATIVE_UINT64, &value), origin, "read", where);
    return value;
  }
  int64_t value = 0;
  hdf5_checked(H5Aread(attribute, H5T_NATIVE_INT64, &value), origin, "read", where);
  return value;
}

}  // namespace

Hdf5File Hdf5File::open(const std::filesystem::path& path, ExitCode code) {
  const Hdf5Quiet quiet;
  auto origin = std::make_shared<const Hdf5Origin>(Hdf5Origin{path.string(), code});
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) fail(code, "{}: no such file", printable(path.string()));
  const Hdf5Handle access = hdf5_file_access(*origin);
  hdf5_checked(H5Pset_file_locking(access.id(), false, true), *origin, "open", "without a lock");
  // Of unpacked chunks, for each data set: samples are read in random order.
  hdf5_checked(H5Pset_cache(access.id(), 0, 521, size_t{32} << 20, 0.75), *origin, "open", "with a cache");
  return {origin, Hdf5Handle(hdf5_checked(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.id()), *origin, "open", "the file"), H5Fclose)};
}

bool Hdf5File::has(const std::string& path) const {
  const Hdf5Quiet quiet;
  std::string target;
  const Hdf5Handle access = hdf5_link_access(*origin_, target);
  for (size_t slash = path.find('/', 1);; slash = path.find('/', slash + 1)) {
    const std::string part = path.substr(0, slash);
    if (part != "/" && H5Lexists(file_.id(), part.c_str(), access.id()) <= 0) return false;
    if (slash == path.npos) return true;
  }
}

std::vector<Hdf5File::Child> Hdf5File::children(const std::string& group) const {
  const Hdf5Quiet quiet;
  const Hdf5Handle object = open_object(*origin_, file_.id(), group);
  Listing listing;
  const herr_t status = H5Literate(object.id(), H5_INDEX_NAME, H5_ITER_INC, nullptr, add_link, &listing);
  if (listing.error) std::rethrow_exception(listing.error);
  hdf5_checked(status, *origin_, "list", group);
  std::vector<Child> children;
  for (auto& [name, hard] : listing.names) {
    ChildKind kind = ChildKind::link;
    if (hard) {
      const Hdf5Handle child(hdf5_checked(H5Oopen(object.id(), name.c_str(), H5P_DEFAULT), *origin_, "open", name), H5Oclose);
      const H5I_type_t type = H5Iget_type(child.id());
      kind = type == H5I_GROUP ? ChildKind::group : type == H5I_DATASET ? ChildKind::dataset : ChildKind::other;
    }
    children.push_back({std::move(name), kind});
  }
  return children;
}

Hdf5Dataset Hdf5File::dataset(const std::string& path) const {
  const Hdf5Quiet quiet;
  Hdf5Handle object = open_object(*origin_, file_.id(), path);
  if (H5Iget_type(object.id()) != H5I_DATASET)
    fail(origin_->code, "{}: {} is a group; a data set was expected", printable(origin_->name), printable(path));
  return {origin_, path, std::move(object)};
}

std::vector<std::string> Hdf5File::attribute_names(const std::string& path) const {
  const Hdf5Quiet quiet;
  const Hdf5Handle object = open_object(*origin_, file_.id(), path);
  Listing listing;
  const herr_t status = H5Aiterate2(object.id(), H5_INDEX_NAME, H5_ITER_INC, nullptr, add_attribute, &listing);
  if (listing.error) std::rethrow_exception(listing.error);
  hdf5_checked(status, *origin_, "list the attributes of", path);
  std::vector<std::string> names;
  for (auto& [name, unused] : listing.names) names.push_back(std::move(name));
  return names;
}

std::optional<Attribute> Hdf5File::attribute(const std::string& path, const std::string& name) const {
  const Hdf5Quiet quiet;
  const Hdf5Handle object = open_object(*origin_, file_.id(), path);
  if (H5Aexists(object.id(), name.c_str()) <= 0) return std::nullopt;
  const std::string where = fmt::format("{}: attribute {} of {}", printable(origin_->name), printable(name), printable(path));
  const Hdf5Handle attribute(hdf5_checked(H5Aopen(object.id(), name.c_str(), H5P_DEFAULT), *origin_, "open", where), H5Aclose);
  const Hdf5Handle type(hdf5_checked(H5Aget_type(attribute.id()), *origin_, "read", where), H5Tclose);
  const Hdf5Handle space(hdf5_checked(H5Aget_space(attribute.id()), *origin_, "read", where), H5Sclose);
  if (H5Sget_simple_extent_npoints(space.id()) != 1) fail(origin_->code, "{} is no single value", where);
  const Hdf5Kind kind = hdf5_kind(type.id(), where, origin_->code);
  if (kind != Hdf5Kind::text) return read_number(attribute.id(), kind, type.id(), *origin_, where);
  return hdf5_strings(type.id(), space.id(), 1, where, *origin_,
                      [&](int64_t memory_type, void* out) { return H5Aread(attribute.id(), memory_type, out); })[0];
}

}  // namespace tapeformer::io
