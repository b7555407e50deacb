// SPDX-License-Identifier: Apache-2.0
// PNG images: grey, 8 bits a pixel, or black and white, 1 bit a pixel. The same pixels are the same bytes.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace tapeformer::io {

struct GreyImage {
  int64_t width = 0, height = 0;
  std::vector<uint8_t> pixels;  // [height, width], 0 black to 255 white
};

enum class PngDepth : uint8_t {
  grey,             // 8 bits
  black_and_white,  // 1 bit: below 128 is black
};

// The file's bytes. Error(usage) for an image without pixels or one above 32,768 on a side.
std::string png_bytes(const GreyImage&, PngDepth);

}  // namespace tapeformer::io
