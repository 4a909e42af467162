// SPDX-License-Identifier: BSL-1.0
#pragma once

// How much memory this process can still get. The system promises more memory than it has, and kills who uses it; so
// what is needed is compared with what is there before it is used.

#include <fcntl.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace tutti::detail {

/// So many bytes are left, and what it is that holds no more.
struct memory_left {
  std::uint64_t bytes = ~std::uint64_t{0};
  const char* where = "in this process";

  void at_most(std::uint64_t limit, const char* of_what) {
    if (limit < bytes) *this = {limit, of_what};
  }
};

/// The beginning of a text file of the kernel; empty if it cannot be read.
class kernel_text {
 public:
  explicit kernel_text(const char* path) {
    const int file = ::open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return;
    while (size_ < sizeof text_ - 1) {
      const ssize_t got = ::read(file, text_ + size_, sizeof text_ - 1 - size_);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) break;
      size_ += static_cast<std::size_t>(got);
    }
    ::close(file);
  }

  bool empty() const { return size_ == 0; }
  const char* begin() const { return text_; }
  /// What follows `key` on the line that begins with it; null if no line does.
  const char* after(const char* key) const {
    const std::size_t length = std::strlen(key);
    for (const char* line = text_; line != nullptr; line = std::strchr(line, '\n')) {
      if (*line == '\n') ++line;
      if (std::strncmp(line, key, length) == 0) return line + length;
    }
    return nullptr;
  }
  /// The number there, or `otherwise` where there is none.
  static std::uint64_t number(const char* at, std::uint64_t otherwise) {
    if (at == nullptr) return otherwise;
    while (*at == ' ' || *at == '\t') ++at;
    if (*at < '0' || *at > '9') return otherwise;
    std::uint64_t value = 0;
    for (; *at >= '0' && *at <= '9'; ++at) {
      if (value > (~std::uint64_t{0} - 9) / 10) return ~std::uint64_t{0};
      value = 10 * value + static_cast<std::uint64_t>(*at - '0');
    }
    return value;
  }
  std::uint64_t number(std::uint64_t otherwise = 0) const { return number(text_, otherwise); }
  std::uint64_t number_after(const char* key, std::uint64_t otherwise = 0) const {
    return number(after(key), otherwise);
  }

 private:
  char text_[8192] = {};
  std::size_t size_ = 0;
};

/// A path put together from pieces; one that is too long is none.
class kernel_path {
 public:
  kernel_path& append(const char* piece, std::size_t length) {
    if (length >= sizeof text_ - size_) {
      fits_ = false;
    } else {
      std::memcpy(text_ + size_, piece, length);
      size_ += length;
      text_[size_] = '\0';
    }
    return *this;
  }
  kernel_path& operator<<(const char* piece) { return append(piece, std::strlen(piece)); }
  bool fits() const { return fits_; }
  std::size_t size() const { return size_; }
  const char* text() const { return text_; }
  /// Shortens it.
  void cut(std::size_t size) { text_[size_ = size] = '\0'; }
  /// Takes the last folder away, unless only `least` characters would be left.
  bool leave(std::size_t least) {
    std::size_t end = size_;
    while (end > least && text_[end - 1] != '/') --end;
    if (end <= least) return false;
    cut(end - 1);
    return true;
  }

 private:
  char text_[1024] = {};
  std::size_t size_ = 0;
  bool fits_ = true;
};

/// What the files of one control group are called, in the second version of the interface and in the first.
struct control_group_files {
  const char* membership;  ///< the line of /proc/self/cgroup that names this process's group begins or goes on so
  const char* mount;
  const char* limit;
  const char* usage;
  const char* inactive_cache;
  const char* active_cache;
};
inline constexpr control_group_files control_groups[] = {
    {"0::", "/sys/fs/cgroup", "/memory.max", "/memory.current", "inactive_file ", "active_file "},
    {":memory:", "/sys/fs/cgroup/memory", "/memory.limit_in_bytes", "/memory.usage_in_bytes", "total_inactive_file ",
     "total_active_file "}};

/// The least that this process's control group, or one around it, has left. Cached files count as free.
inline void limit_by_control_groups(memory_left& left, std::uint64_t swap, const char* root) {
  constexpr std::uint64_t endless = ~std::uint64_t{0};
  const kernel_text memberships((kernel_path() << root << "/proc/self/cgroup").text());
  for (const control_group_files& files : control_groups) {
    kernel_path path;
    path << root << files.mount;
    const std::size_t top = path.size();
    if (const char* const line = std::strstr(memberships.begin(), files.membership)) {
      const char* const name = line + std::strlen(files.membership);
      const std::size_t length = std::strcspn(name, "\n");
      if (length > 1) path.append(name, length);
    }
    if (!path.fits()) path.cut(top);
    do {
      const std::size_t folder = path.size();
      const auto file = [&](const char* name) {
        path.cut(folder);
        return kernel_text((path << name).text());
      };
      const std::uint64_t limit = file(files.limit).number(endless);
      if (limit != endless) {
        const std::uint64_t usage = file(files.usage).number();
        const kernel_text statistics = file("/memory.stat");
        const std::uint64_t cache =
            statistics.number_after(files.inactive_cache) + statistics.number_after(files.active_cache);
        const std::uint64_t used = usage > cache ? usage - cache : 0;
        const std::uint64_t unused = limit > used ? limit - used : 0;
        left.at_most(unused > endless - swap ? endless : unused + swap, "in this control group");
      }
      path.cut(folder);
    } while (path.leave(top));
  }
}

/// The memory left for a file that is kept in memory, or, with -1, for none in particular. It is a guess that errs on
/// the large side. `root` is where the files of the kernel are found, which only tests change.
[[gnu::noinline, gnu::cold]] inline memory_left available_memory(int file = -1, const char* root = "") {
  memory_left left;
  const kernel_text machine((kernel_path() << root << "/proc/meminfo").text());
  const std::uint64_t swap = machine.number_after("SwapFree:") * 1024;
  if (machine.after("MemAvailable:") != nullptr)
    left.at_most(machine.number_after("MemAvailable:") * 1024 + swap, "on this machine");
  limit_by_control_groups(left, swap, root);
  struct statfs system {};
  // A file system without a size has no blocks.
  if (file >= 0 && ::fstatfs(file, &system) == 0 && system.f_blocks != 0)
    left.at_most(static_cast<std::uint64_t>(system.f_bavail) * static_cast<std::uint64_t>(system.f_bsize),
                 "on the file system of shared memory (/dev/shm)");
  return left;
}

}  // namespace tutti::detail
