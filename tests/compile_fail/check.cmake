# SPDX-License-Identifier: BSL-1.0

# Checks that a source does not compile, and that its reader would be told why. The source has
#   - one or more lines `// expect: REGEX` (CMake's regular expressions), each to be found in the compiler's output;
#   - its mistake between `#if MISTAKE` and `#endif` (or `#else`). Without the mistake it must compile: nothing else in it
#     may be what the compiler objects to.
# Arguments: compiler, flags, source, and the verdict to come to.

file(STRINGS "${source}" expectations REGEX "^// expect: ")
separate_arguments(flags NATIVE_COMMAND "${flags}")
list(APPEND flags -Werror -fsyntax-only -fmessage-length=0 -fdiagnostics-color=never)

function(compile mistake result_variable output_variable)
  execute_process(COMMAND "${compiler}" ${flags} -DMISTAKE=${mistake} "${source}"
                  RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  set(${result_variable} "${result}" PARENT_SCOPE)
  set(${output_variable} "${output}" PARENT_SCOPE)
endfunction()

set(output)
set(found "fails as expected")
if(NOT expectations)
  set(found "expects nothing")
else()
  compile(0 result output)
  if(NOT result EQUAL 0)
    set(found "fails without its mistake as well")
  else()
    compile(1 result output)
    if(result EQUAL 0)
      set(found "compiles")
    else()
      foreach(expectation IN LISTS expectations)
        string(REGEX REPLACE "^// expect: " "" expectation "${expectation}")
        if(NOT output MATCHES "${expectation}")
          set(found "fails with another message")
          string(APPEND output "\nexpected: ${expectation}\n")
        endif()
      endforeach()
    endif()
  endif()
endif()

if(NOT found STREQUAL verdict)
  message(FATAL_ERROR "${source} ${found}\n${output}")
endif()
message(STATUS "${source} ${found}")
