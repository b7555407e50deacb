// SPDX-License-Identifier: Apache-2.0
#include "framework/io/png.h"

#include <png.h>

#include "framework/core/error.h"

namespace tapeformer::io {
namespace {

constexpr int64_t longest_side = 32768;

void append(png_structp png, png_bytep bytes, size_t count) {
  static_cast<std::string*>(png_get_io_ptr(png))->append(reinterpret_cast<const char*>(bytes), count);
}

// libpng is C that unwinds by longjmp unless its error handler throws first.
[[noreturn]] void refuse(png_structp, png_const_charp message) { fail(ExitCode::internal, "libpng: {}", message); }
void ignore(png_structp, png_const_charp) {}

class Writer {
 public:
  Writer() : png_(png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, refuse, ignore)) {
    if (!png_) fail(ExitCode::internal, "libpng {} does not start", PNG_LIBPNG_VER_STRING);
    info_ = png_create_info_struct(png_);
  }
  ~Writer() { png_destroy_write_struct(&png_, &info_); }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;
  png_structp png() { return png_; }
  png_infop info() { return info_; }

 private:
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
};

}  // namespace

std::string png_bytes(const GreyImage& image, PngDepth depth) {
  if (image.width < 1 || image.height < 1 || image.width > longest_side || image.height > longest_side)
    fail(ExitCode::usage, "a PNG of {} x {} pixels is not written; each side has 1 to {}", image.width, image.height, longest_side);
  require(static_cast<int64_t>(image.pixels.size()) == image.width * image.height, "{} pixels for {} x {}", image.pixels.size(),
          image.width, image.height);
  std::string bytes;
  Writer writer;
  png_set_write_fn(writer.png(), &bytes, append, nullptr);
  const bool two = depth == PngDepth::black_and_white;
  png_set_IHDR(writer.png(), writer.info(), static_cast<png_uint_32>(image.width), static_cast<png_uint_32>(image.height), two ? 1 : 8,
               PNG_COLOR_TYPE_GRAY, PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_set_compression_level(writer.png(), 9);
  png_write_info(writer.png(), writer.info());
  std::vector<png_byte> row(static_cast<size_t>(two ? (image.width + 7) / 8 : image.width));
  for (int64_t y = 0; y < image.height; ++y) {
    const uint8_t* from = image.pixels.data() + y * image.width;
    if (two) row.assign(row.size(), 0);
    for (int64_t x = 0; x < image.width; ++x) {
      if (!two) row[static_cast<size_t>(x)] = from[x];
      else if (from[x] >= 128) row[static_cast<size_t>(x / 8)] = static_cast<png_byte>(row[static_cast<size_t>(x / 8)] | 0x80 >> x % 8);
    }
    png_write_row(writer.png(), row.data());
  }
  png_write_end(writer.png(), nullptr);
  return bytes;
}

}  // namespace tapeformer::io
