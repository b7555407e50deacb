# SPDX-License-Identifier: Apache-2.0
# fast_float, headers only.
find_path(FastFloat_INCLUDE_DIR fast_float/fast_float.h)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(FastFloat REQUIRED_VARS FastFloat_INCLUDE_DIR)
mark_as_advanced(FastFloat_INCLUDE_DIR)
if(FastFloat_FOUND AND NOT TARGET FastFloat::FastFloat)
  add_library(FastFloat::FastFloat INTERFACE IMPORTED)
  set_target_properties(FastFloat::FastFloat PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${FastFloat_INCLUDE_DIR}")
endif()
