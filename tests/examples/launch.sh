#!/usr/bin/env bash
# SPDX-License-Identifier: BSL-1.0
#
# Tests the example launch as its users meet it: launch.sh PROGRAM HELLO_PROCESSES [HELLO_TCP]
hello_processes=$(readlink -f "$2")
hello_tcp=${3:+$(readlink -f "$3")}
source "$(dirname "$0")/check.sh"

# ends CODE ARGUMENTS: with that exit code; the output is in `out` and `err`.
ends() {
  local expected=$1 code
  shift
  timeout 60 "$program" "$@" >out 2>err </dev/null
  code=$?
  [[ $code == "$expected" ]] || fail "exit code $code, not $expected, '$(cat err)': $*"
}
says() { grep -qxE "$1" err || fail "'$(cat err)' does not say '$1'"; }
# A process is gone, or a zombie that nobody has waited for yet.
gone() { ! grep -qs '^State:[[:space:]]*[^ZX[:space:]]' "/proc/$1/status"; }
all_gone() {
  local each
  for each in $(cat "$@"); do gone "$each" || fail "process $each is left: $(tr '\0' ' ' <"/proc/$each/cmdline")"; done
}
# until COMMAND: waits for what must become true.
until_true() {
  local turn
  for ((turn = 0; turn < 3000; ++turn)); do
    "$@" && return
    read -r -t 0.01 <>"$work/nothing"
  done
  fail "never: $*"
}
mkfifo nothing

# --- wrong flags
rejects "no flag is called '-x'" -x
rejects "no command: " -n 4
rejects "-n needs a value" -n
for value in 0 -1 4097 four 4x ""; do rejects "-n is '$value', not a number from 1 to 4096" -n "$value" true; done
for value in -1 nan soon ""; do rejects "--grace is '$value', not a number from 0 to 86400" --grace "$value" true; done
rejects "-n and --hosts, --per-host exclude each other" -n 2 --hosts 2 true
rejects "these are 1000000 ranks, at most 4096" --hosts 1000 --per-host 1000 true
accepts help --help
for flag in -n --hosts --per-host --grace; do grep -q -- "^  $flag " help || fail "--help lacks $flag"; done

# --- every rank is told who it is
accepts who -n 3 sh -c 'echo "$TUTTI_RANK of $TUTTI_SIZE, $LOCAL_RANK of $LOCAL_WORLD_SIZE, at $MASTER_ADDR"
                        echo "$TUTTI_JOB $TUTTI_TOKEN $MASTER_PORT" >job.$TUTTI_RANK; test -z "$(cat)"'
diff <(sort who) - <<END || fail "the ranks are told: $(cat who)"
[0] 0 of 3, 0 of 3, at 127.0.0.1
[1] 1 of 3, 1 of 3, at 127.0.0.1
[2] 2 of 3, 2 of 3, at 127.0.0.1
END
cmp -s job.0 job.1 && cmp -s job.0 job.2 || fail "the ranks are told different things: $(cat job.?)"
grep -qE '^launch [0-9a-f]{16} [0-9a-f]{32} [0-9]+$' job.0 || fail "the job is '$(cat job.0)'"
mv job.0 before
accepts who -n 1 sh -c 'echo "$TUTTI_JOB $TUTTI_TOKEN $MASTER_PORT" >job.0'
cmp -s job.0 before && fail "two jobs are told the same"
if unshare -i true 2>/dev/null || unshare -Ui true 2>/dev/null; then
  accepts who --hosts 2 --per-host 2 sh -c 'echo "$LOCAL_RANK of $LOCAL_WORLD_SIZE: $(readlink /proc/self/ns/ipc)"'
  [[ $(grep -cE '^\[[02]\] 0 of 2: ' who) == 2 && $(grep -cE '^\[[13]\] 1 of 2: ' who) == 2 ]] || fail "hosts: $(cat who)"
  [[ $(sed 's/.*: //' who | sort | uniq -c | awk '{ print $1 }' | xargs) == "2 2" ]] ||
    fail "two hosts of two are not two namespaces: $(cat who)"
fi

# --- lines come whole, however they are written, and however many ranks write at a time
ends 0 -n 4 sh -c 'i=0; while [ $i -lt 300 ]; do printf "a line of %s, " $TUTTI_RANK; printf "number %s\n" $i
                   echo "error of $TUTTI_RANK, number $i" >&2; i=$((i + 1)); done; printf "no end"'
[[ $(wc -l <out) == 1204 && $(wc -l <err) == 1200 ]] || fail "$(wc -l <out) and $(wc -l <err) lines"
for rank in 0 1 2 3; do
  diff <(grep "^\[$rank\] a" out) <(for ((i = 0; i < 300; ++i)); do echo "[$rank] a line of $rank, number $i"; done) \
    >/dev/null || fail "the lines of rank $rank are torn, or out of order"
  grep -qxF "[$rank] no end" out || fail "rank $rank: a last line without end"
  [[ $(grep -cxE "\[$rank\] error of $rank, number [0-9]+" err) == 300 ]] || fail "the errors of rank $rank"
done
ends 0 -n 2 sh -c 'head -c 3000000 /dev/zero | tr "\0" "$TUTTI_RANK"; echo'
[[ $(sort out | awk '{ print length($0), substr($0, 1, 8) }' | xargs) == "3000004 [0] 0000 3000004 [1] 1111" ]] ||
  fail "long lines are cut"
# Both outputs to one place, whose reader is slow to come.
timeout 60 "$program" -n 3 sh -c 'i=0; while [ $i -lt 2000 ]; do echo "out $i"; echo "err $i" >&2; i=$((i + 1)); done' 2>&1 |
  { read -r first && echo "$first" && cat; } >both
[[ $(grep -cxE '\[[012]\] (out|err) [0-9]+' both) == 12000 && $(wc -l <both) == 12000 ]] || fail "two outputs in one are torn"

# --- exit codes: the first that fails, and all others end
ends 7 -n 3 sh -c '[ $TUTTI_RANK != 1 ] || exit 7; exec sleep 1000'
says "launch: rank 1 ended with exit code 7"
ends 137 -n 3 sh -c '[ $TUTTI_RANK != 2 ] || kill -KILL $$; exec sleep 1000'
says "launch: rank 2 was killed by signal 9 \(Killed\)"
ends 127 -n 2 "$work/no-such-program"
says "launch: cannot run '$work/no-such-program': No such file or directory"
ends 126 "$work"
says "launch: cannot run '$work': Permission denied"
# One that will not end is killed after the grace.
ends 3 -n 2 --grace 0.2 sh -c 'echo $$ >pid.$TUTTI_RANK; [ $TUTTI_RANK = 0 ] || { trap "" TERM; : >trapped; while :; do sleep 1000; done; }
                               until [ -e trapped ]; do sleep 0.01; done; exit 3'
all_gone pid.0 pid.1
# One that is asked to may say good-bye.
ends 4 -n 2 sh -c '[ $TUTTI_RANK = 0 ] || { trap "echo good-bye; exit 0" TERM; : >ready; while :; do sleep 0.01; done; }
                   until [ -e ready ]; do sleep 0.01; done; exit 4'
grep -qxF "[1] good-bye" out || fail "who is asked to end cannot say good-bye: '$(cat out)'"

# --- no orphans: what ranks start ends with them, also in sessions of their own
orphans='sleep 1000 & echo $! >child.$TUTTI_RANK
         setsid sh -c "echo \$\$ >session.$TUTTI_RANK; sleep 1000 & echo \$! >grandchild.$TUTTI_RANK; wait" &
         until [ -s grandchild.$TUTTI_RANK ]; do sleep 0.01; done'
ends 0 -n 2 sh -c "$orphans"
all_gone child.? session.? grandchild.?
rm -f child.? session.? grandchild.?
ends 5 -n 2 sh -c "$orphans; [ \$TUTTI_RANK = 1 ] || wait; exit 5"
all_gone child.? session.? grandchild.?

# --- signals, and launch itself killed
running() { # SIGNAL CODE
  rm -f pid.?
  env --default-signal=INT "$program" -n 3 sh -c 'echo $$ >pid.$TUTTI_RANK; exec sleep 1000' >out 2>err </dev/null &
  local launcher=$!
  for rank in 0 1 2; do until_true test -s pid.$rank; done
  kill "-$1" $launcher
  { wait $launcher; } 2>/dev/null
  local code=$?
  [[ $code == "$2" ]] || fail "launch got $1: exit code $code, not $2"
  until_true gone "$(cat pid.0)"
  until_true gone "$(cat pid.1)"
  until_true gone "$(cat pid.2)"
}
running INT 130
running TERM 143
running HUP 129
running KILL 137

# --- its reader leaves
timeout 60 "$program" -n 2 yes 2>/dev/null | head -n 1 >first
[[ ${PIPESTATUS[0]} == 141 && $(cat first) =~ ^\[[01]\]\ y$ ]] || fail "nobody reads: $(cat first)"

# --- with what it is for
accepts hello -n 4 "$hello_processes" launched
diff hello <(printf '[0] sum      6\n[0] average  6\n') || fail "ranks that are processes: $(cat hello)"
if [[ -n $hello_tcp ]]; then
  accepts hello -n 4 "$hello_tcp" launched
  diff hello <(printf '[0] sum      6\n[0] average  6\n') || fail "ranks over TCP: $(cat hello)"
fi

conclude
