// SPDX-License-Identifier: Apache-2.0
// HDF5 files that must be refused with the name of what is wrong: cut files, missing filters, links out of the file, sizes no memory holds.
#include <hdf5.h>

#include <array>

#include "framework/io/hdf5.h"
#include "tests/framework/io/raw_hdf5.h"
#include "tests/framework/io/scratch.h"
#include "tests/support/catch.h"

using namespace tapeformer;
using namespace tapeformer::io;
using Catch::Matchers::ContainsSubstring;

namespace {

std::string refusal(const std::filesystem::path& file, const std::string& path) {
  try {
    const Hdf5Dataset x = Hdf5File::open(file).dataset(path);
    x.read(Dtype::f64);
    return "read";
  } catch (const Error& e) {
    CHECK(e.code() == ExitCode::data);
    return e.what();
  }
}

std::vector<double> ramp(size_t n) {
  std::vector<double> values(n);
  for (size_t i = 0; i < n; ++i) values[i] = static_cast<double>(i);
  return values;
}

// Applies nothing, under a number that no other library knows.
size_t pass(unsigned, size_t, const unsigned*, size_t bytes, size_t*, void**) { return bytes; }

}  // namespace

TEST_CASE("missing files, missing names and groups are named") {
  const Scratch scratch;
  CHECK_THAT(refusal(scratch.path() / "none.h5", "/x"), ContainsSubstring("none.h5: no such file"));
  CHECK_THAT(refusal(scratch.path(), "/x"), ContainsSubstring("no such file"));
  CHECK_THAT(refusal(scratch.write("text.h5", "this is no HDF5 file"), "/x"), ContainsSubstring("text.h5: cannot open"));
  CHECK_THAT(refusal(scratch.write("empty.h5", ""), "/x"), ContainsSubstring("empty.h5: cannot open"));
  const auto values = ramp(4);
  write_raw(scratch.path() / "x.h5", "/x", H5T_IEEE_F64LE, {4}, H5T_NATIVE_DOUBLE, values.data(), Layout::contiguous);
  CHECK_THAT(refusal(scratch.path() / "x.h5", "/label"), ContainsSubstring("x.h5: cannot open /label"));
  CHECK_THAT(refusal(scratch.path() / "x.h5", "/"), ContainsSubstring("/ is a group"));
  CHECK(refusal(scratch.path() / "x.h5", "/x") == "read");
}

TEST_CASE("a cut file is refused with both sizes") {
  const Scratch scratch;
  const auto values = ramp(4000);
  write_raw(scratch.path() / "whole.h5", "/x", H5T_IEEE_F64LE, {4000}, H5T_NATIVE_DOUBLE, values.data(), Layout::contiguous);
  const std::string bytes = scratch.read("whole.h5");
  for (const size_t size : {size_t{96}, bytes.size() / 2, bytes.size() - 1}) {
    const std::string message = refusal(scratch.write("cut.h5", bytes.substr(0, size)), "/x");
    CHECK_THAT(message,
               ContainsSubstring("cut.h5") && ContainsSubstring(std::to_string(size)) && ContainsSubstring(std::to_string(bytes.size())));
  }
}

TEST_CASE("a filter that is not built in is refused by name before reading; shuffle and gzip are not") {
  const Scratch scratch;
  constexpr H5Z_filter_t unknown = 32001;
  const H5Z_class2_t filter = {H5Z_CLASS_T_VERS, unknown, 1, 1, "blosc", nullptr, nullptr, pass};
  REQUIRE(H5Zregister(&filter) >= 0);
  const auto path = scratch.path() / "filter.h5";
  {
    const Handle file(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), H5Fclose);
    const Handle properties(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
    const hsize_t size = 8;
    H5Pset_chunk(properties.id, 1, &size);
    H5Pset_filter(properties.id, unknown, 0, 0, nullptr);
    const Handle space(H5Screate_simple(1, &size, nullptr), H5Sclose);
    const Handle dataset(H5Dcreate2(file.id, "/x", H5T_IEEE_F64LE, space.id, H5P_DEFAULT, properties.id, H5P_DEFAULT), H5Dclose);
    const auto values = ramp(8);
    H5Dwrite(dataset.id, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data());
  }
  CHECK(refusal(path, "/x") == "read");
  REQUIRE(H5Zunregister(unknown) >= 0);
  CHECK_THAT(refusal(path, "/x"), ContainsSubstring("filter.h5: /x") && ContainsSubstring("filter 32001 'blosc'"));
}

TEST_CASE("links out of the file, external storage and virtual data sets are not followed") {
  const Scratch scratch;
  const auto values = ramp(4);
  const std::string other = (scratch.path() / "other.h5").string();
  write_raw(other, "/x", H5T_IEEE_F64LE, {4}, H5T_NATIVE_DOUBLE, values.data(), Layout::contiguous);
  scratch.write("raw.bin", std::string(32, '\0'));
  const auto path = scratch.path() / "links.h5";
  {
    const Handle file(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), H5Fclose);
    H5Lcreate_external(other.c_str(), "/x", file.id, "/outside", H5P_DEFAULT, H5P_DEFAULT);
    H5Lcreate_external(other.c_str(), "/", file.id, "/group", H5P_DEFAULT, H5P_DEFAULT);
    H5Lcreate_soft("/outside", file.id, "/soft", H5P_DEFAULT, H5P_DEFAULT);
    H5Lcreate_soft("/loop", file.id, "/loop", H5P_DEFAULT, H5P_DEFAULT);
    const hsize_t size = 4;
    const Handle space(H5Screate_simple(1, &size, nullptr), H5Sclose);
    const Handle external(H5Pcreate(H5P_DATASET_CREATE), H5Pclose), virtual_one(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
    H5Pset_external(external.id, (scratch.path() / "raw.bin").c_str(), 0, 32);
    const Handle kept(H5Dcreate2(file.id, "/kept", H5T_IEEE_F64LE, space.id, H5P_DEFAULT, external.id, H5P_DEFAULT), H5Dclose);
    H5Pset_virtual(virtual_one.id, space.id, other.c_str(), "/x", space.id);
    const Handle mapped(H5Dcreate2(file.id, "/mapped", H5T_IEEE_F64LE, space.id, H5P_DEFAULT, virtual_one.id, H5P_DEFAULT), H5Dclose);
  }
  for (const char* name : {"/outside", "/group/x", "/soft"})
    CHECK_THAT(refusal(path, name), ContainsSubstring("links.h5: " + std::string(name)) && ContainsSubstring(other));
  CHECK_THAT(refusal(path, "/loop"), ContainsSubstring("cannot open /loop"));
  CHECK_THAT(refusal(path, "/kept"), ContainsSubstring("data in another file"));
  CHECK_THAT(refusal(path, "/mapped"), ContainsSubstring("virtual"));
  const Hdf5File file = Hdf5File::open(path);
  CHECK(!file.has("/group/x"));
  CHECK(file.children("/")[0].kind == Hdf5File::ChildKind::link);
}

TEST_CASE("declared sizes are held against what is stored before anything is allocated") {
  const Scratch scratch;
  const auto path = scratch.path() / "huge.h5";
  for (const Layout layout : {Layout::chunked, Layout::gzip, Layout::unlimited})
    for (const std::vector<hsize_t>& sizes :
         {std::vector<hsize_t>{hsize_t{1} << 60}, {hsize_t{1} << 40, hsize_t{1} << 40}, {hsize_t{1} << 32}, {100}}) {
      write_raw(path, "/x", H5T_IEEE_F64LE, sizes, H5T_NATIVE_DOUBLE, nullptr, layout);
      CHECK_THAT(refusal(path, "/x"), ContainsSubstring("huge.h5: /x declares"));
    }
  write_raw(path, "/x", H5T_IEEE_F64LE, {1'000'000'000}, H5T_NATIVE_DOUBLE, nullptr, Layout::contiguous);
  CHECK_THAT(refusal(path, "/x"), ContainsSubstring("huge.h5: /x declares 8000000000 bytes but 0 are stored"));
  {
    const Handle file(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), H5Fclose);
    const Handle null(H5Screate(H5S_NULL), H5Sclose);
    const Handle x(H5Dcreate2(file.id, "/x", H5T_IEEE_F64LE, null.id, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), H5Dclose);
  }
  CHECK_THAT(refusal(path, "/x"), ContainsSubstring("null data space"));
}

TEST_CASE("types that are no numbers and no strings are refused by name") {
  const Scratch scratch;
  const auto path = scratch.path() / "types.h5";
  const Handle compound(H5Tcreate(H5T_COMPOUND, 8), H5Tclose), list(H5Tvlen_create(H5T_NATIVE_INT), H5Tclose),
      opaque(H5Tcreate(H5T_OPAQUE, 4), H5Tclose);
  H5Tinsert(compound.id, "real", 0, H5T_NATIVE_FLOAT);
  for (const auto& [type, word] :
       {std::pair{compound.id, "compound"}, std::pair{list.id, "varying length"}, std::pair{opaque.id, "opaque"}}) {
    write_raw(path, "/x", type, {3}, type, nullptr, Layout::contiguous);
    CHECK_THAT(refusal(path, "/x"), ContainsSubstring("types.h5: /x holds") && ContainsSubstring(word));
  }
  write_raw(path, "/x", H5T_STD_I32LE, {2, 1, 1, 1, 2}, H5T_NATIVE_INT, std::array{1, 2, 3, 4}.data(), Layout::contiguous);
  CHECK_THAT(refusal(path, "/x"), ContainsSubstring("has 5 axes"));
}
