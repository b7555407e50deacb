# SPDX-License-Identifier: Apache-2.0
# xxHash: Debian packages no CMake config for it.
find_path(XXHash_INCLUDE_DIR xxhash.h)
find_library(XXHash_LIBRARY xxhash)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(XXHash REQUIRED_VARS XXHash_INCLUDE_DIR XXHash_LIBRARY)
mark_as_advanced(XXHash_INCLUDE_DIR XXHash_LIBRARY)
if(XXHash_FOUND AND NOT TARGET XXHash::XXHash)
  add_library(XXHash::XXHash UNKNOWN IMPORTED)
  set_target_properties(XXHash::XXHash PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${XXHash_INCLUDE_DIR}"
                        IMPORTED_LOCATION "${XXHash_LIBRARY}")
endif()
