# SPDX-License-Identifier: BSL-1.0
#
# What the tests of the examples share, to be sourced by them: EXAMPLE.sh PROGRAM. Goes to a folder that is removed in
# the end; the rest of the script says what PROGRAM must reject and accept, and ends with `conclude`.
set -uo pipefail
export LC_ALL=C
name=$(basename "$0" .sh)
here=$(dirname "$(readlink -f "$0")")
program=$(readlink -f "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1

failures=0
fail() {
  echo "FAILED: $*" >&2
  failures=$((failures + 1))
}

# rejects PATTERN ARGUMENTS: one line on standard error, like the pattern; nothing on standard output; exit code 2.
rejects() {
  local pattern=$1 code
  shift
  timeout 60 "$program" "$@" >out 2>err </dev/null
  code=$?
  [[ $code == 2 ]] || fail "exit code $code, not 2: $*"
  [[ ! -s out ]] || fail "something on standard output: $*"
  [[ $(wc -l <err) == 1 ]] || fail "$(wc -l <err) lines on standard error: $*"
  grep -qE "^$name: .*$pattern" err || fail "'$(cat err)' does not say '$pattern': $*"
}

# accepts NAME ARGUMENTS: exit code 0, nothing on standard error; the output is kept in the file NAME.
accepts() {
  local output=$1 code
  shift
  timeout 120 "$program" "$@" >"$output" 2>err </dev/null
  code=$?
  [[ $code == 0 && ! -s err ]] || fail "exit code $code, '$(cat err)': $*"
}

conclude() {
  ((failures == 0)) && echo "all as it should be"
  exit $((failures > 0))
}
