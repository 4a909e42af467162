// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/error.hpp>
#include <tutti/transport/recorded_calls.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace tutti::detail {

/// What ranks tell each other beside the collectives' own messages.
enum class note_kind : std::uint32_t {
  report,   ///< to rank 0 of a group: it has failed of this
  failed,   ///< from rank 0 to the others: of this; from another where rank 0 does not answer
  looks,    ///< the sender waits for the receiver, and calls this; or for the other end of this message
  gone,     ///< the receiver waits for the sender, which has left after its call `number`, or given up the next one
  differs,  ///< the receiver's call does not fit to these calls of the sender's; or its message to the one end of it
  comes,  ///< to the first of those who make the group `number` of this one: the sender is there; or, if `fingerprint`
          ///< is 0, never comes; or, if 2, has been there as long as it may
  decided,  ///< from the first of them: all are there; or, if `fingerprint` is 0, not, but for the rank `what.peer`, or
            ///< since this group has failed if that is -1
  left,     ///< to rank 0: the sender's function has returned, after its call `number`
  end       ///< from rank 0: all have left
};

/// A note, written in the byte order of the machine: all ranks of an MPI job run the same program.
struct mpi_note {
  note_kind kind = note_kind::end;
  int group = 0;
  std::uint64_t number = 0;
  std::uint64_t fingerprint = 0;
  failure what;
  recorded_calls calls;

  std::string write() const {
    std::string to;
    walk(*this, writer{&to});
    return to;
  }
  /// What is cut off reads as zeros and empty texts.
  static mpi_note read(std::string_view from) {
    mpi_note note;
    walk(note, reader{&from});
    return note;
  }

 private:
  /// `field(f)` for each field f, in the order in which they travel.
  template <class Note, class Field>
  static void walk(Note& note, const Field& field) {
    field(note.kind);
    field(note.group);
    field(note.number);
    field(note.fingerprint);
    field(note.what.kind);
    field(note.what.peer);
    field(note.what.text);
    field(note.calls);
  }

  struct writer {
    std::string* to;

    template <class T>
    void operator()(const T& value) const {
      static_assert(std::is_trivially_copyable_v<T>);
      to->append(reinterpret_cast<const char*>(&value), sizeof(T));
    }
    void operator()(const std::string& text) const {
      (*this)(static_cast<std::uint64_t>(text.size()));
      *to += text;
    }
    void operator()(const recorded_calls& list) const {
      (*this)(static_cast<std::uint32_t>(list.size()));
      for (std::size_t i = 0; i < list.size(); ++i) recorded_call::walk(list[i], *this);
    }
  };
  struct reader {
    std::string_view* from;

    template <class T>
    void operator()(T& value) const {
      static_assert(std::is_trivially_copyable_v<T>);
      if (from->size() < sizeof(T)) {
        *from = {};
        return;
      }
      std::memcpy(&value, from->data(), sizeof(T));
      from->remove_prefix(sizeof(T));
    }
    void operator()(std::string& text) const {
      std::uint64_t size = 0;
      (*this)(size);
      if (size > from->size()) size = from->size();
      text.assign(from->substr(0, static_cast<std::size_t>(size)));
      from->remove_prefix(static_cast<std::size_t>(size));
    }
    void operator()(recorded_calls& list) const {
      std::uint32_t count = 0;
      (*this)(count);
      for (; count != 0; --count) {
        recorded_call one;
        recorded_call::walk(one, *this);
        if (!list.add(std::move(one))) break;
      }
    }
  };
};

/// The last call of a rank that has left.
struct mpi_ending {
  std::uint64_t number = 0;
  std::uint64_t fingerprint = 0;
  friend bool operator==(const mpi_ending&, const mpi_ending&) = default;
};

}  // namespace tutti::detail
