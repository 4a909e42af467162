// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/message.hpp>

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cerrno>
#include <cstddef>
#include <string>
#include <string_view>

namespace tutti::detail {

/// The 22nd field of the text of /proc/PID/stat: when the process started, in clock ticks since boot. Empty if the
/// text is not of that form. The second field is the name of the program, which may hold spaces and brackets.
inline std::string_view start_time_in(std::string_view stat) {
  const std::size_t name_end = stat.rfind(')');
  if (name_end == std::string_view::npos) return {};
  stat.remove_prefix(name_end + 1);
  for (int field = 3; field <= 22; ++field) {
    const std::size_t begin = stat.find_first_not_of(' ');
    if (begin == std::string_view::npos) return {};
    stat.remove_prefix(begin);
    const std::size_t length = stat.find_first_of(" \n");
    if (field == 22) return stat.substr(0, length);
    if (length == std::string_view::npos) return {};
    stat.remove_prefix(length);
  }
  return {};
}

/// When that process started, in clock ticks since boot: with its number it names a process for good, since numbers
/// are used again. "unknown" if /proc does not tell.
inline std::string start_time_of(pid_t process) {
  const std::string path = message() << "/proc/" << static_cast<long>(process) << "/stat";
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return "unknown";
  char text[1024];
  std::size_t size = 0;
  while (size < sizeof text) {
    const ssize_t got = read(file, text + size, sizeof text - size);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    size += static_cast<std::size_t>(got);
  }
  close(file);
  const std::string_view start = start_time_in({text, size});
  return start.empty() ? "unknown" : std::string(start);
}

/// The process that made the pair of sockets of which this one is an end, as the kernel tells; 0 if it is no such
/// socket.
inline pid_t maker_of_socket(int socket) {
  ucred maker{};
  socklen_t size = sizeof maker;
  int family = 0;
  socklen_t family_size = sizeof family;
  if (getsockopt(socket, SOL_SOCKET, SO_DOMAIN, &family, &family_size) != 0 || family != AF_UNIX) return 0;
  return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &maker, &size) == 0 ? maker.pid : 0;
}

/// A text that names one process of this host, now and later.
inline std::string named_process(std::string_view what, pid_t process) {
  return message() << what << " " << static_cast<long>(process) << " started at tick " << start_time_of(process);
}

}  // namespace tutti::detail
