# SPDX-License-Identifier: Apache-2.0
# Finds the third-party libraries and gives each one name, whichever release is installed. Used by the build and, installed, by consumers.
include_guard()
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(yaml-cpp REQUIRED)
if(NOT TARGET yaml-cpp::yaml-cpp)  # the name since yaml-cpp 0.8
  add_library(yaml-cpp::yaml-cpp INTERFACE IMPORTED)
  target_link_libraries(yaml-cpp::yaml-cpp INTERFACE yaml-cpp)
endif()
find_package(HDF5 REQUIRED COMPONENTS C)
find_package(PNG REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(OneDNN REQUIRED)
find_package(Highway REQUIRED)
find_package(XXHash REQUIRED)
find_package(Utf8proc REQUIRED)
find_package(FastFloat REQUIRED)
