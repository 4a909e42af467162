// SPDX-License-Identifier: BSL-1.0
#pragma once

// What a transport must be. A transport moves bytes between ranks and knows nothing of collectives.

#include <tutti/core/call.hpp>
#include <tutti/core/clock.hpp>
#include <tutti/core/host_map.hpp>
#include <tutti/core/owned_memory.hpp>

#include <concepts>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace tutti {

/// A lane carries one collective at a time, independent of the other lanes of its rank. Messages between two ranks on
/// one lane arrive in the order they were sent. No call blocks.
///
/// - `open(call)`: a collective begins; every message that is sent until the next `open` carries its fingerprint, also
///   one that has to wait, and every message that is looked for must have it. What others compare among each other's
///   collectives leaves out one end of a message (`call::is_message`).
/// - `begin_round()`: the sends that follow read memory as it is now.
/// - `send(peer, data, bytes, copy)`: starts a send. With `copy` the bytes are copied away at once if there is room;
///   returns whether they were: if not, they stay unchanged until `settled()`.
/// - `try_recv(peer, data, bytes)`: asks for the next message of `peer`, which has exactly `bytes` bytes; true when it
/// is
///   there. Until then it is called again with the same arguments, and no other receive from that peer in between.
/// - `settled()`: whether every send has finished.
/// - `idle()`: called after each look in vain; gives the processor away by the transport's wait policy. Throws when the
///   group failed or the deadline passed.
/// - `glance()`: the same without giving the processor away, for those who have something else to do.
/// - `awake()`: a look after `idle()` was not in vain.
/// - `abandon(reason)`: the collective ends by an exception: the group learns of it, and when the call returns no other
///   rank reads or writes this rank's memory any more. Never throws.
/// - `withdraw()`: the same while an exception passes that may end the rank: nobody is told, so that the others hear of
///   that exception, and nobody is waited for but who reads this rank's memory at the moment. What has been copied may
///   still arrive; what has not does not, and who looks for it waits. If the rank goes on, `abandon` comes next.
///
/// A lane may have a member `piece_bytes()`, the same on every rank: then a message has no more bytes, unless it is one
/// element.
///
/// A receive throws `mismatch` where a message's fingerprint is not ours.
template <class L>
concept lane = requires(L& l, const call& c, int peer, const std::byte* out, std::byte* in, std::size_t bytes,
                        const std::string& reason) {
  l.open(c);
  l.begin_round();
  { l.send(peer, out, bytes, true) } -> std::same_as<bool>;
  { l.try_recv(peer, in, bytes) } -> std::convertible_to<bool>;
  { l.settled() } -> std::convertible_to<bool>;
  l.idle();
  l.glance();
  l.awake();
  l.abandon(reason);
  l.withdraw();
};

/// A lane that can show an arrived message where it lies, without copying it: shared memory shows the sender's own
/// buffer.
///
/// - `view(peer, bytes)`: where the oldest message of `peer` not yet released lies, or null while it has not arrived.
/// - `claim(peer)`: from here to `release(peer)` the message may be read; throws if the group has failed. Between the
/// two
///   nothing waits, so that a sender that must leave needs to wait no longer than one fold.
/// - `release(peer)`: done with the message.
template <class L>
concept viewing_lane = lane<L> && requires(L& l, int peer, std::size_t bytes) {
  { l.view(peer, bytes) } -> std::same_as<const std::byte*>;
  l.claim(peer);
  l.release(peer);
};

/// A lane that may put a message where it is wanted instead of showing where it lies.
///
/// - `L::lands`: it does so at all;
/// - `view(peer, bytes, landing)`: as `view(peer, bytes)`; returns `landing`, which is not null then, if it has put the
///   message there.
template <class L>
concept landing_lane = viewing_lane<L> && L::lands && requires(L& l, int peer, std::size_t bytes, std::byte* landing) {
  { l.view(peer, bytes, landing) } -> std::same_as<const std::byte*>;
};

/// A lane that knows how what it sends is best written before.
///
/// - `write_copy(peer, to, from, bytes)`: copies to memory from which that peer will be sent as many bytes next.
/// - `write_result(peer, to, bytes, of, write)`: calls `write(streamed)`, which writes there what will be sent to that
///   peer in a later round, past the caches if `streamed`; it is a piece of so many bytes, or the whole.
template <class L>
concept writing_lane = lane<L> && requires(L& l, int peer, std::byte* to, const std::byte* from, std::size_t bytes) {
  l.write_copy(peer, to, from, bytes);
  l.write_result(peer, to, bytes, bytes, [](bool) {});
};

/// A lane on which a rank can show one part of its vector to all others at once. In a shared round every message is
/// read from where its sender has published; a schedule says which of its rounds may be shared, and they are so on
/// every rank.
///
/// - `publish(reader, data, bytes, origin, copy)`: shows the bytes `[origin, origin + bytes)` of this rank's vector to
///   one rank, or to several (-1); false while there is no room. `publish_to(reader, copy)`: that rank will read it;
///   without `copy` until then the bytes stay.
/// - `L::shown_bytes`: vectors of more bytes than this have no shared rounds; `shows(data, bytes)`: whether others can
///   read these bytes where they are: if not, they are published with `copy`. `crowded()`: whether ranks share
///   processors, as this rank sees it, so that to wait for the others costs a turn of each.
/// - `expect(peer, bytes)`: a hint that the peer's part, of about that size, will be looked for soon.
/// - `look(peer, offset)`: where the byte `offset` of the peer's vector lies, or null while it has not published.
/// - `claim_shared()`: from here to `release_shared()` what was looked up may be read; throws if the group has failed.
///   A rank that fails while others may read what it shows waits for them, or they are told afterwards.
/// - `end_shared(alone)`: this rank has ended the round. Every rank ends every shared round. Not `alone`: the next one
///   is a shared round of the same call in which every rank looks at every other, which says the same; nobody asks
///   whether what it has shown is settled before.
template <class L>
concept sharing_lane = lane<L> && requires(L& l, int peer, const std::byte* data, std::size_t bytes) {
  { L::shown_bytes } -> std::convertible_to<std::size_t>;
  { l.crowded() } -> std::same_as<bool>;
  { l.shows(data, bytes) } -> std::same_as<bool>;
  { l.publish(peer, data, bytes, bytes, true) } -> std::same_as<bool>;
  l.publish_to(peer, true);
  l.expect(peer, bytes);
  { l.look(peer, bytes) } -> std::same_as<const std::byte*>;
  l.claim_shared();
  l.release_shared();
  l.end_shared(true);
};

/// A sharing lane whose ranks may write, too, what others show: between `claim_shared()` and `release_shared()`, where
/// `look` has found it. A rank that fails waits for who writes its memory. `crowded()` is the same for all ranks,
/// and `shows` always true. What was found in a round that was not ended `alone` may be used in the claim of the next.
///
/// - `L::opens`: they may.
template <class L>
concept opening_lane = sharing_lane<L> && L::opens;

/// A lane that models time, and is told what a rank does with what has arrived.
///
/// - `folded(bytes)`: this rank has folded in so many bytes of what it received.
template <class L>
concept timed_lane = lane<L> && requires(L& l, std::size_t bytes) {
  l.folded(bytes);
};

/// What a transport costs, for choosing algorithms: seconds.
struct cost_parameters {
  double round;    ///< latency of one dependent round
  double message;  ///< processor time for one message sent and received
  double byte;     ///< one byte moved
  double fold;     ///< one byte folded
  /// Latency of a round in which nobody sends who receives, where senders go on at once; 0: as of any round.
  double one_way = 0;
  double copied_byte = 0;    ///< one byte of several such rounds, in which messages are copied before they are moved
  double gathered_byte = 0;  ///< one byte of one such round, which several senders fill at the same time
  /// Where all ranks take in whole vectors at once, so many beside the first double what a byte costs, and the first
  /// makes it a hundredth dearer; 0: no number does.
  double vectors = 0;
};

/// One rank's end of a transport.
///
/// - `rank()`, `size()`: where this rank stands.
/// - `make_lane(index)`: a new lane; both ends use the same index.
/// - `costs()`: the same on every rank.
/// - `T::pack_bytes`: messages of several pieces up to this size travel as one; the same on every rank.
/// - `T::copy_bytes`: up to this size it is better to copy a message away than to wait for its receiver, where the
///   sender has nothing to wait for; `T::exchange_copy_bytes`: the same where it waits for the answers of those who
///   read it; for so few bytes there is always room.
/// - `timeout(limit)`: how long a rank may wait within one collective; zero means for ever.
/// - `check()`: throws what the group failed of, if it failed.
/// - `abort(text)`: fails the group with `peer_failed` of this rank, in which every rank finds the text. From any
///   thread, whatever the rank itself is doing: what it waits for ends soon, whether or not others can be reached.
template <class T>
concept transport = requires(T& t, const T& c, int index, std::chrono::nanoseconds limit, std::string_view text) {
  { c.rank() } -> std::same_as<int>;
  { c.size() } -> std::same_as<int>;
  typename T::lane_type;
  requires lane<typename T::lane_type>;
  { t.make_lane(index) } -> std::same_as<typename T::lane_type>;
  { c.costs() } -> std::same_as<cost_parameters>;
  { T::pack_bytes } -> std::convertible_to<std::size_t>;
  { T::copy_bytes } -> std::convertible_to<std::size_t>;
  { T::exchange_copy_bytes } -> std::convertible_to<std::size_t>;
  t.timeout(limit);
  t.check();
  t.abort(text);
};

/// A transport with memory that it reads from every rank where it lies.
///
/// - `memory()`: where this rank takes pieces of it. Not collective. They may outlive the transport.
template <class T>
concept allocating_transport = transport<T> && requires(T& t) {
  { t.memory() } -> std::same_as<memory_owner&>;
};

/// A transport that can make some of its ranks a group of their own.
///
/// - `next_group()`: the smallest number above those of all groups that this rank was ever in. The whole is number 0.
/// - `subgroup(number, members)`: this rank's end of the new group. `members` are ranks of this transport in the order
///   of the new one, this rank among them. Called by the members only, all with the same arguments. `number` is the
///   greatest `next_group()` of all ranks of this transport: none of them has been in a group of that number before,
///   and they have agreed on it since the last call. It may be made of a subgroup again. Its timeout is that of this
///   one to begin with. Where it throws, the others get theirs, and find that this rank does not come; or if there can
///   be no group without it, none gets one.
/// - optional, `miss_groups()`: this rank has failed while the ranks agreed, some of which may have done so: whatever
///   they make, it does not come. Never throws.
///
/// Where a subgroup fails, nothing else does, and its texts say which ranks of the whole it has. A failure that
/// concerns a rank (it died, its function threw, or it aborted the whole) fails the whole and the groups that have that
/// rank. An end of a subgroup may go at any time, whatever the others do and while they read what this rank has sent;
/// those who wait for it then learn that it has left.
template <class T>
concept splitting_transport = transport<T> && requires(T& t, int number, std::span<const int> members) {
  { t.next_group() } -> std::same_as<int>;
  { t.subgroup(number, members) } -> std::same_as<T>;
};

/// A transport that knows which of its ranks share a host.
///
/// - `hosts()`: the map of all ranks, the same on every rank as long as the transport is; null if it is not known.
/// - optional, `costs_between_hosts()`: what messages between hosts cost; `costs()` are then those within a host.
template <class T>
concept hosted_transport = transport<T> && requires(const T& t) {
  { t.hosts() } -> std::same_as<const host_map*>;
};

/// A transport over a library that has collectives of its own.
///
/// - `native_collectives()`: what calls them; transport/mpi/collectives.hpp says how. `open(call)` comes before each
///   call, or `write_down(call)` if `calm()`, and `abandon(reason)` after one that has ended by an exception;
///   `introduce()` once all ranks are known to be about to call one, and `introduced()` whether they have been.
template <class T>
concept native_transport = transport<T> && requires(T& t, const call& c, const std::string& reason) {
  { t.native_collectives().introduced() } -> std::same_as<bool>;
  t.native_collectives().introduce();
  t.native_collectives().open(c);
  { t.native_collectives().calm() } -> std::same_as<bool>;
  t.native_collectives().write_down(c);
  t.native_collectives().abandon(reason);
};

}  // namespace tutti
