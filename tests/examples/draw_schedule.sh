#!/usr/bin/env bash
# SPDX-License-Identifier: BSL-1.0
#
# Tests the example draw_schedule as its users meet it: draw_schedule.sh PROGRAM
source "$(dirname "$0")/check.sh"

# draws MESSAGES ARGUMENTS: a picture with an arrow for each of so many messages.
draws() {
  local messages=$1
  shift
  rm -f picture.svg
  timeout 60 "$program" "$@" -o picture.svg >out 2>err </dev/null || fail "exit code $?, '$(cat err)': $*"
  [[ $(grep -c 'marker-end\|opacity="0.25"' picture.svg) == $((messages + legends)) ]] ||
    fail "$(grep -c 'marker-end\|opacity="0.25"' picture.svg) arrows, not $messages and $legends of the legend: $*"
  grep -q '^</svg>$' picture.svg || fail "the picture has no end: $*"
}

rejects "an algorithm, a collective and a number of ranks are needed"
rejects "no such algorithm: fast .there are flat, ring" fast allreduce 4 -o x.svg
rejects "naive has no collective gather .it has allreduce" naive gather 4 -o x.svg
rejects "hypercube_halving does not support 6 ranks" hypercube_halving allreduce 6 -o x.svg
for ranks in 0 65 four ""; do rejects "RANKS must be a number from 1 to 64, not '$ranks'" ring allreduce "$ranks" -o x.svg; done
rejects "-o FILE.svg is needed" ring allreduce 4
rejects "-o needs a value" ring allreduce 4 -o
rejects "cannot write nowhere/x.svg" ring allreduce 4 -o nowhere/x.svg
rejects "--root must be a number from 0 to 3, not '4'" binomial reduce 4 --root 4 -o x.svg
rejects "--root: allreduce by ring has no root" ring allreduce 4 --root 1 -o x.svg
rejects "--root: scan by chain has no root" chain scan 4 --root 0 --segments 2 -o x.svg
rejects "--segments: reduce by binomial has no segments" binomial reduce 4 --root 1 --segments 4 -o x.svg
rejects "--segments must be a number from 1 to 64, not '0'" chain scan 4 --segments 0 -o x.svg
rejects "--hosts tells the hosts of 3 ranks, not of 4" 'two_level<flat, circulant>' allreduce 4 --hosts 0,0,1 -o x.svg
rejects "--hosts must be a number from 0 to 63, not ''" 'two_level<flat, circulant>' allreduce 4 --hosts 0,,1,1 -o x.svg
rejects "one argument too many: 5" ring allreduce 4 5 -o x.svg
rejects "no such flag: --rot" ring allreduce 4 --rot 1 -o x.svg
[[ ! -e x.svg ]] || fail "a picture of what was refused"

legends=1
draws 15 binomial reduce 16 --root 3
grep -q 'reduce by binomial, 16 ranks, root 3' picture.svg || fail "no title"
draws 56 flat reduce_scatter 8
draws 160 circulant reduce_scatter 32
legends=2
draws 48 circulant allreduce 8
grep -q '>4-7</text>' picture.svg || fail "rank 0 sends blocks 4 to 7 first"
grep -q '>6-1</text>' picture.svg || fail "rank 2 sends blocks 6 to 1 first"
# The README shows this one.
cmp -s picture.svg "$here/../../examples/draw_schedule/circulant.svg" ||
  fail "the README's picture is another: draw_schedule circulant allreduce 8 -o examples/draw_schedule/circulant.svg"
# Two messages within each of the two hosts, before and after four between them, twice.
draws 16 'two_level<flat, circulant>' allreduce 4 --hosts 0,1,0,1
draws 8 'two_level<flat, circulant>' allreduce 4 --hosts 0,1,1,1
legends=0
draws 0 ring allreduce 1
legends=1
draws 9 chain scan 4 --segments 3
draws 12 chain scan 4
legends=2
accepts written circulant allreduce 8 -o -
cmp -s written "$here/../../examples/draw_schedule/circulant.svg" || fail "the picture on standard output is another"
[[ ! -e - ]] || fail "a file of the name -"
timeout 60 "$program" circulant allreduce 8 -o - >/dev/full 2>err </dev/null && fail "a full device is enough"
grep -q '^draw_schedule: cannot write to standard output$' err || fail "'$(cat err)' does not say what is full"
for help in "--help" "-h" "ring allreduce -h" "-h --rot"; do
  # shellcheck disable=SC2086
  accepts written $help
  grep -q '^usage: draw_schedule' written || fail "no help: $help"
done

conclude
