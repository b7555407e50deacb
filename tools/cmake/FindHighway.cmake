# SPDX-License-Identifier: Apache-2.0
# Google Highway: its headers, and the library that holds the table of instruction sets found at run time.
find_path(Highway_INCLUDE_DIR hwy/highway.h)
find_library(Highway_LIBRARY hwy)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Highway REQUIRED_VARS Highway_INCLUDE_DIR Highway_LIBRARY)
mark_as_advanced(Highway_INCLUDE_DIR Highway_LIBRARY)
if(Highway_FOUND AND NOT TARGET Highway::Highway)
  add_library(Highway::Highway UNKNOWN IMPORTED)
  set_target_properties(Highway::Highway PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${Highway_INCLUDE_DIR}"
                        IMPORTED_LOCATION "${Highway_LIBRARY}"
                        INTERFACE_COMPILE_DEFINITIONS HWY_SHARED_DEFINE)
endif()
