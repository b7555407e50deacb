# SPDX-License-Identifier: Apache-2.0
# utf8proc: Debian packages no CMake config for it.
find_path(Utf8proc_INCLUDE_DIR utf8proc.h)
find_library(Utf8proc_LIBRARY utf8proc)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Utf8proc REQUIRED_VARS Utf8proc_INCLUDE_DIR Utf8proc_LIBRARY)
mark_as_advanced(Utf8proc_INCLUDE_DIR Utf8proc_LIBRARY)
if(Utf8proc_FOUND AND NOT TARGET Utf8proc::Utf8proc)
  add_library(Utf8proc::Utf8proc UNKNOWN IMPORTED)
  set_target_properties(Utf8proc::Utf8proc PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${Utf8proc_INCLUDE_DIR}"
                        IMPORTED_LOCATION "${Utf8proc_LIBRARY}")
endif()
