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

namespace tutti::detail {

/// What ranks tell each other beside the collectives' own messages.
enum class note_kind : std::uint32_t {
  report,   ///< to rank 0 of a group: it has failed of this
  failed,   ///< from rank 0 to the others: of this; from another where rank 0 does not answer
  looks,    ///< the sender waits for the receiver, and calls this; or for the other end of this message
  gone,     ///< the receiver waits for the sender, which has left after its call `number`
  differs,  ///< the receiver's call does not fit to these calls of the sender's; or its message to the one end of it
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
    put(to, kind);
    put(to, group);
    put(to, number);
    put(to, fingerprint);
    put(to, what.kind);
    put(to, what.peer);
    put_text(to, what.text);
    put(to, static_cast<std::uint32_t>(calls.size()));
    for (std::size_t i = 0; i < calls.size(); ++i) {
      const recorded_call& c = calls[i];
      put(to, c.sequence);
      put(to, c.history);
      put(to, c.count);
      put(to, c.hash);
      put(to, c.element_size);
      put(to, c.root);
      put(to, c.line);
      for (const std::string& text : c.text) put_text(to, text);
    }
    return to;
  }

  static mpi_note read(std::string_view from) {
    mpi_note n;
    get(from, n.kind);
    get(from, n.group);
    get(from, n.number);
    get(from, n.fingerprint);
    get(from, n.what.kind);
    get(from, n.what.peer);
    get_text(from, n.what.text);
    std::uint32_t count = 0;
    get(from, count);
    for (std::uint32_t i = 0; i < count; ++i) {
      recorded_call c;
      get(from, c.sequence);
      get(from, c.history);
      get(from, c.count);
      get(from, c.hash);
      get(from, c.element_size);
      get(from, c.root);
      get(from, c.line);
      for (std::string& text : c.text) get_text(from, text);
      if (!n.calls.add(std::move(c))) break;
    }
    return n;
  }

 private:
  template <class T>
  static void put(std::string& to, const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    to.append(reinterpret_cast<const char*>(&value), sizeof(T));
  }
  static void put_text(std::string& to, const std::string& text) {
    put(to, static_cast<std::uint64_t>(text.size()));
    to += text;
  }
  // What is cut off reads as zeros and empty texts.
  template <class T>
  static void get(std::string_view& from, T& value) {
    if (from.size() < sizeof(T)) {
      from = {};
      return;
    }
    std::memcpy(&value, from.data(), sizeof(T));
    from.remove_prefix(sizeof(T));
  }
  static void get_text(std::string_view& from, std::string& text) {
    std::uint64_t size = 0;
    get(from, size);
    if (size > from.size()) size = from.size();
    text.assign(from.substr(0, static_cast<std::size_t>(size)));
    from.remove_prefix(static_cast<std::size_t>(size));
  }
};

}  // namespace tutti::detail
