// SPDX-License-Identifier: Apache-2.0
#include "tools/versions.h"

#include <fmt/format.h>
#include <hdf5.h>
#include <hwy/highway.h>
#include <oneapi/dnnl/dnnl.h>
#include <png.h>
#include <utf8proc.h>
#include <xxhash.h>
#include <CLI/Version.hpp>
#include <nlohmann/json.hpp>

#include "framework/core/version.h"

namespace tapeformer::tools {

std::string version_text() {
  unsigned major = 0, minor = 0, release = 0;
  H5get_libversion(&major, &minor, &release);
  const dnnl_version_t* dnnl = dnnl_version();
  return fmt::format(
      "tapeformer {} (checkpoint format 1, data format 1, config format 1)\noneDNN {}.{}.{}, HDF5 {}.{}.{}, "
      "yaml-cpp " TAPEFORMER_YAML_CPP_VERSION ", Highway {}.{}, fmt {}.{}.{}, nlohmann-json {}.{}.{}, CLI11 " CLI11_VERSION
      ", xxHash {}, utf8proc {}, libpng {}\ndevices: reference, cpu\n",
      TAPEFORMER_VERSION, dnnl->major, dnnl->minor, dnnl->patch, major, minor, release, HWY_MAJOR, HWY_MINOR, FMT_VERSION / 10000,
      FMT_VERSION / 100 % 100, FMT_VERSION % 100, NLOHMANN_JSON_VERSION_MAJOR, NLOHMANN_JSON_VERSION_MINOR, NLOHMANN_JSON_VERSION_PATCH,
      XXH_versionNumber(), utf8proc_version(), PNG_LIBPNG_VER_STRING);
}

}  // namespace tapeformer::tools
