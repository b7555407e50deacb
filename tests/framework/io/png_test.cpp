// SPDX-License-Identifier: Apache-2.0
// PNG files, read back pixel by pixel by the reader of libpng; sizes that are no multiple of a byte, and images that cannot be.
#include "framework/io/png.h"

#include <png.h>

#include <cstring>

#include "framework/core/error.h"
#include "tests/support/catch.h"

using namespace tapeformer;

namespace {

struct Seen {
  uint32_t width = 0, height = 0;
  std::vector<uint8_t> pixels;  // as 8-bit grey
};

// libpng's reader is another path than its writer: filters, packing and checksums are undone by it.
Seen read_back(const std::string& bytes) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  REQUIRE(png_image_begin_read_from_memory(&image, bytes.data(), bytes.size()) != 0);
  image.format = PNG_FORMAT_GRAY;
  Seen seen{image.width, image.height, std::vector<uint8_t>(PNG_IMAGE_SIZE(image))};
  REQUIRE(png_image_finish_read(&image, nullptr, seen.pixels.data(), 0, nullptr) != 0);
  return seen;
}

io::GreyImage sample(int64_t width, int64_t height) {
  io::GreyImage image{width, height, {}};
  for (int64_t i = 0; i < width * height; ++i) image.pixels.push_back(static_cast<uint8_t>(i * 37 % 251));
  return image;
}

}  // namespace

TEST_CASE("a grey image is read back pixel by pixel", "[png]") {
  for (const auto& [width, height] : {std::pair{1, 1}, {7, 3}, {8, 8}, {9, 130}}) {
    const io::GreyImage image = sample(width, height);
    const std::string bytes = io::png_bytes(image, io::PngDepth::grey);
    const Seen seen = read_back(bytes);
    CHECK((seen.width == static_cast<uint32_t>(width) && seen.height == static_cast<uint32_t>(height)));
    CHECK(seen.pixels == image.pixels);
    CHECK(bytes == io::png_bytes(image, io::PngDepth::grey));
    CHECK(std::memcmp(bytes.data(), "\x89PNG\r\n\x1a\n", 8) == 0);
  }
}

TEST_CASE("one bit a pixel is black below 128 and white from there on", "[png]") {
  for (const int width : {1, 7, 8, 9, 64}) {
    io::GreyImage image = sample(width, 5);
    image.pixels.front() = 127;
    image.pixels.back() = 128;
    const std::string bytes = io::png_bytes(image, io::PngDepth::black_and_white);
    CHECK(bytes.at(24) == 1);  // the bit depth in IHDR
    const Seen seen = read_back(bytes);
    REQUIRE(seen.pixels.size() == image.pixels.size());
    for (size_t i = 0; i < seen.pixels.size(); ++i) CHECK(seen.pixels[i] == (image.pixels[i] < 128 ? 0 : 255));
  }
}

TEST_CASE("images that cannot be are refused", "[png]") {
  CHECK_THROWS_AS(io::png_bytes({0, 1, {}}, io::PngDepth::grey), Error);
  CHECK_THROWS_AS(io::png_bytes({2, 2, {1, 2, 3}}, io::PngDepth::grey), Error);
  CHECK_THROWS_AS(io::png_bytes({32769, 1, std::vector<uint8_t>(32769)}, io::PngDepth::grey), Error);
}
