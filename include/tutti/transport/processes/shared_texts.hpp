// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/call.hpp>
#include <tutti/core/fault_point.hpp>
#include <tutti/core/owned_array.hpp>
#include <tutti/transport/processes/segment.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace tutti::detail {

/// What is said once and then told by its place: the value that goes with each of few keys, of which the last ones are
/// found at once.
template <class Key, class Value>
class few_known {
 public:
  /// The value of the key; the first time `make()` is asked for it.
  template <class Make>
  TUTTI_ALWAYS_INLINE Value& find(Key key, Make&& make) {
    entry& e = recent_[(reinterpret_cast<std::uintptr_t>(key) >> 3) % recent];
    if (e.key != key) [[unlikely]]
      look_up(e, key, make);
    return e.value;
  }

 private:
  static constexpr std::size_t recent = 32;
  struct entry {
    Key key{};
    Value value{};
  };

  template <class Make>
  [[gnu::noinline, gnu::cold]] void look_up(entry& e, Key key, Make& make) {
    for (const entry& known : all_) {
      if (known.key != key) continue;
      e = known;
      return;
    }
    const entry made{key, make()};
    all_.push_back(made);
    e = made;
  }

  entry recent_[recent] = {};
  array_list<entry> all_;
};

/// What is known about a call at compile time, for other processes.
struct shared_signature {
  std::uint64_t lengths[4];  // collective, algorithm, type, operation: their texts follow, without anything between
  std::uint64_t element_size;
  std::uint64_t hash;

  const char* text() const { return reinterpret_cast<const char*>(this + 1); }
  call_signature read() const {
    const char* at = text();
    const auto next = [&](std::size_t i) {
      const std::string_view part(at, lengths[i]);
      at += lengths[i];
      return part;
    };
    const std::string_view collective = next(0);
    const std::string_view algorithm = next(1);
    const std::string_view type = next(2);
    call_signature result(collective, algorithm, type, next(3), element_size);
    result.hash = hash;
    return result;
  }

  /// Where a copy of the signature lies in the segment.
  static std::uint64_t write(segment& memory, const call_signature& s) {
    const std::string_view parts[4] = {s.collective, s.algorithm, s.type, s.operation};
    std::size_t size = sizeof(shared_signature);
    for (const std::string_view part : parts) size += part.size();
    const std::uint64_t place = memory.take(size, alignof(shared_signature), "the name of a call");
    auto* const made = memory.object<shared_signature>(place);
    TUTTI_FAULT_POINT("texts.signature");
    made->element_size = s.element_size;
    made->hash = s.hash;
    auto* to = memory.object<char>(place + sizeof(shared_signature));
    for (std::size_t i = 0; i < 4; ++i) {
      made->lengths[i] = parts[i].size();
      if (!parts[i].empty()) std::memcpy(to, parts[i].data(), parts[i].size());
      to += parts[i].size();
    }
    return place;
  }
};

/// Where a copy of the text, with its end, lies in the segment.
inline std::uint64_t write_text(segment& memory, const char* text) {
  const std::size_t size = std::strlen(text) + 1;
  const std::uint64_t place = memory.take(size, 1, "the name of a file");
  TUTTI_FAULT_POINT("texts.file");
  std::memcpy(memory.at(place), text, size);
  return place;
}

}  // namespace tutti::detail
