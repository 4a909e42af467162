// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/collective/call.hpp>
#include <tutti/collective/exchange_of_two.hpp>
#include <tutti/core/fold.hpp>
#include <tutti/core/inline.hpp>
#include <tutti/core/step.hpp>
#include <tutti/core/transport.hpp>
#include <tutti/core/wait.hpp>
#include <tutti/schedule/schedule.hpp>

#include <algorithm>
#include <cstddef>
#include <type_traits>

// Among ranks that share memory small collectives are one or two rounds in which each shows its part to all, or to the
// root, and takes in what the others show. Where the schedule is no more than that, it is done here and not by the
// executor, which would list each step twice: among 16 ranks that takes a third of the time. Where ranks may write what
// others show, large gathers and allreduces are done here too: results are written where they are wanted.

namespace tutti::detail {

/// Not among more ranks than these.
inline constexpr int most_exchanging = 64;
/// How many exchanges in shared rounds the schedule is among so many ranks: one, as the collective is; two, of which
/// the first gives each rank the fold of its block and the second gives it to all; or none.
template <collective C, schedule S>
constexpr int exchanges_among(int size) {
  const S schedule{};
  const int rounds = schedule.rounds({0, size});
  if (rounds > 2) return 0;
  for (int rank = 0; rank < size; ++rank) {
    const place at{rank, size};
    if (schedule.rounds(at) != rounds) return 0;
    for (int k = 0; k < rounds; ++k)
      if (!shared_round(schedule, at, k)) return 0;
  }
  if (rounds == 1) return is_exchange<C>(schedule, size, 0) ? 1 : 0;
  if constexpr (C == collective::allreduce) {
    if (rounds == 2 && is_exchange<collective::reduce_scatter>(schedule, size, 0) &&
        is_exchange<collective::allgather>(schedule, size, 1))
      return 2;
  }
  return 0;
}

/// Whether the schedule is one shared round between the root and all others: they send it their part, which it takes
/// in, folded in rank order where the collective folds; or it sends them theirs.
template <collective C, schedule S>
constexpr bool is_star_among(int size, int root) {
  constexpr bool to_root = C == collective::gather || C == collective::reduce;
  constexpr bool of_blocks = C == collective::gather || C == collective::scatter;
  const S schedule = make_schedule<S>(root);
  bool is = schedule.blocks(size) == (of_blocks ? size : 1);
  for (int rank = 0; rank < size; ++rank) {
    const place at{rank, size};
    if (schedule.rounds(at) != 1 || !shared_round(schedule, at, 0)) return false;
    int steps = 0;
    int last = -1;
    schedule.round(at, 0, [&]<class Step>(const Step& step) {
      ++steps;
      if constexpr (is_local<Step>) {
        is = false;
      } else {
        constexpr bool takes = C == collective::reduce ? is_combine<Step> : is_recv<Step>;
        const int other = rank == root ? step.peer : rank;  // not the root
        is = is && (is_send<Step> ? (rank == root) != to_root : takes && (rank == root) == to_root) &&
             (rank == root || step.peer == root) && step.what == one_block(of_blocks ? other : 0);
        if constexpr (is_combine<Step>) {
          is = is && step.peer > last && step.operand == (step.peer < rank ? side::left : side::right);
          last = step.peer;
        }
      }
    });
    is = is && steps == (rank == root ? size - 1 : 1);
  }
  return is;
}

/// Schedules are asked what they do among so many ranks, which are taken for all numbers from three on.
inline constexpr int sizes_asked[] = {3, 4, 8};
/// The same among all these.
template <collective C, schedule S>
constexpr int exchanges_of_all() {
  if constexpr (vectors<S> != 1 || segmented<S> || rooted<S>) {
    return 0;
  } else {
    const int exchanges = exchanges_among<C, S>(sizes_asked[0]);
    for (const int size : {sizes_asked[1], sizes_asked[2]})
      if (exchanges == 0 || exchanges_among<C, S>(size) != exchanges) return 0;
    return exchanges;
  }
}
template <collective C, schedule S>
constexpr bool is_star() {
  if constexpr (vectors<S> != 1 || segmented<S> || !rooted<S>) {
    return false;
  } else {
    for (int root = 0; root < 3; ++root)
      if (!is_star_among<C, S>(3, root)) return false;
    return is_star_among<C, S>(4, 1) && is_star_among<C, S>(8, 6);
  }
}

/// Whether ranks can read what others show on this kind of communicator, and elements lie there as they must.
template <class T, class Comm>
inline constexpr bool shows_elements =
    sharing_lane<typename Comm::lane_type> && !hosted_transport<typename Comm::transport_type> && alignof(T) <= 32;

/// Whether the algorithm works among the numbers of ranks that schedules are asked about.
template <class A>
constexpr bool can_be_asked() {
  for (const int size : sizes_asked)
    if (!supports<A>(place{0, size})) return false;
  return true;
}
/// What can be asked of the schedule while the program is compiled, and so what is found out here.
template <collective C, class S>
concept says_before_how_all_exchange = requires {
  typename std::bool_constant<(static_cast<void>(exchanges_of_all<C, S>()), true)>;
};
template <collective C, class S>
concept says_before_whether_it_is_a_star = requires {
  typename std::bool_constant<(static_cast<void>(is_star<C, S>()), true)>;
};

/// How many exchanges the collective by A is, and whether it is a star.
template <collective C, class A>
inline constexpr int exchanges_by = [] {
  if constexpr (can_be_asked<A>()) {
    if constexpr (says_before_how_all_exchange<C, schedule_for<C, A>>) return exchanges_of_all<C, schedule_for<C, A>>();
  }
  return 0;
}();
template <collective C, class A>
inline constexpr bool is_star_by = [] {
  if constexpr (can_be_asked<A>()) {
    if constexpr (says_before_whether_it_is_a_star<C, schedule_for<C, A>>) return is_star<C, schedule_for<C, A>>();
  }
  return false;
}();
/// The same where ranks can read what others show, else none.
template <collective C, class A, class T, class Comm>
constexpr int exchanges_among_all() {
  if constexpr (shows_elements<T, Comm>) return exchanges_by<C, A>;
  return 0;
}
template <collective C, class A, class T, class Comm>
constexpr bool may_be_star() {
  if constexpr (shows_elements<T, Comm>) return is_star_by<C, A>;
  return false;
}

/// The most bytes of the whole vector, unless results are written where they are shown: with more it makes no
/// difference.
inline constexpr std::size_t most_shown_bytes = 32'768;

/// Whether the collective by A is the same exchanges, or a star, among two ranks too: two may do something else, or
/// send messages.
template <collective C, class A>
constexpr bool two_do_the_same() {
  using S = schedule_for<C, A>;
  if constexpr (rooted<S>) {
    return is_star_among<C, S>(2, 0) && is_star_among<C, S>(2, 1);
  } else {
    return exchanges_among<C, S>(2) == exchanges_by<C, A>;
  }
}
template <collective C, class A>
concept says_before_what_two_do = supports<A>(place{0, 2}) && requires {
  typename std::bool_constant<(static_cast<void>(two_do_the_same<C, A>()), true)>;
};
/// The fewest ranks among whom it is.
template <collective C, class A>
constexpr int fewest_exchanging() {
  if constexpr (says_before_what_two_do<C, A>) return two_do_the_same<C, A>() ? 2 : 3;
  return 3;
}

/// Whether so many ranks do it here.
template <collective C, class A, class Comm>
TUTTI_ALWAYS_INLINE inline bool are_exchanging(const Comm& comm) {
  constexpr int fewest = fewest_exchanging<C, A>();
  return comm.size() <= most_exchanging && comm.size() >= fewest;
}
/// Whether a call of so many bytes is one here. What is `overwritten` has to fit where it is copied; in the executor it
/// is the same to the others.
template <collective C, class A, class Comm>
TUTTI_ALWAYS_INLINE inline bool are_shown(const Comm& comm, std::size_t bytes, bool overwritten = false) {
  constexpr std::size_t most = std::min<std::size_t>(most_shown_bytes, Comm::lane_type::shown_bytes);
  constexpr std::size_t most_overwritten = std::min<std::size_t>(most, Comm::transport_type::copy_bytes);
  return bytes <= (overwritten ? most_overwritten : most) && are_exchanging<C, A>(comm);
}
/// Whether blocks of so many bytes are written where the root shows: who sent it more than is copied would have to wait
/// for it too.
template <collective C, class A, class Comm>
TUTTI_ALWAYS_INLINE inline bool are_written(const Comm& comm, std::size_t bytes) {
  return bytes > Comm::transport_type::copy_bytes && are_exchanging<C, A>(comm);
}

/// Whether an allreduce of so many bytes in two exchanges is folded where all show: unless they copy what they show and
/// need not wait for each other then, which costs more where they share processors.
template <collective C, class A, class Comm>
TUTTI_ALWAYS_INLINE inline bool are_folded_in_place(Comm& comm, std::size_t bytes) {
  return bytes > (comm.lane().crowded() ? most_shown_bytes : Comm::transport_type::copy_bytes) &&
         are_exchanging<C, A>(comm);
}

/// n elements from each source.
template <class T>
TUTTI_ALWAYS_INLINE inline void copy_one_after_the_other(T* to, const T* const* source, std::size_t n, int sources) {
  for (int i = 0; i < sources; ++i) copy_elements(to + n * static_cast<std::size_t>(i), source[i], n, false);
}

/// The first of two is followed by the last.
enum class which_round { only, first, last };

/// Up to so many bytes are copied in a round, and nobody waits for the others to read them. To wait where one round is
/// all costs about as much as another round, and where ranks share processors a turn of each. The first of two needs no
/// waiting: who ends the last is done with what was shown in it. What little is shown in the last has just been
/// written, so that the others have to fetch either.
template <class Transport>
constexpr std::size_t most_copied(which_round which, bool crowded) {
  if (which == which_round::first) return Transport::exchange_copy_bytes;
  if (crowded) return Transport::copy_bytes;
  return which == which_round::only ? 256 : 2048;
}

/// The exchanges of one call.
template <class Comm>
class exchange_of_all {
 public:
  TUTTI_ALWAYS_INLINE explicit exchange_of_all(Comm& comm)
      : lane_(comm.lane()), wait_{comm, comm.lane()}, rank_(comm.rank()), size_(comm.size()) {}

  /// Shows n elements to all, which begin `origin` elements into this rank's vector, and calls `take(source)` when all
  /// have come: of each other rank, where the element `wanted(rank)` of its vector is. What is `overwritten` by that is
  /// copied before; the rest must stay as it is until the call ends, but that this rank may overwrite what one other
  /// alone reads when that one has shown something in a later round. On an opening lane `take` of the first round may
  /// note where the elements are, for that of the last to read them.
  template <which_round Which = which_round::only, class T, class Wanted, class Take>
  TUTTI_ALWAYS_INLINE void round(const T* data, std::size_t n, std::size_t origin, bool overwritten, Wanted&& wanted,
                                 Take&& take) {
    using transport = typename Comm::transport_type;
    static_assert(most_copied<transport>(Which, false) <= transport::copy_bytes);
    const std::size_t copied = most_copied<transport>(Which, lane_.crowded());
    const bool copy = show(-1, data, n, origin, overwritten || n * sizeof(T) <= copied);
    each_other([&](int peer) TUTTI_ALWAYS_INLINE { lane_.publish_to(peer, copy); });
    // Who looks at once takes away the lines that the others are about to write.
    cpu_pause();
    lane_.expect(rank_ + 1 == size_ ? 0 : rank_ + 1, n * sizeof(T));
    const T* source[most_exchanging];
    look_at_all<T>(source, wanted);
    take(source);
    lane_.release_shared();
    lane_.end_shared(Which != which_round::first);
  }
  /// Shows the root n elements, which begin `origin` elements into this rank's vector.
  template <class T>
  TUTTI_ALWAYS_INLINE void send_to_root(int root, const T* data, std::size_t n, std::size_t origin) {
    lane_.publish_to(root, show(root, data, n, origin, n * sizeof(T) <= Comm::transport_type::copy_bytes));
    lane_.end_shared(true);
  }
  /// Calls `take(source)` on the root when all have shown it n elements: of each other rank, where the element
  /// `wanted(rank)` of its vector is.
  template <class T, class Wanted, class Take>
  TUTTI_ALWAYS_INLINE void take_from_all(std::size_t n, Wanted&& wanted, Take&& take) {
    lane_.begin_round();
    // Who sends waits for nobody, and has mostly done so before.
    each_other([&](int peer) TUTTI_ALWAYS_INLINE { lane_.expect(peer, n * sizeof(T)); });
    const T* source[most_exchanging];
    look_at_all<T>(source, wanted);
    take(source);
    lane_.release_shared();
    lane_.end_shared(true);
  }
  /// The root shows all others n elements, which begin `origin` elements into its vector.
  template <class T>
  TUTTI_ALWAYS_INLINE void send_to_all(const T* data, std::size_t n, std::size_t origin) {
    const bool copy = show(-1, data, n, origin, n * sizeof(T) <= Comm::transport_type::copy_bytes);
    each_other([&](int peer) TUTTI_ALWAYS_INLINE { lane_.publish_to(peer, copy); });
    lane_.end_shared(true);
  }
  /// Calls `take(source)` when the root has shown n elements: where the element `wanted` of its vector is.
  template <class T, class Take>
  TUTTI_ALWAYS_INLINE void take_from_root(int root, std::size_t n, std::size_t wanted, Take&& take) {
    lane_.begin_round();
    lane_.expect(root, n * sizeof(T));
    const T* const from = await<T>(root, wanted);
    lane_.claim_shared();
    take(from);
    lane_.release_shared();
    lane_.end_shared(true);
  }
  /// The last round of a call, in which all show n elements that the others write. Calls `write(to)` when all have
  /// shown theirs: of each other rank, where the element `wanted(rank)` of its vector is.
  template <class T, class Wanted, class Write>
  TUTTI_ALWAYS_INLINE void write_to_all(T* data, std::size_t n, Wanted&& wanted, Write&& write) {
    using transport = typename Comm::transport_type;
    static_assert(most_copied<transport>(which_round::last, true) <= most_shown_bytes &&
                      most_copied<transport>(which_round::last, false) <= transport::copy_bytes,
                  "no copy is written instead, by the bytes of are_folded_in_place");
    round<which_round::last>(static_cast<const T*>(data), n, 0, false, wanted, [&](const T** shown) {
      T* to[most_exchanging];
      for (int rank = 0; rank < size_; ++rank)
        if (rank != rank_) to[rank] = const_cast<T*>(shown[rank]);
      write(to);
    });
  }
  /// The root shows all others n elements which they write, each in its place; `meanwhile()` is called when it has.
  template <class T, class Meanwhile>
  TUTTI_ALWAYS_INLINE void have_all_write(T* data, std::size_t n, Meanwhile&& meanwhile) {
    show(-1, data, n, 0, false);
    each_other([&](int peer) TUTTI_ALWAYS_INLINE { lane_.publish_to(peer, false); });
    meanwhile();
    // They show nothing but which call theirs is: had one of them made another, it would not write.
    each_other([&](int peer) TUTTI_ALWAYS_INLINE {
      lane_.expect(peer, 0);
      await<T>(peer, 0);
    });
    lane_.end_shared(true);
  }
  /// Calls `write(to)` when the root has shown n elements for it: `to` is where the element `wanted` of them is.
  template <class T, class Write>
  TUTTI_ALWAYS_INLINE void write_to_root(int root, const T* own, std::size_t n, std::size_t wanted, Write&& write) {
    lane_.publish_to(root, show(root, own, 0, 0, true));
    lane_.expect(root, n * sizeof(T));
    T* const to = const_cast<T*>(await<T>(root, wanted));
    lane_.claim_shared();
    write(to);
    lane_.release_shared();
    lane_.end_shared(true);
  }
  TUTTI_ALWAYS_INLINE void end() {
    while (!lane_.settled()) wait_();
    if (wait_.waited) lane_.awake();
  }

 private:
  /// Each begins with the next one, or all would ask the first for its line.
  template <class F>
  TUTTI_ALWAYS_INLINE void each_other(F&& f) const {
    for (int peer = rank_ + 1; peer < size_; ++peer) f(peer);
    for (int peer = 0; peer < rank_; ++peer) f(peer);
  }

  /// Begins a round and shows n elements in it to that rank, or to several (-1); whether they have been copied: as
  /// asked, or since others cannot read them where they are.
  template <class T>
  TUTTI_ALWAYS_INLINE bool show(int reader, const T* data, std::size_t n, std::size_t origin, bool copy) {
    const auto* const shown = reinterpret_cast<const std::byte*>(data);
    const std::size_t bytes = n * sizeof(T);
    copy = copy || !lane_.shows(shown, bytes);
    lane_.begin_round();
    while (!lane_.publish(reader, shown, bytes, origin * sizeof(T), copy)) wait_();
    return copy;
  }
  /// Where the element `wanted` of the peer's vector is, when it has shown it.
  template <class T>
  TUTTI_ALWAYS_INLINE const T* await(int peer, std::size_t wanted) {
    const std::byte* from;
    while ((from = lane_.look(peer, wanted * sizeof(T))) == nullptr) wait_();
    return reinterpret_cast<const T*>(from);
  }
  /// What has been looked at may be read until `release_shared`.
  template <class T, class Wanted>
  TUTTI_ALWAYS_INLINE void look_at_all(const T** source, Wanted& wanted) {
    each_other([&](int peer) TUTTI_ALWAYS_INLINE { source[peer] = await<T>(peer, wanted(peer)); });
    lane_.claim_shared();
  }

  typename Comm::lane_type& lane_;
  waiting<Comm> wait_;
  int rank_;
  int size_;
};

/// A call that is `rounds(exchange)`.
template <class Comm, class Rounds>
TUTTI_ALWAYS_INLINE inline void run_exchanges(Comm& comm, const call& c, Rounds&& rounds) {
  try {
    comm.lane().open(c);
    exchange_of_all<Comm> exchange(comm);
    rounds(exchange);
    exchange.end();
  } catch (...) {
    abandon(comm.lane());
  }
}

}  // namespace tutti::detail
