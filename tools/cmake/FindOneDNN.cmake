# SPDX-License-Identifier: Apache-2.0
# oneDNN by header and library: the packaged config file asks for OpenCL headers that its package does not bring.
find_path(OneDNN_INCLUDE_DIR oneapi/dnnl/dnnl.hpp)
find_library(OneDNN_LIBRARY dnnl)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(OneDNN REQUIRED_VARS OneDNN_INCLUDE_DIR OneDNN_LIBRARY)
mark_as_advanced(OneDNN_INCLUDE_DIR OneDNN_LIBRARY)
if(OneDNN_FOUND AND NOT TARGET OneDNN::OneDNN)
  add_library(OneDNN::OneDNN UNKNOWN IMPORTED)
  set_target_properties(OneDNN::OneDNN PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${OneDNN_INCLUDE_DIR}"
                        IMPORTED_LOCATION "${OneDNN_LIBRARY}")
endif()
