# SPDX-License-Identifier: Apache-2.0
# Installs the libraries, headers, find modules and the command, so that find_package(Tapeformer) works.
include(CMakePackageConfigHelpers)
option(TAPEFORMER_INSTALL "Install Tapeformer" ${PROJECT_IS_TOP_LEVEL})

# One name over all libraries. The target is not called `tapeformer`: that is the command's file in the build folder.
get_property(libraries GLOBAL PROPERTY TAPEFORMER_LIBRARIES)
add_library(tapeformer_all INTERFACE)
add_library(Tapeformer::tapeformer ALIAS tapeformer_all)
set_target_properties(tapeformer_all PROPERTIES EXPORT_NAME tapeformer)
target_link_libraries(tapeformer_all INTERFACE ${libraries})
if(NOT TAPEFORMER_INSTALL)
  return()
endif()

set_target_properties(tapeformer_command PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)
install(TARGETS tapeformer_command RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS tapeformer_all ${libraries} EXPORT TapeformerTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})

# The headers keep their folders; what serves one device alone stays here.
set(headers ${CMAKE_INSTALL_INCLUDEDIR}/tapeformer)
install(DIRECTORY framework models datasets DESTINATION ${headers}
        FILES_MATCHING PATTERN "*.h" PATTERN "*.def" PATTERN "kernels/cpu" EXCLUDE PATTERN "kernels/reference" EXCLUDE)
install(FILES ${PROJECT_BINARY_DIR}/generated/framework/core/version.h DESTINATION ${headers}/framework/core)

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/Tapeformer)
install(EXPORT TapeformerTargets NAMESPACE Tapeformer:: DESTINATION ${package})
configure_package_config_file(tools/cmake/TapeformerConfig.cmake.in ${PROJECT_BINARY_DIR}/TapeformerConfig.cmake INSTALL_DESTINATION ${package}
                              NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/TapeformerConfigVersion.cmake COMPATIBILITY SameMajorVersion)
install(FILES ${PROJECT_BINARY_DIR}/TapeformerConfig.cmake ${PROJECT_BINARY_DIR}/TapeformerConfigVersion.cmake
              tools/cmake/TapeformerDependencies.cmake tools/cmake/FindOneDNN.cmake tools/cmake/FindHighway.cmake tools/cmake/FindXXHash.cmake
              tools/cmake/FindUtf8proc.cmake tools/cmake/FindFastFloat.cmake
        DESTINATION ${package})
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
