#!/bin/sh
# SPDX-License-Identifier: BSL-1.0
#
# Starts so many ranks, also where there are fewer processors, and as root in a container: under_mpi.sh MPIRUN N PROGRAM...
launcher=$1
ranks=$2
shift 2
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
if "$launcher" --version 2>&1 | grep -qiE 'open[ -]?mpi|open-?rte'; then
  exec "$launcher" --oversubscribe -n "$ranks" "$@"
fi
exec "$launcher" -n "$ranks" "$@"
