// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/collective/call.hpp>
#include <tutti/collective/select.hpp>
#include <tutti/collective/storage.hpp>
#include <tutti/core/call.hpp>
#include <tutti/core/error.hpp>
#include <tutti/core/fold.hpp>
#include <tutti/core/message.hpp>
#include <tutti/core/type_name.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

namespace tutti {

namespace detail {

enum class message_verb : unsigned char { send, recv, sendrecv };
constexpr std::string_view verb_name(message_verb v) {
  return v == message_verb::send ? "send" : v == message_verb::recv ? "recv" : "sendrecv";
}

template <message_verb V, class T>
inline constexpr call_signature outgoing_signature = message_signature(verb_name(V), call::outgoing, type_name<T>(),
                                                                       sizeof(T));
template <message_verb V, class T>
inline constexpr call_signature incoming_signature = message_signature(verb_name(V), call::incoming, type_name<T>(),
                                                                       sizeof(T));

[[noreturn, gnu::cold, gnu::noinline]] inline void refuse(place at, message_verb v, const std::string& what) {
  throw usage_error(message() << verb_name(v) << " on rank " << at.rank << " of " << at.size << ": " << what);
}
inline void check_rank(place at, message_verb v, const char* which, int rank) {
  if (rank < 0 || rank >= at.size) [[unlikely]]
    refuse(at, v, message() << which << " is rank " << rank << ", not in [0, " << at.size << ")");
}
inline void check_peer(place at, message_verb v, const char* which, int rank) {
  check_rank(at, v, which, rank);
  if (rank == at.rank) [[unlikely]]
    refuse(at, v, message() << which << " is rank " << rank << ", which is this rank itself: it would wait for ever");
}

/// One end of a message.
template <class T>
struct message_buffer {
  int peer;
  std::span<T> data;
};

/// Messages to and from single ranks, on their lane, within one call of the user. Nobody touches the caller's memory
/// after it is left, by return or by exception.
template <class Comm, class F>
void on_message_lane(Comm& comm, F&& f) {
  auto& lane = comm.messages().lane;
  const scratch_scope scope{comm.scratch()};
  waiting<Comm> wait{comm, lane};
  try {
    f(lane, wait);
    while (!lane.settled()) wait();
    if (wait.waited) lane.awake();
  } catch (...) {
    abandon(lane);
  }
}

/// Begins to send; does not wait.
template <class Comm, class T>
void post_message(Comm& comm, typename Comm::lane_type& lane, const call& c, const message_buffer<const T>& end,
                  const policy& how) {
  using storage_type = whole_storage<T>;
  lane.open(c);
  lane.begin_round();
  storage_type storage({.in = end.data.data()}, end.data.size(), 1, comm.rank(), comm.scratch());
  send_copies<T> copies;
  round_sends<storage_type> sends;
  sends.begin(copies);
  sends.add(end.peer, all_blocks(1), comm.scratch());
  sends.post(lane, storage, copies, comm.scratch(), how, false);
}

/// Waits for the message.
template <class Comm, class T>
void take_message(Comm& comm, typename Comm::lane_type& lane, waiting<Comm>& wait, const call& c,
                  const message_buffer<T>& end, const policy& how) {
  using storage_type = whole_storage<T>;
  using takes = intake<storage_type, no_operation, typename Comm::lane_type>;
  lane.open(c);
  lane.begin_round();
  storage_type storage({.in = end.data.data(), .out = end.data.data()}, end.data.size(), 1, comm.rank(),
                       comm.scratch());
  no_operation nothing;
  const takes take{lane, comm.scratch(), how, false, how.streaming, false, nothing};
  typename takes::progress at;
  take.take_one(storage, at, end.peer, all_blocks(1), arrival_kind::overwrite, wait);
}

template <message_verb V, class T, class Comm>
call outgoing_call(Comm& comm, int to, std::size_t count, call_site where) {
  std::uint64_t& sent = comm.messages().sent[static_cast<std::size_t>(to)];
  return {&outgoing_signature<V, T>, call::between(comm.rank(), to), ++sent, count, -1, where};
}
template <message_verb V, class T, class Comm>
call incoming_call(Comm& comm, int from, std::size_t count, call_site where) {
  std::uint64_t& received = comm.messages().received[static_cast<std::size_t>(from)];
  return {&incoming_signature<V, T>, call::between(from, comm.rank()), ++received, count, -1, where};
}

/// Who only sends has nothing to wait for; who receives as well waits for others anyway.
template <class T, class Comm>
policy message_policy(const Comm& comm, std::size_t count, bool exchanges) {
  using transport = typename Comm::transport_type;
  return {transport::pack_bytes, exchanges ? transport::exchange_copy_bytes : transport::copy_bytes, false,
          streams<T>(count, comm.size())};
}

template <class Out, class In>
void check_apart(place at, std::span<const Out> out, std::span<In> in) {
  if (out.empty() || in.empty()) return;
  const auto sent = std::as_bytes(out);
  const auto received = std::as_bytes(in);
  const std::less<const std::byte*> before;
  if (before(sent.data(), received.data() + received.size()) && before(received.data(), sent.data() + sent.size()))
      [[unlikely]]
    refuse(at, message_verb::sendrecv, "what is sent and what is received overlap");
}

/// A rank's message to itself.
template <class Out, class In>
void copy_to_itself(place at, std::span<const Out> out, std::span<In> in) {
  constexpr auto verb = message_verb::sendrecv;
  if constexpr (std::is_same_v<Out, In>) {
    if (out.size() != in.size()) [[unlikely]]
      refuse(at, verb, message() << "sends itself " << out.size() << " elements, receives " << in.size());
    if (!out.empty()) copy_elements(in.data(), out.data(), out.size(), streams<In>(in.size(), at.size));
  } else {
    refuse(at, verb, message() << "sends itself " << type_name<Out>() << ", receives " << type_name<In>());
  }
}

template <class Out, class In, class Comm>
void sendrecv(Comm& comm, std::optional<int> to, std::span<const Out> out, std::optional<int> from, std::span<In> in,
              call_site where) {
  constexpr auto verb = message_verb::sendrecv;
  const place at = comm.place();
  if (to) check_rank(at, verb, "the destination", *to);
  if (from) check_rank(at, verb, "the source", *from);
  if (to && from) check_apart(at, out, in);
  if ((to == at.rank) != (from == at.rank)) [[unlikely]]
    refuse(at, verb,
           message() << (to == at.rank ? "the destination" : "the source")
                     << " is this rank itself, and the other is not: it would wait for ever");
  if (to == at.rank) return copy_to_itself(at, out, in);
  if (!to && !from) return;
  on_message_lane(comm, [&](auto& lane, auto& wait) {
    call sent;
    if (to) {
      sent = outgoing_call<verb, Out>(comm, *to, out.size(), where);
      post_message<Comm, Out>(comm, lane, sent, {*to, out}, message_policy<Out>(comm, out.size(), from.has_value()));
    }
    if (!from) return;
    take_message<Comm, In>(comm, lane, wait, incoming_call<verb, In>(comm, *from, in.size(), where), {*from, in},
                           message_policy<In>(comm, in.size(), true));
    // From here on it waits for the other one.
    if (to && !lane.settled()) lane.open(sent);
  });
}

}  // namespace detail

/// Sends `data` (n elements) to rank `to`, which receives it by `recv` or `sendrecv`; messages from one rank to another
/// arrive in the order in which they were sent. Returns when `data` may be written again. Whether that waits for the
/// receiver is left to the transport: small messages are copied away while there is room for some, large ones are read
/// where they are. So two ranks that both send first and receive then may wait for each other: use `sendrecv`.
///
/// It is no collective: the other ranks neither take part nor notice, and what is pending goes on while it waits.
///
/// Throws `usage_error` if `to` is no rank, or this one; what it throws where the receiver expects something else,
/// fails or is late: see `recv`. Cost: n elements moved once between threads, by TCP, and where the sender's memory is
/// shared; else copied twice, in pieces.
template <class Comm, class Data>
void send(Comm& comm, int to, const Data& data, call_site where = call_site::current()) {
  using T = detail::element_t<const Data>;
  constexpr auto verb = detail::message_verb::send;
  const std::span<const T> out = detail::readable(data);
  detail::check_peer(comm.place(), verb, "the destination", to);
  detail::on_message_lane(comm, [&](auto& lane, auto&) {
    detail::post_message<Comm, T>(comm, lane, detail::outgoing_call<verb, T>(comm, to, out.size(), where), {to, out},
                                  detail::message_policy<T>(comm, out.size(), false));
  });
}

/// Receives into `data` (n elements) the next message of rank `from`, which must have as many elements of the same
/// type.
///
/// Throws `usage_error` if `from` is no rank, or this one; `mismatch` if the message has another number of elements or
/// another type: the same on both sides and on all other ranks, naming both calls, and the communicator is unusable
/// afterwards; `peer_failed` and `timed_out` as collectives do.
template <class Comm, class Data>
void recv(Comm& comm, int from, Data&& data, call_site where = call_site::current()) {
  using T = detail::element_t<Data>;
  constexpr auto verb = detail::message_verb::recv;
  const std::span<T> in = detail::writable(data);
  detail::check_peer(comm.place(), verb, "the source", from);
  detail::on_message_lane(comm, [&](auto& lane, auto& wait) {
    detail::take_message<Comm, T>(comm, lane, wait, detail::incoming_call<verb, T>(comm, from, in.size(), where),
                                  {from, in}, detail::message_policy<T>(comm, in.size(), false));
  });
}

/// Sends `out` to rank `to` and receives `in` from rank `from`, at once, so that ranks may do so in a ring. They may
/// have different types and numbers of elements, and must not overlap. Where there is no `to` nothing is sent, where
/// there is no `from` nothing is received and `in` stays as it is: at the edge of a mesh `cartesian::shift` says so. A
/// rank may send to itself: `out` is copied to `in`.
///
/// Throws `usage_error` if `to` or `from` is no rank or one of them alone is this one, or if the buffers overlap, or
/// differ where a rank sends to itself; else what `recv` throws. Cost: as `send` and `recv`, both ways at once.
template <class Comm, class Out, class In>
void sendrecv(Comm& comm, std::optional<int> to, const Out& out, std::optional<int> from, In&& in,
              call_site where = call_site::current()) {
  detail::sendrecv<detail::element_t<const Out>, detail::element_t<In>>(comm, to, detail::readable(out), from,
                                                                        detail::writable(in), where);
}

}  // namespace tutti
