# SPDX-License-Identifier: Apache-2.0
# tapeformer_library(NAME FILES ... LINK ... PRIVATE_LINK ...): one static library a folder, with the project's warnings and sanitizers.
# tapeformer_test(NAME FILES ... LINK ... TAGS ...): one Catch2 program a folder, run in random order, failing a test that asserts nothing. The
# cases of each tag are a test of their own, and what has none of the tags is one more.
include_guard()

function(tapeformer_compile_options target)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wno-missing-field-initializers
                         $<$<BOOL:${TAPEFORMER_WERROR}>:-Werror> $<$<CONFIG:Release>:-O2>)
  if(TAPEFORMER_SANITIZE)
    # At -O2 g++ 12 takes more than three minutes for each file of register blocks, at -O1 one.
    target_compile_options(${target} PRIVATE -O1 -g1 -fsanitize=${TAPEFORMER_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
    target_link_options(${target} PUBLIC -fsanitize=${TAPEFORMER_SANITIZE})
  endif()
endfunction()

function(tapeformer_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "FILES;LINK;PRIVATE_LINK")
  add_library(tapeformer_${name} STATIC ${arg_FILES})
  add_library(Tapeformer::${name} ALIAS tapeformer_${name})
  set_target_properties(tapeformer_${name} PROPERTIES EXPORT_NAME ${name})
  target_include_directories(tapeformer_${name} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/tapeformer>)
  target_compile_features(tapeformer_${name} PUBLIC cxx_std_20)
  target_link_libraries(tapeformer_${name} PUBLIC ${arg_LINK} PRIVATE ${arg_PRIVATE_LINK})
  tapeformer_compile_options(tapeformer_${name})
  # Parsing the standard library costs more than our own code. Not for the kernels, whose vectorised files must not see it (an inline function
  # compiled for AVX-512 there could be the one the linker keeps for the whole program).
  if(name STREQUAL core)
    target_precompile_headers(tapeformer_core PRIVATE <algorithm> <filesystem> <functional> <map> <memory> <optional> <string> <vector> <fmt/core.h>)
  elseif(NOT name STREQUAL kernels)
    target_precompile_headers(tapeformer_${name} REUSE_FROM tapeformer_core)
  endif()
  # Not the kernels, which are large by themselves and of which some must not see the standard library.
  if(TAPEFORMER_GROUPED AND NOT name STREQUAL kernels)
    set_target_properties(tapeformer_${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 6)
  endif()
  set_property(GLOBAL APPEND PROPERTY TAPEFORMER_LIBRARIES tapeformer_${name})
endfunction()

function(tapeformer_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "FILES;LINK;TAGS")
  add_executable(test_${name} ${arg_FILES})
  target_link_libraries(test_${name} PRIVATE tapeformer_test_support ${arg_LINK})
  tapeformer_compile_options(test_${name})
  target_compile_options(test_${name} PRIVATE $<$<CONFIG:Release>:-O1>)  # a test's time is in the library, its build time is not
  set(names ${name})
  set(filter_${name})
  foreach(tag ${arg_TAGS})
    list(APPEND names ${name}_${tag})
    set(filter_${name}_${tag} "[${tag}]")
    string(APPEND filter_${name} "~[${tag}]")
  endforeach()
  foreach(test ${names})
    add_test(NAME ${test} COMMAND test_${name} ${filter_${test}} --order rand --rng-seed time --warn NoAssertions
             WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
    set_tests_properties(${test} PROPERTIES FAIL_REGULAR_EXPRESSION "No tests ran")
  endforeach()
endfunction()
