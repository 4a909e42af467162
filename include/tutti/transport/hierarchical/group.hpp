// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/call.hpp>
#include <tutti/core/error.hpp>
#include <tutti/core/fault_point.hpp>
#include <tutti/core/host_map.hpp>
#include <tutti/core/host_table.hpp>
#include <tutti/core/inline.hpp>
#include <tutti/core/memory.hpp>
#include <tutti/core/message.hpp>
#include <tutti/core/owned_array.hpp>
#include <tutti/transport/failures.hpp>
#include <tutti/transport/rank_list.hpp>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>

namespace tutti::detail {

/// What is added to a text in which ranks have their numbers on a host: those of `size` ranks for which
/// `is_there(rank)`.
template <class IsThere>
std::string numbers_on_host(int size, IsThere&& is_there) {
  message text;
  text << " (by their numbers on the host of ";
  list_ranks(text, size, is_there);
  return text << ")";
}

/// One rank of a group of two levels: its ends of the group of all its ranks, and of that of those on its host.
///
/// The outer group is the judge: what goes wrong within a host is told to it, and what it decides is thrown on every
/// rank, in the numbers of all ranks. The inner group fails besides, so that nobody believes memory that a failing rank
/// no longer keeps as it was. Of those who find the same within a host, the one whom the inner group believes tells it.
///
/// Beside what every transport has it uses, of the outer group, `check()`, `fail(failure)`, `raise()`,
/// `number()`, `has_left(rank)`, `never_calls(rank, number)`, `sends_no_more(rank)`, `look_around(place)`,
/// `lost(rank, what)`, `disagree(rank)`, `late(place, milliseconds)` and `await_verdict(failure, lost)`, as
/// `basic_tcp_context` has them; of the inner one `why()`, `told_by(rank)`, `has_left(rank)` and `call_of(rank,
/// number)`, as `processes_group` has them.
template <class Inner, class Outer>
class hierarchical_group {
 public:
  /// `host_of_rank`: any numbers, the same for ranks that share a host. The ranks of the inner group are those of this
  /// rank's host, in order. Neither has a limit of time.
  hierarchical_group(Inner inner, Outer outer, std::span<const int> host_of_rank)
      : inner_(std::move(inner)),
        outer_(std::move(outer)),
        table_(host_of_rank),
        index_here_(host_of_rank.size(), "the ranks of a host") {
    for (int r = 0; r < size(); ++r)
      index_here_[static_cast<std::size_t>(r)] = hosts().host(r) == host() ? hosts().index(r) : -1;
  }
  hierarchical_group(const hierarchical_group&) = delete;
  hierarchical_group& operator=(const hierarchical_group&) = delete;

  Inner& inner() { return inner_; }
  Outer& outer() { return outer_; }
  int rank() const { return outer_.rank(); }
  int size() const { return outer_.size(); }
  const host_map& hosts() const { return table_.map(); }
  /// That of this rank.
  int host() const { return hosts().host(rank()); }
  /// The rank's number on this host, -1 if it is on another.
  TUTTI_ALWAYS_INLINE int index_here(int rank) const { return index_here_[static_cast<std::size_t>(rank)]; }
  /// Another rank of this host if there is one, else this one.
  int neighbour() const { return rank_of((hosts().index(rank()) + 1) % hosts().ranks_on(host())); }

  /// How large pieces of messages are, the same on all ranks, where the lanes of both levels have a size of their own:
  /// that of the inner ones is the same on all hosts that have equally many ranks.
  std::size_t piece_bytes(std::size_t inner, std::size_t outer) const {
    if (hosts().hosts() == 1) return inner;
    if (hosts().hosts() == size()) return outer;
    const std::size_t within = hosts().even() ? inner : uneven_piece_bytes;
    return within < outer ? within : outer;
  }

  /// Throws what the group failed of, if it failed.
  TUTTI_ALWAYS_INLINE void check() { outer_.group().check(); }

  /// This rank's end of the group of that number of these ranks of this one.
  std::unique_ptr<hierarchical_group> subgroup(int number, std::span<const int> members) {
    owned_array<int> host_of;
    Inner inner = inner_subgroup(number, members, host_of);
    Outer outer = outer_.subgroup(number, members);
    return allocating(sizeof(hierarchical_group), "a communicator", [&] {
      return std::make_unique<hierarchical_group>(std::move(inner), std::move(outer),
                                                  std::span<const int>(host_of.data(), host_of.size()));
    });
  }

  /// What the inner lane throws, while it is handled: tells the outer group, and throws what that decides. `peer`: whom
  /// of this host it happened with, or -1 if that is not known.
  [[noreturn, gnu::noinline, gnu::cold]] void judge(const error& thrown, const waiting_place& at, int peer) {
    TUTTI_FAULT_POINT("hierarchical.judge");
    auto& judging = outer_.group();
    judging.check();
    const auto kind = static_cast<errc>(thrown.code().value());
    if (kind == errc::usage || kind == errc::resource) throw;  // this rank's own
    auto& within = inner_.group();
    const failure found = within.why();
    if (within.told_by(inner_.rank())) {
      if (kind == errc::mismatch && at.during.is_message()) {
        if (!at.during.is_outgoing()) judging.misfit(at.during);
        judging.await_verdict(translated(found));
      } else if (kind == errc::mismatch) {
        const int other = who_differs(at.during, peer);
        if (other >= 0) judging.disagree(rank_of(other));
        judging.fail(translated(found));
      } else if (found.peer >= 0 && found.peer != inner_.rank()) {
        const int gone = rank_of(found.peer);
        if (within.has_left(found.peer))
          judging.fail(left_early({at.rank, gone, at.round, at.during}));
        else
          judging.lost(gone, found.text);
      }
    }
    // Nobody else judges the death of a rank that has left, which others may still need.
    const bool died = found.kind == errc::peer_failed && found.peer >= 0 && found.peer != inner_.rank() &&
                      !within.has_left(found.peer);
    judging.await_verdict(translated(found), died ? rank_of(found.peer) : -1);
  }

 private:
  // Good where the inner lanes have other sizes on different hosts.
  static constexpr std::size_t uneven_piece_bytes = std::size_t{1} << 16;

  int rank_of(int index) const { return hosts().rank(host(), index); }

  /// And the hosts of its ranks. If it cannot be made, the others learn from the outer one that this rank does not
  /// come.
  Inner inner_subgroup(int number, std::span<const int> members, owned_array<int>& host_of) {
    try {
      host_of = owned_array<int>(members.size(), "the hosts of a communicator");
      owned_array<int> here(members.size(), "the ranks of a host");
      std::size_t count = 0;
      for (std::size_t i = 0; i < members.size(); ++i) {
        host_of[i] = hosts().host(members[i]);
        if (const int index = index_here(members[i]); index >= 0) here[count++] = index;
      }
      TUTTI_FAULT_POINT("hierarchical.subgroup");
      return inner_.subgroup(number, std::span<const int>(here.data(), count));
    } catch (...) {
      try {
        static_cast<void>(outer_.subgroup(number, members));
      } catch (...) {  // it has told them itself
      }
      throw;
    }
  }

  /// A failure in the numbers of this group.
  failure translated(failure f) const {
    if (f.peer >= 0 && f.peer < inner_.size()) f.peer = rank_of(f.peer);
    f.text += numbers_on_host(size(), [this](int r) { return index_here(r) >= 0; });
    return f;
  }

  /// Who of this host is in another call; -1 if nobody is seen to be.
  int who_differs(const call& during, int peer) {
    const auto differs = [&](int other, bool or_elsewhere) {
      const call theirs = inner_.group().call_of(other, during.sequence);
      if (theirs.signature == nullptr) return or_elsewhere;
      return theirs.fingerprint() != during.fingerprint();
    };
    if (peer >= 0 && differs(peer, true)) return peer;
    for (int other = 0; other < inner_.size(); ++other)
      if (other != inner_.rank() && differs(other, false)) return other;
    return -1;
  }

  Inner inner_;
  Outer outer_;
  host_table table_;
  owned_array<int> index_here_;
};

}  // namespace tutti::detail
