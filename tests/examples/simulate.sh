#!/usr/bin/env bash
# SPDX-License-Identifier: BSL-1.0
#
# Tests the example simulate as its users meet it: simulate.sh PROGRAM
source "$(dirname "$0")/check.sh"

# --- wrong flags
rejects "no flag is called '--rnks'" --rnks 4
rejects "no flag is called 'stray'" stray
rejects "no flag is called ''" ""
rejects "--ranks needs a value" --ranks
for value in 0 -1 16777217 four 4x ""; do
  rejects "--ranks is '$value', not a whole number from 1 to 16777216" --ranks "$value" --bytes 8
done
for value in -1 1.5 8KiB ""; do rejects "--bytes is '$value', not a whole number" --ranks 8 --bytes "$value"; done
rejects "--ranks needs --bytes" --ranks 4
rejects "--bytes needs --ranks" --bytes 4
rejects "--collective is 'sum', not one of allreduce, .*barrier, scan, exscan" --ranks 4 --bytes 8 --collective sum
rejects "--collective and --algorithm need --ranks and --bytes" --collective reduce
rejects "--collective and --algorithm need --ranks and --bytes" --algorithm ring
rejects "--algorithm is 'rign', not one of flat, .*ring, .*scatter_allgather" --ranks 4 --bytes 8 --algorithm rign
rejects "no allreduce among 12 ranks is defined for hypercube_halving" --ranks 12 --bytes 8 --algorithm hypercube_halving
rejects "--network is 'fast', not NAME=VALUE" --network fast
rejects "--network is 'speed', not one of latency, overhead, gap, byte, fold, ports" --network speed=1
for value in -1 nan inf fast "" 2; do
  rejects "--network latency is '$value', not seconds from 0 to 1" --network "latency=$value"
done
rejects "--network ports is '0', not a whole number from 1 to 4096" --network gap=0,ports=0
rejects "-o is 'nowhere', not a folder" -o nowhere
rejects "-o is where the charts go" -o . --ranks 4 --bytes 8
rejects "-o is empty" -o ""

# --- help
accepts help --help
for flag in --ranks --bytes --collective --algorithm --network -o; do grep -q -- "  $flag " help || fail "--help lacks $flag"; done

# --- a table: one line for each algorithm, the numbers those that the schedules have
table_line() { awk -v name="$2" '$1 == name { print }' "$1"; }
accepts table --ranks 8 --bytes 8192
[[ $(table_line table recursive_doubling | awk '{ print $4, $5, $6 }') == "3 24 24576" ]] ||
  fail "recursive doubling among 8: $(table_line table recursive_doubling)"
[[ $(table_line table ring | awk '{ print $4, $5, $6 }') == "14 112 14336" ]] || fail "ring among 8: $(table_line table ring)"
grep -qE '^peak memory [0-9]+ MiB$' table || fail "no peak memory: $(tail -n 1 table)"
accepts alpha --ranks 8 --bytes 1000 --network latency=1e-3,overhead=0,gap=0,byte=0,fold=0
[[ $(table_line alpha recursive_doubling | awk '{ print $2, $3 }') == "3 ms" ]] ||
  fail "three latencies: $(table_line alpha recursive_doubling)"
for collective in reduce_scatter allgather broadcast reduce scatter gather alltoall barrier; do
  accepts "$collective" --ranks=12 --bytes=1200 --collective="$collective"
  [[ -n $(table_line "$collective" flat) ]] || fail "no line for flat $collective"
  [[ -z $(table_line "$collective" hypercube_halving) ]] || fail "a hypercube of 12 ranks"
done
accepts huge --ranks 4096 --bytes 8 --collective broadcast
[[ $(table_line huge binomial | awk '{ print $4, $5 }') == "12 4095" ]] || fail "binomial: $(table_line huge binomial)"
accepts skipped --ranks 1048576 --bytes 8 --collective alltoall --algorithm flat
grep -q '^flat  *left out: ' skipped || fail "flat alltoall of 2^20 ranks: $(cat skipped)"
accepts ring --ranks 131072 --bytes 8 --collective broadcast --algorithm ring
grep -q '^ring  *left out: 131072 ranks, each with up to 131071 rounds' ring || fail "ring broadcast: $(cat ring)"
[[ $(grep -c . ring) == 5 ]] || fail "one algorithm was asked for: $(cat ring)"

conclude
