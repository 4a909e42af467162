// SPDX-License-Identifier: BSL-1.0
#pragma once

// Which host this is, and its addresses.

#include <tutti/core/clock.hpp>
#include <tutti/core/descriptor.hpp>
#include <tutti/core/message.hpp>
#include <tutti/transport/job_hash.hpp>

#include <asio/ip/address.hpp>

#include <fcntl.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace tutti::detail {

/// Random bits that nobody can guess.
inline void fill_with_random_bits(void* to, std::size_t size) {
  if (getrandom(to, size, 0) == static_cast<ssize_t>(size)) return;              // as many as 256 come at once
  const auto now = std::chrono::steady_clock::now().time_since_epoch().count();  // where the system has no such call
  const job_hash h =
      job_hash::of((message() << static_cast<long long>(now) << " " << static_cast<long>(getpid())).str());
  std::memcpy(to, h.words, size < sizeof h.words ? size : sizeof h.words);
}

/// The same number in every process that runs on the processors of this host.
inline std::uint64_t host_identity() {
  char text[64] = {};
  const descriptor_owner file(open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC));
  if (!file || read(file.get(), text, sizeof text) <= 0) gethostname(text, sizeof text - 1);
  return job_hash::of(std::string_view(text, sizeof text)).words[0];
}

/// The same number in every process that has the addresses of this one: several network namespaces may be on one host.
inline std::uint64_t network_identity(std::uint64_t host) {
  struct stat space {};
  if (stat("/proc/self/ns/net", &space) != 0) return host;
  return job_hash::of((message() << host << " " << static_cast<unsigned long long>(space.st_ino)).str()).words[0];
}

/// The same number in every process that may share memory with this one: of one user, on one host, in the same
/// namespaces. With another `name` it is another number.
inline std::uint64_t memory_identity(std::uint64_t network, std::string_view name) {
  message text;
  text << network << " " << static_cast<unsigned>(geteuid());
  for (const char* const path : {"/proc/self/ns/pid", "/proc/self/ns/ipc"}) {
    struct stat space {};
    text << " " << (stat(path, &space) == 0 ? static_cast<unsigned long long>(space.st_ino) : 0ULL);
  }
  return job_hash::of((text << " " << name).str()).words[0];
}

/// The addresses of all interfaces of this host, as `see(name, address)` is told, until it returns false.
template <class See>
void for_each_address(See&& see) {
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) return;
  struct owner {
    ifaddrs* list;
    ~owner() { freeifaddrs(list); }
  } const owned{first};
  for (const ifaddrs* i = first; i != nullptr; i = i->ifa_next) {
    if (i->ifa_addr == nullptr) continue;
    asio::ip::address address;
    if (i->ifa_addr->sa_family == AF_INET) {
      sockaddr_in four;
      std::memcpy(&four, i->ifa_addr, sizeof four);
      address = asio::ip::address_v4(ntohl(four.sin_addr.s_addr));
    } else if (i->ifa_addr->sa_family == AF_INET6) {
      sockaddr_in6 six;
      std::memcpy(&six, i->ifa_addr, sizeof six);
      asio::ip::address_v6::bytes_type bytes;
      std::memcpy(bytes.data(), &six.sin6_addr, bytes.size());
      address = asio::ip::address_v6(bytes, six.sin6_scope_id);
    } else {
      continue;
    }
    if (!see(std::string_view(i->ifa_name), address)) return;
  }
}

/// Whether that is an address of this host, or rather of this network namespace.
inline bool is_own_address(const asio::ip::address& address) {
  if (address.is_loopback()) return true;
  bool found = false;
  for_each_address([&](std::string_view, const asio::ip::address& own) {
    if (own.is_v6() && address.is_v6())
      // A link-local one is another on each link.
      found = own.to_v6().to_bytes() == address.to_v6().to_bytes() &&
              (!own.to_v6().is_link_local() || own.to_v6().scope_id() == address.to_v6().scope_id());
    else
      found = own == address;
    return !found;
  });
  return found;
}

/// The address of that interface: one of the family that is wanted, and rather one that means something elsewhere.
/// False if it has none; `others` lists what there is then.
inline bool address_of_interface(std::string_view name, bool six, asio::ip::address& address, std::string& others) {
  bool found = false;
  message listed;
  for_each_address([&](std::string_view interface, const asio::ip::address& own) {
    listed << (listed.str().empty() ? "" : ", ") << interface << " " << own.to_string();
    if (interface != name || own.is_v6() != six) return true;
    if (!found || (address.is_v6() && address.to_v6().is_link_local())) address = own;
    found = true;
    return true;
  });
  others = listed;
  return found;
}

}  // namespace tutti::detail
