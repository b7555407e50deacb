// SPDX-License-Identifier: Apache-2.0
// Reading what other programs write (every width, byte order, string kind and layout), and our own files written and read back.
#include "framework/io/hdf5.h"

#include <hdf5.h>

#include <cmath>
#include <limits>

#include "tests/framework/io/raw_hdf5.h"
#include "tests/framework/io/scratch.h"
#include "tests/support/catch.h"

using namespace tapeformer;
using namespace tapeformer::io;

namespace {

template <class T>
std::vector<T> values_of(const Tensor& t) {
  const auto s = t.span<T>();
  return {s.begin(), s.end()};
}

}  // namespace

TEST_CASE("integers of every width and byte order read as int64 and as their natural dtype") {
  const Scratch scratch;
  struct Type {
    hid_t id;
    bool is_signed;
    Dtype natural;
  };
  const Type types[] = {{H5T_STD_I8LE, true, Dtype::i32},   {H5T_STD_I8BE, true, Dtype::i32},   {H5T_STD_I16LE, true, Dtype::i32},
                        {H5T_STD_I16BE, true, Dtype::i32},  {H5T_STD_I32LE, true, Dtype::i32},  {H5T_STD_I32BE, true, Dtype::i32},
                        {H5T_STD_I64LE, true, Dtype::i64},  {H5T_STD_I64BE, true, Dtype::i64},  {H5T_STD_U8LE, false, Dtype::u8},
                        {H5T_STD_U8BE, false, Dtype::u8},   {H5T_STD_U16LE, false, Dtype::i32}, {H5T_STD_U16BE, false, Dtype::i32},
                        {H5T_STD_U32LE, false, Dtype::u32}, {H5T_STD_U32BE, false, Dtype::u32}, {H5T_STD_U64LE, false, Dtype::u64},
                        {H5T_STD_U64BE, false, Dtype::u64}};
  for (const Type& type : types)
    for (const auto& layout : all_layouts()) {
      const std::vector<int64_t> values = {0, 1, 2, type.is_signed ? int64_t{-3} : 3, 100, 127};
      const auto file = scratch.path() / "integers.h5";
      write_raw(file, "/x", type.id, {3, 2}, H5T_NATIVE_INT64, values.data(), layout);
      const Hdf5Dataset x = Hdf5File::open(file).dataset("/x");
      CHECK(x.kind() == Hdf5Kind::integer);
      CHECK(x.natural_dtype() == type.natural);
      CHECK(values_of<int64_t>(x.read(Dtype::i64)) == values);
      CHECK(x.read(Dtype::f64).data<double>()[3] == static_cast<double>(values[3]));
      CHECK(values_of<int32_t>(x.read_rows(1, 2, Dtype::i32)) == std::vector<int32_t>(values.begin() + 2, values.end()));
      CHECK(x.read_rows(3, 0, Dtype::i32).count() == 0);
    }
}

TEST_CASE("floats of every width and byte order read alike") {
  const Scratch scratch;
  const Handle half(H5Tcopy(H5T_IEEE_F32LE), H5Tclose);
  H5Tset_fields(half.id, 15, 10, 5, 0, 10);
  H5Tset_ebias(half.id, 15);
  H5Tset_size(half.id, 2);
  for (const hid_t type :
       {half.id, hid_t{H5T_IEEE_F32LE}, hid_t{H5T_IEEE_F32BE}, hid_t{H5T_IEEE_F64LE}, hid_t{H5T_IEEE_F64BE}, hid_t{H5T_NATIVE_LDOUBLE}})
    for (const auto& layout : all_layouts()) {
      const std::vector<double> values = {0.0, -1.5, 0.25, 1024.0, INFINITY, -INFINITY};
      const auto file = scratch.path() / "floats.h5";
      write_raw(file, "/x", type, {6}, H5T_NATIVE_DOUBLE, values.data(), layout);
      const Hdf5Dataset x = Hdf5File::open(file).dataset("/x");
      CHECK(x.kind() == Hdf5Kind::floating);
      CHECK(x.natural_dtype() == (H5Tget_size(type) > 4 ? Dtype::f64 : Dtype::f32));
      CHECK(values_of<double>(x.read(Dtype::f64)) == values);
      CHECK(values_of<float>(x.read(Dtype::f32)) == std::vector<float>(values.begin(), values.end()));
    }
}

TEST_CASE("a value that does not fit is a fault, never clamped or cut") {
  const Scratch scratch;
  const auto file = scratch.path() / "loss.h5";
  const auto fault = [&](double value, hid_t stored, Dtype dtype) -> std::string {
    write_raw(file, "/y", stored, {1}, H5T_NATIVE_DOUBLE, &value, Layout::contiguous);
    try {
      Hdf5File::open(file).dataset("/y").read(dtype);
      return "read";
    } catch (const Error& e) {
      CHECK(e.code() == ExitCode::data);
      return e.what();
    }
  };
  using Catch::Matchers::ContainsSubstring;
  CHECK_THAT(fault(0x1p40, H5T_STD_I64LE, Dtype::i32),
             ContainsSubstring("loss.h5: /y, row 0") && ContainsSubstring("out of range for int32"));
  CHECK_THAT(fault(-1, H5T_STD_I8LE, Dtype::u8), ContainsSubstring("out of range"));
  CHECK_THAT(fault(0x1p63, H5T_STD_U64BE, Dtype::i64), ContainsSubstring("out of range"));
  CHECK_THAT(fault(2.7, H5T_IEEE_F32LE, Dtype::i32), ContainsSubstring("a fraction"));
  CHECK_THAT(fault(1e10, H5T_IEEE_F64LE, Dtype::i32), ContainsSubstring("out of range"));
  CHECK_THAT(fault(NAN, H5T_IEEE_F64BE, Dtype::i64), ContainsSubstring("NaN or infinity"));
  CHECK_THAT(fault(INFINITY, H5T_IEEE_F64LE, Dtype::i64), ContainsSubstring("NaN or infinity"));
  CHECK_THAT(fault(1e39, H5T_IEEE_F64LE, Dtype::f32), ContainsSubstring("out of range"));
  CHECK(fault(2.0, H5T_IEEE_F32LE, Dtype::i32) == "read");
  CHECK(fault(0.1, H5T_IEEE_F64LE, Dtype::f32) == "read");
  CHECK(fault(NAN, H5T_IEEE_F64LE, Dtype::f32) == "read");
}

TEST_CASE("booleans and other enumerations read as numbers") {
  const Scratch scratch;
  const auto file = scratch.path() / "enums.h5";
  const Handle boolean(H5Tenum_create(H5T_STD_I8LE), H5Tclose), colour(H5Tenum_create(H5T_STD_I16BE), H5Tclose);
  for (const auto& [type, first, second] : {std::tuple{boolean.id, "FALSE", "TRUE"}, std::tuple{colour.id, "red", "green"}}) {
    const int16_t wide[] = {0, 1};
    const int8_t narrow[] = {0, 1};
    const bool is_boolean = type == boolean.id;
    H5Tenum_insert(type, first, is_boolean ? static_cast<const void*>(&narrow[0]) : &wide[0]);
    const int16_t big_endian_one = 0x0100;
    H5Tenum_insert(type, second, is_boolean ? static_cast<const void*>(&narrow[1]) : &big_endian_one);
    const int8_t bytes[] = {1, 0, 1};
    const int16_t words[] = {0x0100, 0, 0x0100};
    write_raw(file, "/flags", type, {3}, type, is_boolean ? static_cast<const void*>(bytes) : words, Layout::contiguous);
    const Hdf5Dataset flags = Hdf5File::open(file).dataset("/flags");
    CHECK(flags.kind() == (is_boolean ? Hdf5Kind::boolean : Hdf5Kind::integer));
    CHECK(values_of<int32_t>(flags.read(Dtype::i32)) == std::vector<int32_t>{1, 0, 1});
    CHECK(values_of<uint8_t>(flags.read_rows(1, 2, Dtype::u8)) == std::vector<uint8_t>{0, 1});
  }
}

TEST_CASE("strings of every kind give the same text") {
  const Scratch scratch;
  const std::vector<std::string> labels = {"cat", "", "two words", "exactly 10"};
  const std::vector<std::string> accents = {"caf\xc3\xa9", "", "\xe2\x82\xac 5", "\xf0\x9f\x98\x80\xc3\xa4\xc3\xb6\xc3\xbc"};
  for (const H5T_cset_t set : {H5T_CSET_ASCII, H5T_CSET_UTF8})
    for (const int padding : {-1, int{H5T_STR_NULLTERM}, int{H5T_STR_NULLPAD}, int{H5T_STR_SPACEPAD}})
      for (const auto& layout : all_layouts()) {
        const auto file = scratch.path() / "strings.h5";
        for (const auto& texts : {labels, accents}) {
          write_raw_strings(file, "/labels", texts, set, padding, layout);
          const Hdf5Dataset dataset = Hdf5File::open(file).dataset("/labels");
          CHECK(dataset.kind() == Hdf5Kind::text);
          CHECK(dataset.texts() == texts);
          CHECK(dataset.texts(2, 1) == std::vector<std::string>{texts[2]});
          CHECK_THROWS_WITH(dataset.read(Dtype::i32), Catch::Matchers::ContainsSubstring("/labels holds strings"));
        }
        write_raw_strings(file, "/labels", {"ok", "bad \xff"}, set, padding, layout);
        CHECK_THROWS_WITH(Hdf5File::open(file).dataset("/labels").texts(),
                          Catch::Matchers::ContainsSubstring("string 1: byte 4 is not UTF-8"));
      }
}

TEST_CASE("what was written reads back, in memory and on disk, and again as the same bytes") {
  const Scratch scratch;
  const auto fill = [](Hdf5File file) {
    const std::vector<float> weights = {1.5f, -0.0f, std::numeric_limits<float>::denorm_min(), NAN, INFINITY, 3.0f};
    file.write("/model/a.b.weight", Tensor::of<float>(weights, {2, 3}));
    file.write("/model/steps", Tensor::of<int64_t>(std::vector<int64_t>{-7}, Shape{}));
    file.write("/model/none", Tensor(Dtype::u8, {0, 4}));
    file.write("/deep/er/still", Tensor::of<uint64_t>({~uint64_t{0}}));
    file.write_text("/config/text", std::string(100'000, 'x') + "\xc3\xa4\n");
    file.write_texts("/labels", {"b", "", "\xe2\x82\xac"});
    file.write_texts("/no_labels", {});
    file.write_attribute("/", "step", int64_t{-12});
    file.write_attribute("/", "seed", ~uint64_t{0});
    file.write_attribute("/model/a.b.weight", "trainable", true);
    file.write_attribute("/model", "frozen", false);
    file.write_attribute("/scheduler", "rate", 0.1);
    file.write_attribute("/labels", "note", std::string("caf\xc3\xa9 ") + std::string(70'000, 'n'));
    return file;
  };
  const std::string image = fill(Hdf5File::create_image("a")).take_image();
  CHECK(image == fill(Hdf5File::create_image("another name")).take_image());
  fill(Hdf5File::create(scratch.path() / "f.h5"));
  for (const Hdf5File& file : {Hdf5File::from_image(image, "image", ExitCode::data), Hdf5File::open(scratch.path() / "f.h5")}) {
    const Hdf5Dataset weight = file.dataset("/model/a.b.weight");
    CHECK(weight.sizes() == std::vector<int64_t>{2, 3});
    CHECK(!weight.chunk());
    const Tensor w = weight.read(weight.natural_dtype());
    CHECK(w.shape() == Shape{2, 3});
    CHECK((std::signbit(w.data<float>()[1]) && std::isnan(w.data<float>()[3]) && w.data<float>()[5] == 3.0f));
    CHECK(file.dataset("/model/steps").read(Dtype::i64).shape().rank() == 0);
    CHECK(file.dataset("/model/none").read(Dtype::u8).shape() == Shape{0, 4});
    CHECK(values_of<uint64_t>(file.dataset("/deep/er/still").read(Dtype::u64)) == std::vector<uint64_t>{~uint64_t{0}});
    CHECK(file.dataset("/config/text").text() == std::string(100'000, 'x') + "\xc3\xa4\n");
    CHECK(file.dataset("/labels").texts() == std::vector<std::string>{"b", "", "\xe2\x82\xac"});
    CHECK(file.dataset("/no_labels").texts().empty());
    CHECK(file.attribute("/", "step") == Attribute(int64_t{-12}));
    CHECK(file.attribute("/", "seed") == Attribute(~uint64_t{0}));
    CHECK(file.attribute("/model/a.b.weight", "trainable") == Attribute(true));
    CHECK(file.attribute("/model", "frozen") == Attribute(false));
    CHECK(file.attribute("/scheduler", "rate") == Attribute(0.1));
    CHECK(std::get<std::string>(*file.attribute("/labels", "note")).size() == 70'006);
    CHECK(!file.attribute("/", "absent"));
    CHECK(file.attribute_names("/") == std::vector<std::string>{"seed", "step"});
    CHECK(file.has("/"));
    CHECK(file.has("/model/a.b.weight"));
    CHECK(!file.has("/model/absent/deeper"));
    CHECK(!file.has("/labels/below a data set"));
    std::string names;
    for (const auto& child : file.children("/")) names += child.name + (child.kind == Hdf5File::ChildKind::group ? "/ " : " ");
    CHECK(names == "config/ deep/ labels model/ no_labels scheduler/ ");
  }
}

TEST_CASE("misuse of writing is refused") {
  Hdf5File file = Hdf5File::create_image("a");
  CHECK_THROWS_AS(file.write("no/slash", Tensor::zeros(Dtype::f32, {1})), Error);
  CHECK_THROWS_AS(file.write("/x", Tensor()), Error);
  CHECK_THROWS_AS(file.write("/x", Tensor::zeros(Dtype::f32, {4, 4}).columns(0, 2)), Error);
  CHECK_THROWS_AS(file.write_text("/t", std::string("a\0b", 3)), Error);
  CHECK_THROWS_AS(file.write_text("/t", "\xff"), Error);
  file.write("/x", Tensor::zeros(Dtype::f32, {1}));
  CHECK_THROWS_AS(file.write("/x", Tensor::zeros(Dtype::f32, {1})), Error);
  const Hdf5Dataset x = Hdf5File::from_image(file.take_image(), "a", ExitCode::data).dataset("/x");
  CHECK_THROWS_AS(x.read_rows(0, 2, Dtype::f32), Error);
  CHECK_THROWS_AS(x.read_rows(-1, 1, Dtype::f32), Error);
  CHECK_THROWS_AS(file.take_image(), Error);
  CHECK_THROWS_WITH(x.texts(), Catch::Matchers::ContainsSubstring("holds numbers"));
}
