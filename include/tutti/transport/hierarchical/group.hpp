// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/call.hpp>
#include <tutti/core/error.hpp>
#include <tutti/core/fault_point.hpp>
#include <tutti/core/host_map.hpp>
#include <tutti/core/host_table.hpp>
#include <tutti/core/inline.hpp>
#include <tutti/core/message.hpp>
#include <tutti/core/owned_array.hpp>
#include <tutti/transport/rank_list.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace tutti::detail {

/// One rank of a group of two levels: its ends of the group of all ranks, and of that of its host, which outlive it.
///
/// The outer group is the judge: what goes wrong within a host is told to it, and what it decides is thrown on every
/// rank, in the numbers of all ranks. The inner group fails besides, so that nobody believes memory that a failing rank
/// no longer keeps as it was.
///
/// Of the outer group it uses `rank()`, `size()`, `check()`, `failed()`, `fail(failure)`, `raise()`, `why()`,
/// `leave()`, `part()`, `has_left(rank)`, `lost(rank, what)`, `disagree(rank)`, `late(place, milliseconds)` and
/// `await_verdict(failure)`, as `basic_tcp_group` has them; of the inner group `rank()`, `size()`, `fail(failure)`,
/// `why()`, `told_by(rank)`, `call_of(rank, number)` and `leave(rank)`, as `processes_group` has them.
template <class Inner, class Outer>
class hierarchical_group {
 public:
  using inner_type = typename Inner::group_type;
  using outer_type = typename Outer::group_type;

  /// `host_of_rank`: any numbers, the same for ranks that share a host. The ranks of the inner group are those of this
  /// rank's host, in order.
  hierarchical_group(inner_type& inner, outer_type& outer, std::span<const int> host_of_rank)
      : inner_(&inner), outer_(&outer), table_(host_of_rank), index_here_(host_of_rank.size(), "the ranks of a host") {
    for (int r = 0; r < size(); ++r)
      index_here_[static_cast<std::size_t>(r)] = hosts().host(r) == host() ? hosts().index(r) : -1;
  }
  hierarchical_group(const hierarchical_group&) = delete;
  hierarchical_group& operator=(const hierarchical_group&) = delete;

  inner_type& inner() { return *inner_; }
  outer_type& outer() { return *outer_; }
  int rank() const { return outer_->rank(); }
  int size() const { return outer_->size(); }
  const host_map& hosts() const { return table_.map(); }
  /// That of this rank.
  int host() const { return hosts().host(rank()); }
  /// The rank's number on this host, -1 if it is on another.
  TUTTI_ALWAYS_INLINE int index_here(int rank) const { return index_here_[static_cast<std::size_t>(rank)]; }
  /// Another rank of this host if there is one, else this one.
  int neighbour() const {
    const int here = hosts().ranks_on(host());
    return hosts().rank(host(), (hosts().index(rank()) + 1) % here);
  }

  /// How large pieces of messages are, the same on all ranks, where the lanes of both levels have a size of their own:
  /// that of the inner ones is the same on all hosts that have equally many ranks.
  std::size_t piece_bytes(std::size_t inner, std::size_t outer) const {
    if (hosts().hosts() == 1) return inner;
    if (hosts().hosts() == size()) return outer;
    const std::size_t within = hosts().even() ? inner : uneven_piece_bytes;
    return within < outer ? within : outer;
  }

  /// Throws what the group failed of, if it failed.
  void check() { outer_->check(); }
  void fail(const failure& f) noexcept { outer_->fail(f); }
  failure why() const { return outer_->why(); }
  /// The inner group knows of nothing that the outer does not know better.
  void leave() noexcept { outer_->leave(); }
  void part() { outer_->part(); }
  /// After a failure, or once all have left: for the ranks of this host this one has not died.
  void end(const char* what = nullptr) noexcept {
    const int here = inner_->rank();
    if (what != nullptr) fail_inside(what);
    inner_->leave(here);
  }

  /// What the inner lane throws, while it is handled: tells the outer group, and throws what that decides. `peer`: whom
  /// of this host it happened with, or -1 if that is not known.
  [[noreturn, gnu::noinline, gnu::cold]] void judge(const error& thrown, const call& during, int peer) {
    TUTTI_FAULT_POINT("hierarchical.judge");
    outer_->check();
    const auto kind = static_cast<errc>(thrown.code().value());
    if (kind == errc::usage || kind == errc::resource) throw;  // this rank's own
    const failure found = inner_->why();
    if (inner_->told_by(inner_->rank())) {
      if (kind == errc::mismatch) {
        const int other = who_differs(during, peer);
        if (other >= 0) outer_->disagree(rank_of(other));
        outer_->fail(translated(found));
      } else if (found.peer >= 0 && found.peer != inner_->rank()) {
        outer_->lost(rank_of(found.peer), found.text);
      }
    }
    outer_->await_verdict(translated(found));
  }

  /// A failure in the numbers of all ranks.
  failure translated(failure f) const {
    if (f.peer >= 0 && f.peer < inner_->size()) f.peer = rank_of(f.peer);
    message text;
    text << f.text << " (ranks of the host of ";
    list_ranks(text, size(), [this](int r) { return index_here(r) >= 0; });
    f.text = text << ")";
    return f;
  }

 private:
  // Good where the inner lanes have other sizes on different hosts.
  static constexpr std::size_t uneven_piece_bytes = std::size_t{1} << 16;

  int rank_of(int index) const { return hosts().rank(host(), index); }

  void fail_inside(const char* what) noexcept {
    const int here = inner_->rank();
    inner_->fail({errc::peer_failed, here, message() << "rank " << here << " failed: " << what});
  }

  /// Who of this host is in another call; -1 if nobody is seen to be.
  int who_differs(const call& during, int peer) {
    const auto differs = [&](int other, bool or_elsewhere) {
      const call theirs = inner_->call_of(other, during.sequence);
      if (theirs.signature == nullptr) return or_elsewhere;
      return theirs.fingerprint() != during.fingerprint();
    };
    if (peer >= 0 && differs(peer, true)) return peer;
    for (int other = 0; other < inner_->size(); ++other)
      if (other != inner_->rank() && differs(other, false)) return other;
    return -1;
  }

  inner_type* inner_;
  outer_type* outer_;
  host_table table_;
  owned_array<int> index_here_;
};

}  // namespace tutti::detail
