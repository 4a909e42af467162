#!/usr/bin/env bash
# SPDX-License-Identifier: BSL-1.0
#
# Tests the example train_digits as its users meet it: train_digits.sh PROGRAM [MPIRUN]
source "$(dirname "$0")/check.sh"
mpirun=${2:-}
data=$(readlink -f "$here/../../examples/data/digits.csv.gz")

accuracy_of() { tail -n 1 "$1" | sed -nE 's/^accuracy ([01]\.[0-9]{3})$/\1/p'; }
without_times() { sed -E 's/ [0-9.]+ s$//' "$1"; }

# --- wrong flags
rejects "no flag is called '--rnks'" --rnks 4
rejects "no flag is called 'stray'" stray
rejects "no flag is called ''" ""
rejects "--ranks needs a value" --ranks
for value in 0 -1 257 four 4x "" 99999999999999999999; do rejects "--ranks is '$value', not a whole number from 1 to 256" --ranks "$value"; done
rejects "--ranks is '0'" --ranks=0
rejects "--epochs is '0'" --epochs 0
rejects "--batch is '0'" --batch 0
for value in 0 -0.1 nan inf fast 0.1x 1e999; do rejects "--rate is '$value', not a number above 0" --rate "$value"; done
rejects "--seed is '-1'" --seed -1
rejects "--rule is 'adagrad', not plain, momentum or nesterov" --rule adagrad
rejects "--sync is 'hope', not all_reduce or parameter_server" --sync hope
rejects "--transport is 'pigeon', not threads, processes, launched, tcp, mpi or auto" --transport pigeon
rejects "--ranks and --transport launched exclude each other" --transport launched --ranks 2
unset MASTER_ADDR MASTER_PORT TUTTI_RANK TUTTI_SIZE RANK WORLD_SIZE OMPI_COMM_WORLD_RANK OMPI_COMM_WORLD_SIZE PMI_RANK PMI_SIZE SLURM_PROCID SLURM_NTASKS
rejects "--transport launched: .*no launcher says which rank this is; looked for TUTTI_RANK and TUTTI_SIZE" --transport launched
TUTTI_RANK=2 TUTTI_SIZE=2 rejects 'TUTTI_RANK is "2", expected less than TUTTI_SIZE' --transport launched
rejects "--algorithm is 'magic'.*all_reduce: auto, flat, ring" --algorithm magic
rejects "--algorithm is 'naive'.*parameter_server: auto" --sync parameter_server --algorithm naive
rejects "--images needs --labels" --images x
rejects "--labels" --labels x
rejects "--test-labels needs --test-images" --images x --labels x --test-labels x
rejects "--test-images needs --images" --test-images x --test-labels x
rejects "--data and --images exclude each other" --data x --images x --labels x
rejects "--data is empty" --data ""
rejects "no-such-folder/loss.svg: cannot be written" --chart no-such-folder/loss.svg

# --- broken CSV files
zcat "$data" >good.csv
rejects "no-such.csv: No such file" --data no-such.csv
rejects "^|$work: " --data "$work"
: >empty.csv
rejects "empty.csv: holds no images" --data empty.csv
head -c 3000 "$data" >cut.csv.gz
rejects "cut.csv.gz: the gzip data is cut off" --data cut.csv.gz
{ head -c 3000 "$data"; printf 'garbage garbage garbage'; tail -c +3024 "$data"; } >damaged.csv.gz
rejects "damaged.csv.gz: the gzip data is damaged" --data damaged.csv.gz
head -c 2000 good.csv >cut.csv
rejects "cut.csv: line 14: has [0-9]+ columns, not 64 pixels and a digit" --data cut.csv
{ head -n 9 good.csv; echo; } >blank.csv
rejects "blank.csv: line 10: has 1 columns" --data blank.csv
sed '5s/,5,/,17,/' good.csv >bright.csv
rejects "bright.csv: line 5: '17' is not a whole number from 0 to 16" --data bright.csv
sed '7s/,[0-9]*$/,10/' good.csv >label.csv
rejects "label.csv: line 7: '10' is not a whole number from 0 to 9" --data label.csv
for value in -1 2.5 x '' ' 3' 1000000000000; do
  sed "3s/^0,/$value,/" good.csv >value.csv
  rejects "value.csv: line 3: '$value' is not a whole number" --data value.csv
done
head -c 100000 /dev/zero >zeros.csv
rejects "zeros.csv: line 1: has 1 columns" --data zeros.csv
head -n 4 good.csv >few.csv
rejects "only 4 images: at least 5" --data few.csv

# --- IDX files made of the same digits
bytes() { printf '%b' "$(awk -v times="$2" '{printf "\\0%03o", $1 * times}' <<<"$1")"; } # NUMBERS TIMES
number32() { printf '%b' "$(printf '\\x%02x\\x%02x\\x%02x\\x%02x' $(($1 >> 24 & 255)) $(($1 >> 16 & 255)) $(($1 >> 8 & 255)) $(($1 & 255)))"; }
idx_images() { # FIRST COUNT
  number32 $((0x803)) && number32 "$2" && number32 8 && number32 8
  bytes "$(tail -n +"$1" good.csv | head -n "$2" | cut -d, -f1-64 | tr , '\n')" 15 # 0 to 240
}
idx_labels() {
  number32 $((0x801)) && number32 "$2"
  bytes "$(tail -n +"$1" good.csv | head -n "$2" | cut -d, -f65)" 1
}
idx_images 1 300 >images && idx_labels 1 300 >labels
idx_images 301 100 >test-images && idx_labels 301 100 >test-labels
gzip -k images labels
rejects "no-such: No such file" --images no-such --labels labels
rejects "labels: is no IDX file of images" --images labels --labels labels
rejects "images: is no IDX file of labels" --images images --labels images
rejects "good.csv: is no IDX file of images" --images good.csv --labels labels
rejects "images holds 300 images, but test-labels 100 labels" --images images --labels test-labels
for size in 0 3 15; do
  head -c $size images >cut
  rejects "cut: the IDX header is cut off" --images cut --labels labels
done
head -c 5000 images >cut
rejects "cut: holds 4984 bytes of data, its header promises 19200" --images cut --labels labels
head -c 100 labels >cut
rejects "cut: holds 92 bytes of data, its header promises 300" --images images --labels cut
{ cat images && echo; } >long
rejects "long: holds more than the 19200 bytes" --images long --labels labels
head -c 1000 images.gz >cut.gz
rejects "cut.gz: the gzip data is cut off" --images cut.gz --labels labels
{ number32 $((0x803)) && number32 300 && number32 $((0xffffffff)) && number32 $((0xffffffff)); } >huge
rejects "huge: the IDX header gives an impossible size" --images huge --labels labels
{ number32 $((0x803)) && number32 300 && number32 30000 && number32 30000; } >hollow
rejects "hollow: holds 0 bytes of data, its header promises 270000000000" --images hollow --labels labels
{ number32 $((0x803)) && number32 0 && number32 8 && number32 8; } >none
rejects "none: the IDX header gives a size of 0" --images none --labels labels
{ number32 $((0x801)) && number32 3 && printf '\1\12\2'; } >letters
{ number32 $((0x803)) && number32 3 && number32 1 && number32 1 && printf 'abc'; } >three
rejects "letters: label 1 is 10, not a digit" --images three --labels letters
{ number32 $((0x801)) && number32 3 && printf '\1\2\3'; } >three-labels
rejects "only 3 images" --images three --labels three-labels
rejects "three holds images of 1x1 pixels, but images of 8x8" --images images --labels labels --test-images three --test-labels three-labels

# --- what works
accepts help --help
for flag in ranks transport algorithm sync rule epochs batch rate seed data images labels test-images test-labels chart help; do
  grep -q -- "^  --$flag " help || fail "--help does not list --$flag"
done
accepts default --ranks 4
[[ -n $(accuracy_of default) ]] || fail "the last line is '$(tail -n 1 default)'"
awk -v a="$(accuracy_of default)" 'BEGIN { exit !(a >= 0.95) }' || fail "accuracy $(accuracy_of default) is below 0.95"
[[ $(grep -cE '^epoch +[0-9]+/30  loss [0-9.]+  held-out loss [0-9.]+  accuracy [01]\.[0-9]{3}  [0-9.]+ s$' default) == 30 ]] ||
  fail "not one line for each epoch"
grep -q $'[\r\033]' default && fail "a log holds terminal codes"
head -n 1 loss.svg | grep -q '^<svg ' && tail -n 1 loss.svg | grep -q '^</svg>$' || fail "loss.svg is no SVG"
[[ $(grep -c '<polyline ' loss.svg) == 2 ]] || fail "loss.svg has not two curves"

accepts again --ranks=4
cmp -s <(without_times default) <(without_times again) || fail "two runs differ"
cp good.csv crlf.csv && sed -i 's/$/\r/' crlf.csv
for file in good.csv crlf.csv; do
  accepts plain --data $file
  cmp -s <(without_times default) <(without_times plain) || fail "$file gives something else than the same digits in gzip"
done

# Policies that add in rank order print the same to the last digit.
results() { grep -E '^(epoch|accuracy)' "$1" | without_times /dev/stdin; }
accepts one --ranks 3 --epochs 3 --algorithm naive
for choice in "all_reduce flat" "all_reduce single_master" "parameter_server single_master"; do
  read -r sync algorithm <<<"$choice"
  accepts other --ranks 3 --epochs 3 --sync "$sync" --algorithm "$algorithm"
  cmp -s <(results one) <(results other) ||
    fail "$sync by $algorithm differs from all_reduce by naive"
done

# Every combination that the messages offer runs, and learns.
for sync in all_reduce parameter_server; do
  algorithms=$("$program" --sync $sync --algorithm '?' 2>&1 | sed 's/.*: //; s/,//g')
  [[ $(wc -w <<<"$algorithms") -ge 6 ]] || fail "$sync offers only: $algorithms"
  for algorithm in $algorithms; do
    accepts some --sync $sync --algorithm "$algorithm" --epochs 4 --ranks 3
    awk -v a="$(accuracy_of some)" 'BEGIN { exit !(a >= 0.9) }' || fail "$sync by $algorithm: $(tail -n 1 some)"
  done
done
for rule in plain momentum nesterov; do
  accepts some --rule $rule --epochs 8 --ranks 2
  awk -v a="$(accuracy_of some)" 'BEGIN { exit !(a >= 0.9) }' || fail "rule $rule: $(tail -n 1 some)"
done
for ranks in 1 2 3 4; do
  accepts some --ranks $ranks --epochs 5
  awk -v a="$(accuracy_of some)" 'BEGIN { exit !(a >= 0.92) }' || fail "$ranks ranks: $(tail -n 1 some)"
done
# More ranks than a batch has images: some ranks have no samples.
accepts some --ranks 5 --batch 3 --epochs 2 --rate 0.01
awk -v a="$(accuracy_of some)" 'BEGIN { exit !(a >= 0.9) }' || fail "ranks without samples: $(tail -n 1 some)"

accepts idx --images images --labels labels --epochs 5
accepts idx_gz --images images.gz --labels labels.gz --epochs 5
cmp -s <(without_times idx) <(without_times idx_gz) || fail "gzip makes a difference to IDX files"
grep -q '^240 training and 60 held-out images of 8x8 pixels$' idx || fail "IDX: $(head -n 1 idx)"
accepts idx_test --images images --labels labels --test-images test-images --test-labels test-labels --epochs 20
grep -q '^300 training and 100 held-out images of 8x8 pixels$' idx_test || fail "IDX with test files: $(head -n 1 idx_test)"
awk -v a="$(accuracy_of idx_test)" 'BEGIN { exit !(a >= 0.8) }' || fail "IDX with test files: $(tail -n 1 idx_test)"

timeout 60 "$program" --rate 1e30 --epochs 3 >out 2>err
[[ $? == 1 && $(wc -l <err) == 1 ]] && grep -q 'the loss is not finite after epoch 1: try a lower --rate' err ||
  fail "a rate that diverges: '$(cat err)'"

# --- ranks that are processes
for choice in "all_reduce ring" "parameter_server binomial"; do
  read -r sync algorithm <<<"$choice"
  accepts threads --ranks 3 --epochs 5 --sync "$sync" --algorithm "$algorithm" --chart threads.svg
  accepts processes --ranks 3 --epochs 5 --sync "$sync" --algorithm "$algorithm" --chart processes.svg --transport processes
  cmp -s <(results threads) <(results processes) || fail "$sync by $algorithm gives something else on processes"
  cmp -s threads.svg processes.svg || fail "$sync by $algorithm draws something else on processes"
done
grep -q ', 3 ranks (processes), ' processes || fail "the transport is not told: $(sed -n 2p processes)"
accepts some --transport processes --epochs 8
awk -v a="$(accuracy_of some)" 'BEGIN { exit !(a >= 0.92) }' || fail "4 processes: $(tail -n 1 some)"
timeout 60 "$program" --transport processes --rate 1e30 --epochs 3 >out 2>err
[[ $? == 1 && $(wc -l <err) == 1 ]] && grep -qE '^train_digits: rank [0-3] failed: the loss is not finite after epoch 1' err ||
  fail "a rate that diverges on processes: '$(cat err)'"

# launched RANKS ARGUMENTS: starts so many; `started` are their process ids, out.RANK and err.RANK their output. That of
# rank 0 can be read from descriptor 3.
mkfifo out.0
transport=launched
launched() {
  local size=$1 rank
  shift
  started=()
  for ((rank = size - 1; rank >= 0; --rank)); do
    TUTTI_RANK=$rank TUTTI_SIZE=$size TUTTI_JOB="train_digits $$" timeout 60 \
      "$program" --transport "$transport" "$@" >out.$rank 2>err.$rank </dev/null &
    started[rank]=$!
  done
  exec 3<out.0
}
# ended CODE RANK: how it ended, and that it had nothing to say on standard error if all is well.
ended() {
  wait "${started[$2]}"
  local code=$?
  [[ $code == "$1" && ($code != 0 || ! -s err.$2) ]] || fail "launched rank $2 ended with $code, not $1: '$(cat err.$2)'"
}
launched 3 --epochs 5 --sync parameter_server --algorithm binomial --chart launched.svg
cat <&3 >output
for rank in 0 1 2; do ended 0 $rank; done
cmp -s <(results processes) <(results output) || fail "launched ranks give something else than forked ones"
[[ ! -s out.1 && ! -s out.2 ]] || fail "not only rank 0 tells how it goes"
cmp -s processes.svg launched.svg || fail "launched ranks draw something else"

# A rank is killed while it trains: the others end at once and say which. Its lines come through a pipe, which ends when
# the last of them has.
children_of() { pgrep -P "$1" | awk -v parent="$1" '{ print ($1 < parent), $1 }' | sort -k1,1n -k2,2n | cut -d' ' -f2; }
mkfifo lines
until_trains() {
  while read -r line <&3; do [[ $line == epoch* ]] && return; done
  fail "no line about an epoch"
}
for victim in 0 2; do
  timeout 60 "$program" --transport processes --ranks 3 --epochs 1000000 >lines 2>err </dev/null &
  parent=$!
  exec 3<lines
  until_trains
  mapfile -t ranks < <(children_of "$(children_of $parent)") # of the program, which is the child of timeout
  [[ ${#ranks[@]} == 3 ]] || fail "3 ranks are ${#ranks[@]} processes"
  kill -KILL "${ranks[victim]}"
  cat <&3 >/dev/null
  wait $parent
  code=$?
  [[ $code == 1 && $(wc -l <err) == 1 ]] && grep -qE "^train_digits: rank $victim was killed by signal 9 \(Killed\)" err ||
    fail "rank $victim was killed: exit code $code, '$(cat err)'"
done

# Rank 1 of three that a launcher started is killed, and the others say so as the pattern says.
rank_1_is_killed() {
  launched 3 --epochs 1000000
  until_trains
  kill -KILL "$(children_of "${started[1]}")"
  cat <&3 >/dev/null
  for rank in 0 2; do
    ended 1 $rank
    grep -qE "^train_digits: $1 has ended without a word" err.$rank && [[ $(wc -l <err.$rank) == 1 ]] ||
      fail "launched rank 1 was killed, rank $rank: '$(cat err.$rank)'"
  done
  exec 3<&-
}
rank_1_is_killed 'rank 1 \(process [0-9]+\)'

# --- the same over TCP, where the program has it
if "$program" --transport tcp --ranks 2 2>&1 | grep -q 'built without Asio'; then
  echo "without Asio: nothing to test over TCP"
else
  rejects "--ranks and --transport tcp exclude each other" --transport tcp --ranks 2
  rejects "--transport tcp: .*no launcher says which rank this is" --transport tcp
  export MASTER_ADDR=127.0.0.1 MASTER_PORT=$((20000 + $$ % 10000))
  transport=tcp
  launched 3 --epochs 5 --sync parameter_server --algorithm binomial --chart tcp.svg
  cat <&3 >output
  for rank in 0 1 2; do ended 0 $rank; done
  cmp -s <(results processes) <(results output) || fail "ranks over TCP give something else than forked ones"
  cmp -s processes.svg tcp.svg || fail "ranks over TCP draw something else"
  rank_1_is_killed 'rank 1'

  # Whatever suits: alone, and as ranks that find out that they share a host.
  "$program" --transport auto --epochs 2 --chart alone.svg >output
  grep -q ' 1 ranks (auto)' output || fail "alone is not one rank: '$(cat output)'"
  transport=auto
  launched 3 --epochs 5 --sync parameter_server --algorithm binomial --chart auto.svg
  cat <&3 >output
  for rank in 0 1 2; do ended 0 $rank; done
  cmp -s <(results processes) <(results output) || fail "ranks that find each other give something else than forked ones"
fi

# --- and over MPI
if [[ -z ${mpirun:-} ]]; then
  rejects "--transport mpi: this program was built without MPI" --transport mpi
else
  timeout 60 "$here/under_mpi.sh" "$mpirun" 3 "$program" --transport mpi --epochs 5 --sync parameter_server \
    --algorithm binomial --chart mpi.svg >output 2>err </dev/null || fail "three ranks of MPI: '$(cat err)'"
  # An mpirun may give ranks a terminal, on which they redraw a line.
  losses() { grep -ao 'epoch [0-9]*/[0-9]* .*accuracy [0-9.]*' <(tr '\r' '\n' <"$1"); }
  cmp -s <(losses processes) <(losses output) || fail "ranks of MPI give something else than forked ones"
  cmp -s processes.svg mpi.svg || fail "ranks of MPI draw something else"
  timeout 60 "$here/under_mpi.sh" "$mpirun" 2 "$program" --transport mpi --rate 1e30 --epochs 3 >out 2>err </dev/null
  [[ $? != 0 ]] && grep -q 'the loss is not finite after epoch 1' err || fail "a rate that diverges over MPI: '$(cat err)'"
fi

# On a terminal one line is redrawn; the last lines are the same.
if command -v script >/dev/null; then
  script -qec "'$program' --epochs 3" /dev/null >terminal </dev/null
  [[ $(grep -o $'\r\033\\[K' terminal | wc -l) == 3 ]] || fail "on a terminal the epochs are not redrawn"
  tail -n 1 terminal | grep -qE $'^accuracy 0\\.[0-9]{3}\r$' || fail "on a terminal the last line is '$(tail -n 1 terminal)'"
fi

conclude
