#!/usr/bin/env bash
# SPDX-License-Identifier: BSL-1.0
#
# The same program, unchanged, by every launcher that the README tells of and this machine has:
# launching.sh PROGRAM LAUNCH README. PROGRAM is one of those hello examples that meet through TCP.
launch=$(readlink -f "$2")
readme=$(readlink -f "$3")
source "$(dirname "$0")/check.sh"
printf '#!/bin/sh\nexec "%s" launched\n' "$program" >my_program
chmod +x my_program
ln -s "$launch" launch
PATH=$work:$PATH
# What mpirun asks for in a container of few processors.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1

# The commands for one host, by line.
port=$((15000 + $$ % 17000))
mapfile -t lines < <(awk '/^## / { inside = $0 == "## Launching" } /^```/ { code = inside && $0 == "```sh"; next } code' "$readme" |
  sed "s/ *#.*//; s/29500/$port/" | awk '/--nnodes/ { others = 3 } others-- > 0 { next } { print }')
((${#lines[@]} >= 8)) || fail "the README tells of ${#lines[@]} commands only"
told=
ran=0
for line in "${lines[@]}"; do
  if [[ $line == export\ * ]]; then
    told+="$line; "
    continue
  fi
  if ! command -v "${line%% *}" >/dev/null; then
    echo "not here: $line"
    continue
  fi
  timeout 60 bash -c "$told$line" >out 2>err </dev/null || fail "exit code $?, '$(cat err)': $line"
  diff <(sed 's/^\[0\] //' out) <(printf 'sum      6\naverage  6\n') || fail "'$(cat out err)': $line"
  ran=$((ran + 1))
done
((ran >= 4)) || fail "only $ran commands ran"
conclude
