# SPDX-License-Identifier: Apache-2.0
# Sets TAPEFORMER_COMMIT: what is checked out, or "unknown" where the source is no git checkout of its own. The build configures itself again when
# that moves, and only the file that holds it is compiled anew.
include_guard()

set(TAPEFORMER_COMMIT unknown)
execute_process(COMMAND git -C ${PROJECT_SOURCE_DIR} rev-parse --path-format=absolute --show-toplevel HEAD
                OUTPUT_VARIABLE answer ERROR_QUIET RESULT_VARIABLE failed OUTPUT_STRIP_TRAILING_WHITESPACE)
if(NOT failed)
  string(REPLACE "\n" ";" answer "${answer}")
  list(POP_FRONT answer top)
  file(REAL_PATH ${PROJECT_SOURCE_DIR} source)
  if(top STREQUAL source)
    list(GET answer -1 TAPEFORMER_COMMIT)
    execute_process(COMMAND git -C ${PROJECT_SOURCE_DIR} rev-parse --path-format=absolute --git-path logs/HEAD OUTPUT_VARIABLE moves
                    OUTPUT_STRIP_TRAILING_WHITESPACE)
    if(EXISTS ${moves})
      set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${moves})
    endif()
  endif()
endif()
