// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/collective/pending.hpp>
#include <tutti/collective/reduction.hpp>
#include <tutti/core/memory.hpp>

#include <optional>

namespace tutti {

namespace detail {

template <class Comm, class S, class T, class Op>
class pending_reduction : public pending_operation<Comm> {
  using base = pending_operation<Comm>;
  using lower = lowered<T, Op, S>;
  using element = typename lower::element;
  using fold = decltype(lower::fold(std::declval<Op>(), 0));

 public:
  pending_reduction(Comm& owner, typename Comm::pending_lane& lane, const call& c, const S& schedule,
                    const buffers<T>& memory, std::size_t count, Op op, std::span<T> result)
      : base(&pending_reduction::step, owner, lane),
        scratch_(owner.scratch_source()),
        wide_(lower::widen(memory, count, scratch_)),
        result_(result),
        op_(lower::fold(std::move(op), owner.size())),
        storage_(wide_, count, blocks_of(schedule, owner.place()), owner.rank(), scratch_),
        memory_{storage_, op_, scratch_, policy_for<Comm, S>(owner.size(), streams<element>(count, owner.size())),
                S::overlapping},
        execution_(schedule, owner.place(), memory_) {
    try {
      lane.lane.open(c);
    } catch (const std::exception& e) {
      lane.lane.abandon(e.what());
      this->close();
      throw;
    }
    step(*this);
  }

  static void destroy(base* self) { delete static_cast<pending_reduction*>(self); }

 private:
  static bool step(in_progress& progress) {
    auto& self = static_cast<pending_reduction&>(progress);
    if (self.finished) return true;
    try {
      if (!self.execution_.advance(self.on->lane, [] { return false; })) return false;
      lower::finish(self.wide_, self.result_, 0, self.comm->size());
    } catch (const std::exception& e) {
      self.on->lane.abandon(e.what());
      self.failed = std::current_exception();
    } catch (...) {
      self.on->lane.abandon("an exception that is no std::exception");
      self.failed = std::current_exception();
    }
    self.close();
    return true;
  }

  arena scratch_;
  buffers<element> wide_;
  std::span<T> result_;
  [[no_unique_address]] fold op_;
  storage_for<element, S> storage_;
  round_memory<storage_for<element, S>, fold> memory_;
  execution<S, storage_for<element, S>, fold> execution_;
};

// Not the blocking form's: the two travel on different lanes and never meet.
template <class A, class T, class Op>
inline constexpr call_signature pending_signature{"iallreduce", name_of<A>(), type_name<T>(), type_name<Op>(),
                                                  sizeof(T)};

template <class Algorithm, class T, class Op, class Comm>
pending<Comm> iallreduce(Comm& comm, const buffers<T>& memory, std::size_t count, Op op, std::span<T> result,
                         call_site where) {
  constexpr auto verb = collective::allreduce;
  require_operation<Op, T>();
  comm.go_on();
  std::optional<pending<Comm>> started;
  choose<verb, Algorithm, is_commutative_v<Op, T>>(comm, bytes_of<T, Op>(count), [&]<class A>() {
    using S = schedule_for<verb, A>;
    require_order<S, Op, T>();
    require_uniform<S, Op, T>();
    auto& on = comm.next_pending_lane();
    while (on.user != nullptr && !on.user->advance(*on.user)) {
      on.lane.idle();
      comm.progress();
    }
    using operation = pending_reduction<Comm, S, T, Op>;
    const call c = comm.next_call(pending_signature<A, T, Op>, count, -1, where);
    const S schedule = schedule_of_call<S>(comm, -1, count, count * sizeof(typename lowered<T, Op, S>::element));
    started.emplace(
        allocating(sizeof(operation), "a nonblocking collective",
                   [&] { return new operation(comm, on, c, schedule, memory, count, std::move(op), result); }),
        &operation::destroy);
  });
  return std::move(*started);
}

}  // namespace detail

/// Begins an allreduce and returns at once; `in` and `out` (n elements each) must stay, and `out` is not touched, until
/// the returned `pending` says that it has finished. Otherwise as `allreduce`. Ranks begin nonblocking collectives in
/// the same order among themselves and the blocking ones.
template <class Algorithm = automatic, class Comm, class In, class Out, class Op>
[[nodiscard]] pending<Comm> iallreduce(Comm& comm, const In& in, Out&& out, Op op,
                                       call_site where = call_site::current()) {
  detail::require_same_element<In, Out>();
  using T = detail::element_t<In>;
  constexpr auto verb = collective::allreduce;
  const std::span<const T> from = detail::readable(in);
  const std::span<T> to = detail::writable(out);
  detail::check_elements(comm.place(), verb, "output", to.size(), from.size());
  detail::check_overlap(comm.place(), verb, from, to);
  return detail::iallreduce<Algorithm, T>(comm, {.in = from.data(), .out = to.data()}, to.size(), std::move(op), to,
                                          where);
}

/// In place: `data` (n elements) is input and output.
template <class Algorithm = automatic, class Comm, class Data, class Op>
[[nodiscard]] pending<Comm> iallreduce(Comm& comm, Data&& data, Op op, call_site where = call_site::current()) {
  using T = detail::element_t<Data>;
  const std::span<T> buffer = detail::writable(data);
  return detail::iallreduce<Algorithm, T>(comm, {.in = buffer.data(), .out = buffer.data()}, buffer.size(),
                                          std::move(op), buffer, where);
}

}  // namespace tutti
