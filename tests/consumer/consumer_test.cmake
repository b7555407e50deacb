# SPDX-License-Identifier: Apache-2.0
# cmake -D BUILD=... -D SOURCE=... -D CONFIG=... -D COMPILER=... -D GENERATOR=... -P consumer_test.cmake
# Installs BUILD under a prefix of its own, then configures, builds and runs the consumer against it, and configures one that can do without
# Tapeformer. Then only configures it with Tapeformer as a subfolder: that must bring the parent no tests, no warnings that stop its build
# and no install rules.
cmake_minimum_required(VERSION 3.25)
set(work ${BUILD}/consumer)
file(REMOVE_RECURSE ${work})
file(MAKE_DIRECTORY ${work})

# Runs a command and stops the test when it fails; its standard output is left in `output`.
function(must)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE code OUTPUT_VARIABLE out ERROR_VARIABLE err)
  if(NOT code EQUAL 0)
    string(JOIN " " command ${ARGV})
    message(FATAL_ERROR "${command}: exit ${code}\n${out}\n${err}")
  endif()
  set(output "${out}" PARENT_SCOPE)
endfunction()

set(consumer ${SOURCE}/tests/consumer)
set(toolchain -G ${GENERATOR} -DCMAKE_CXX_COMPILER=${COMPILER} -DCMAKE_BUILD_TYPE=${CONFIG})

must(${CMAKE_COMMAND} --install ${BUILD} --config ${CONFIG} --prefix ${work}/prefix)
must(${work}/prefix/bin/tapeformer --version)
# What is installed may name neither the source tree nor the build.
file(GLOB_RECURSE packaged ${work}/prefix/*.cmake)
list(LENGTH packaged count)
if(count LESS 8)
  message(FATAL_ERROR "only ${count} CMake files are installed")
endif()
foreach(file ${packaged})
  file(READ ${file} text)
  foreach(tree ${SOURCE} ${BUILD})
    string(FIND "${text}" "${tree}/" place)
    if(NOT place EQUAL -1)
      message(FATAL_ERROR "${file} names ${tree}")
    endif()
  endforeach()
endforeach()

must(${CMAKE_COMMAND} -S ${consumer} -B ${work}/build ${toolchain} -DCMAKE_PREFIX_PATH=${work}/prefix)
must(${CMAKE_COMMAND} --build ${work}/build --config ${CONFIG})
must(${work}/build/consumer)
string(REGEX MATCHALL "logits -?[0-9]+\\.[0-9]+ -?[0-9]+\\.[0-9]+ -?[0-9]+\\.[0-9]+\n" lines "${output}")
list(LENGTH lines count)
list(REMOVE_DUPLICATES lines)
list(LENGTH lines different)
if(NOT count EQUAL 2 OR NOT different EQUAL 2 OR output MATCHES "nan|inf")
  message(FATAL_ERROR "two different lines of three logits were expected:\n${output}")
endif()
message("${output}")

# Each library that Tapeformer is built upon, missing in turn.
file(READ ${SOURCE}/tools/cmake/TapeformerDependencies.cmake text)
string(REGEX MATCHALL "find_package\\([A-Za-z0-9_-]+" dependencies "${text}")
list(TRANSFORM dependencies REPLACE "find_package.(.+)" "\\1")
list(LENGTH dependencies count)
if(count LESS 10)
  message(FATAL_ERROR "only ${count} dependencies are found: ${dependencies}")
endif()
string(JOIN "," dependencies ${dependencies})
must(${CMAKE_COMMAND} -S ${consumer}/without -B ${work}/without ${toolchain} -DCMAKE_PREFIX_PATH=${work}/prefix -DDEPENDENCIES=${dependencies})

must(${CMAKE_COMMAND} -S ${consumer} -B ${work}/subfolder ${toolchain} -DTAPEFORMER_SOURCE=${SOURCE} -DCMAKE_EXPORT_COMPILE_COMMANDS=ON)
file(READ ${work}/subfolder/compile_commands.json commands)
if(NOT commands MATCHES "framework/kernels/tile_plan.cpp" OR commands MATCHES "_test.cpp|-Werror")
  message(FATAL_ERROR "as a subfolder Tapeformer brings its tests or its -Werror (${work}/subfolder/compile_commands.json)")
endif()
must(${CMAKE_COMMAND} --install ${work}/subfolder --prefix ${work}/subfolder-prefix)
file(GLOB_RECURSE installed ${work}/subfolder-prefix/*)
if(installed)
  message(FATAL_ERROR "as a subfolder Tapeformer installs ${installed}")
endif()
