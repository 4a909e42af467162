# SPDX-License-Identifier: BSL-1.0

# Builds and runs the consumer, `how` it may use tutti: find_package or add_subdirectory.
# Arguments: how, source and build (tutti's directories), scratch, generator, compiler, flags.
cmake_minimum_required(VERSION 3.25)
set(CMAKE_EXECUTE_PROCESS_COMMAND_ECHO STDOUT)
file(REMOVE_RECURSE "${scratch}")

if(how STREQUAL find_package)
  # Moved after it is installed: the installed tree may not remember where it was put.
  execute_process(COMMAND "${CMAKE_COMMAND}" --install "${build}" --prefix "${scratch}/first"
                  OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
  file(RENAME "${scratch}/first" "${scratch}/installed")

  file(GLOB_RECURSE wanted RELATIVE "${source}/include" "${source}/include/*")
  file(GLOB_RECURSE installed RELATIVE "${scratch}/installed/include" "${scratch}/installed/include/*")
  set(missing ${wanted})
  set(surplus ${installed})
  list(REMOVE_ITEM missing ${installed})
  list(REMOVE_ITEM surplus ${wanted})
  if(missing OR surplus)
    message(FATAL_ERROR "installed headers: missing are '${missing}', too many are '${surplus}'")
  endif()

  file(GLOB_RECURSE version_file "${scratch}/installed/*/tuttiConfigVersion.cmake")
  foreach(request "0.1:TRUE" "0.2:FALSE" "1.0:FALSE")
    string(REGEX MATCH "^(([0-9]+)\\.([0-9]+)):(.*)$" matched "${request}")
    set(PACKAGE_FIND_VERSION ${CMAKE_MATCH_1})
    set(PACKAGE_FIND_VERSION_MAJOR ${CMAKE_MATCH_2})
    set(PACKAGE_FIND_VERSION_MINOR ${CMAKE_MATCH_3})
    set(compatible ${CMAKE_MATCH_4})
    include("${version_file}")
    if(NOT PACKAGE_VERSION_COMPATIBLE STREQUAL compatible)
      message(FATAL_ERROR "version ${PACKAGE_FIND_VERSION} asked for: compatible is ${PACKAGE_VERSION_COMPATIBLE}")
    endif()
  endforeach()
  set(where "-DCMAKE_PREFIX_PATH=${scratch}/installed")
else()
  set(where "-DTUTTI_SOURCE=${source}")
endif()

execute_process(COMMAND "${CMAKE_COMMAND}" -S "${source}/tests/consumer" -B "${scratch}/build" -G "${generator}"
                        "-DCMAKE_CXX_COMPILER=${compiler}" "-DCMAKE_CXX_FLAGS=${flags}" "${where}"
                COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND "${CMAKE_COMMAND}" --build "${scratch}/build" COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND "${scratch}/build/my_program" COMMAND_ERROR_IS_FATAL ANY)
