# SPDX-License-Identifier: BSL-1.0

# Builds and runs the consumer, `how` it may use tutti: find_package or add_subdirectory; without tutti::tcp, with it,
# with tutti::tcp_tls, with tutti::mpi, and where Asio, OpenSSL or MPI is not found.
# Arguments: how, tcp, tls and mpi (whether the build offers it), source and build (tutti's directories), scratch, generator, compiler,
# flags, asio (the folder of its headers, if it is known).
cmake_minimum_required(VERSION 3.25)
set(CMAKE_EXECUTE_PROCESS_COMMAND_ECHO STDOUT)
file(REMOVE_RECURSE "${scratch}")

if(how STREQUAL find_package)
  # Moved after it is installed: the installed tree may not remember where it was put.
  execute_process(COMMAND "${CMAKE_COMMAND}" --install "${build}" --prefix "${scratch}/first"
                  OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
  file(RENAME "${scratch}/first" "${scratch}/installed")

  file(GLOB_RECURSE wanted RELATIVE "${source}/include" "${source}/include/*")
  if(NOT tcp)
    list(FILTER wanted EXCLUDE REGEX "^tutti/(run_tcp|run_hierarchical|run_auto|transport/tcp(/.*)?)\\.hpp$")
  endif()
  if(NOT tls)
    list(FILTER wanted EXCLUDE REGEX "^tutti/(run_tcp_tls|transport/tcp_tls|transport/tcp/tls(_.*)?)\\.hpp$")
  endif()
  if(NOT mpi)
    list(FILTER wanted EXCLUDE REGEX "^tutti/(run_mpi|transport/mpi(/.*)?)\\.hpp$")
  endif()
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

set(configure "${CMAKE_COMMAND}" -S "${source}/tests/consumer" -G "${generator}" "-DCMAKE_CXX_COMPILER=${compiler}"
              "-DCMAKE_CXX_FLAGS=${flags}" "${where}")
set(with_asio "-DTUTTI_ASIO_INCLUDE_DIR=${asio}")
set(without_asio "-DTUTTI_ASIO_INCLUDE_DIR=${scratch}/nowhere" -DCMAKE_DISABLE_FIND_PACKAGE_asio=TRUE)
set(without_openssl -DCMAKE_DISABLE_FIND_PACKAGE_OpenSSL=TRUE)
# A compiler of MPI's that answers nothing: find_package(MPI) looks, and finds none.
set(without_mpi -DMPI_CXX_COMPILER=/bin/false)

# That the consumer can be configured with these arguments; that it then builds and runs.
function(configures)
  execute_process(COMMAND ${configure} -B "${scratch}/build" -UMPI_* -DTCP=OFF -DTLS=OFF -DMPI=OFF -DNO_MPI=OFF ${ARGN}
                  COMMAND_ERROR_IS_FATAL ANY)
endfunction()
function(works)
  configures(${ARGN})
  execute_process(COMMAND "${CMAKE_COMMAND}" --build "${scratch}/build" COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND "${scratch}/build/my_program" COMMAND_ERROR_IS_FATAL ANY)
endfunction()

# That the program over MPI runs as its only rank.
function(alone)
  execute_process(COMMAND "${CMAKE_COMMAND}" -E env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
                          "${scratch}/build/my_mpi_program" COMMAND_ERROR_IS_FATAL ANY)
endfunction()

# That it stops with this message.
function(stops message)
  execute_process(COMMAND ${configure} -B "${scratch}/stops" -DTCP=OFF -DTLS=OFF -DMPI=OFF ${ARGN} RESULT_VARIABLE code ERROR_VARIABLE errors)
  string(REGEX REPLACE "[ \n]+" " " errors "${errors}")
  if(code EQUAL 0 OR NOT errors MATCHES "${message}")
    message(FATAL_ERROR "expected to stop with '${message}', exit code is ${code}, and the message\n${errors}")
  endif()
endfunction()

if(how STREQUAL find_package)
  works()
  if(tcp)
    works(-DTCP=ON ${with_asio})
    execute_process(COMMAND "${scratch}/build/my_tcp_program" COMMAND_ERROR_IS_FATAL ANY)
    stops("tutti's component tcp needs Asio: Asio 1.22 or newer was not found" -DTCP=ON ${without_asio})
  else()
    stops("tutti was installed without component tcp" -DTCP=ON)
  endif()
  if(tls)
    works(-DTLS=ON ${with_asio})
    execute_process(COMMAND "${scratch}/build/my_tls_program" COMMAND_ERROR_IS_FATAL ANY)
    stops("tutti's component tcp_tls needs OpenSSL: OpenSSL 1.1.1 or newer was not found" -DTLS=ON ${with_asio}
          ${without_openssl})
  elseif(tcp)
    stops("tutti was installed without component tcp_tls" -DTLS=ON ${with_asio})
  endif()
  if(mpi)
    works(-DMPI=ON)
    alone()
    stops("tutti's component mpi needs MPI: no MPI was found" -DMPI=ON ${without_mpi})
  else()
    stops("tutti was installed without component mpi" -DMPI=ON)
  endif()
else()
  # Targets of a folder are those that were installed: that they are there is enough.
  works(${without_asio} ${without_mpi} -DNO_MPI=ON)
  stops("TUTTI_MPI is ON, but no MPI was found" -DTUTTI_MPI=ON ${without_mpi})
  stops("TUTTI_TCP is ON, but Asio 1.22 or newer was not found" -DTUTTI_TCP=ON ${without_asio})
  if(mpi)
    configures(-DMPI=ON -DTUTTI_MPI=ON)
  endif()
  if(tcp)
    configures(-DTCP=ON ${with_asio})
    stops("TUTTI_TCP_TLS is ON, but OpenSSL 1.1.1 or newer was not found" -DTUTTI_TCP_TLS=ON -DTCP=ON ${with_asio}
          ${without_openssl})
  endif()
  if(tls)
    configures(-DTLS=ON ${with_asio})
  endif()
endif()
