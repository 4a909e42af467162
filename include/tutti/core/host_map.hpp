// SPDX-License-Identifier: BSL-1.0
#pragma once

namespace tutti {

/// Which ranks share a host: a view of tables that somebody else keeps (`host_table` does). Hosts are numbered in the
/// order of their lowest ranks, the ranks of a host in the order of all ranks.
class host_map {
 public:
  /// The tables, `ranks` and `hosts` at least 1: the host of each rank, and its index there; the ranks, host after
  /// host, with where each host begins among them (`hosts + 1` numbers); the different numbers of ranks that hosts
  /// have.
  struct tables {
    int ranks;
    int hosts;
    const int* host;
    const int* index;
    const int* rank;
    const int* begin;
    const int* sizes;
    int different_sizes;
    bool neighbours;
  };

  constexpr explicit host_map(const tables& of) : of_{of} {}

  /// Number of ranks, of all hosts.
  constexpr int ranks() const { return of_.ranks; }
  /// Number of hosts.
  constexpr int hosts() const { return of_.hosts; }
  /// The host of a rank, in `[0, hosts())`.
  constexpr int host(int rank) const { return of_.host[rank]; }
  /// The rank's number among those of its host.
  constexpr int index(int rank) const { return of_.index[rank]; }
  /// Number of ranks on a host, at least 1.
  constexpr int ranks_on(int host) const { return of_.begin[host + 1] - of_.begin[host]; }
  /// The rank that has that number on the host, `index` in `[0, ranks_on(host))`.
  constexpr int rank(int host, int index) const { return of_.rank[of_.begin[host] + index]; }
  /// Whether all hosts have equally many ranks.
  constexpr bool even() const { return of_.different_sizes == 1; }
  /// Whether the ranks of each host are neighbours, so that the hosts' ranks follow each other.
  constexpr bool neighbours() const { return of_.neighbours; }
  /// The numbers of ranks that hosts have, each once, ascending: `size(i)`, `i` in `[0, different_sizes())`.
  constexpr int different_sizes() const { return of_.different_sizes; }
  constexpr int size(int i) const { return of_.sizes[i]; }

 private:
  tables of_;
};

/// Whether there is more than one host, and one with more than one rank: else one level is all there is.
constexpr bool has_two_levels(const host_map* hosts) {
  return hosts != nullptr && hosts->hosts() > 1 && hosts->hosts() < hosts->ranks();
}

}  // namespace tutti
