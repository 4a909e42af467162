// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/error.hpp>
#include <tutti/core/fault_point.hpp>
#include <tutti/core/message.hpp>
#include <tutti/transport/processes/available_memory.hpp>
#include <tutti/transport/processes/named_segment.hpp>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <new>
#include <system_error>
#include <utility>

namespace tutti::detail {

// The thread sanitizer leaves a process a few TiB of addresses, some of which lie apart, and threads may play several
// ranks of a host.
#if defined(__SANITIZE_THREAD__)
inline constexpr bool addresses_are_few = true;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
inline constexpr bool addresses_are_few = true;
#else
inline constexpr bool addresses_are_few = false;
#endif
#else
inline constexpr bool addresses_are_few = false;
#endif

/// What a segment is made of. None of them has a name that could be left behind: the first two never have one, the
/// third only until it is open.
enum class segment_source {
  any,      ///< the first of the following that the system allows
  memfd,    ///< memory without a file system
  unnamed,  ///< a file in /dev/shm that never had a name
  named     ///< a file in /dev/shm under a name that cannot be guessed
};

/// One piece of memory that all processes of a group map, each where it likes: places in it are told as offsets, of
/// which none is 0. It is a range of addresses of which only what has been taken is memory. A process made by fork()
/// uses what it inherits as it is.
class segment {
 public:
  /// 256 GiB of addresses, and of memory nothing.
  static constexpr std::size_t default_range = std::size_t{1} << (addresses_are_few ? 35 : 38);
  static constexpr std::size_t least_range = std::size_t{1} << 30;
  static constexpr std::size_t huge_page = std::size_t{1} << 21;

  segment() = default;
  segment(segment&& other) noexcept
      : base_(std::exchange(other.base_, nullptr)),
        range_(std::exchange(other.range_, 0)),
        descriptor_(std::exchange(other.descriptor_, -1)) {}
  segment& operator=(segment&& other) noexcept {
    if (this == &other) return *this;
    release();
    base_ = std::exchange(other.base_, nullptr);
    range_ = std::exchange(other.range_, 0);
    descriptor_ = std::exchange(other.descriptor_, -1);
    return *this;
  }
  ~segment() { release(); }

  /// A new segment of `range` bytes of addresses, or, where there are not so many, a half, a quarter, ... of it, but at
  /// least `least_range` or what was asked for. Throws `resource_error`.
  static segment create(std::size_t range = default_range, segment_source source = segment_source::any) {
    segment made;
    made.descriptor_ = open_memory(source);
    TUTTI_FAULT_POINT("segment.opened");
    range = rounded_up(std::max(range, huge_page), huge_page);
    const std::size_t least = std::min(range, least_range);
    while (!made.map(range)) {
      if (range / 2 < least) no_addresses(range, errno);
      range = rounded_up(range / 2, huge_page);
    }
    TUTTI_FAULT_POINT("segment.mapped");
    made.commit(0, first, "the head of a segment");
    auto* const h = new (made.base_) header;
    h->range = range;
    h->top.store(first, std::memory_order_relaxed);
    h->magic = magic;
    TUTTI_FAULT_POINT("segment.created");
    return made;
  }

  /// The segment that another process has created, of which this is a descriptor, received or inherited. The descriptor
  /// belongs to the segment from here on, also if this throws: `usage_error` if it is none, `resource_error` if there
  /// is no room for it.
  static segment attach(int descriptor) {
    segment made;
    made.descriptor_ = descriptor;
    alignas(header) unsigned char bytes[sizeof(header)] = {};
    ssize_t got = 0;
    do {
      got = ::pread(descriptor, bytes, sizeof bytes, 0);
    } while (got < 0 && errno == EINTR);
    if (got < 0)
      throw usage_error(message() << "a segment of shared memory cannot be read from descriptor " << descriptor << ": "
                                  << std::generic_category().message(errno));
    const auto* const h = reinterpret_cast<const header*>(bytes);
    if (static_cast<std::size_t>(got) < sizeof bytes || h->magic != magic)
      throw usage_error(message() << "descriptor " << descriptor
                                  << " is not a segment of shared memory: it begins with " << h->magic << ", not "
                                  << magic << ", and has " << got << " of " << sizeof bytes << " bytes");
    if (h->version != version)
      throw usage_error(message() << "the segment of shared memory was made by version " << h->version
                                  << ", and this is version " << version);
    const std::uint64_t range = h->range;
    if (range < huge_page || range % huge_page != 0 || range > std::uint64_t{1} << 47)
      throw usage_error(message() << "a segment of shared memory cannot have " << range << " bytes");
    TUTTI_FAULT_POINT("segment.attach");
    if (!made.map(range)) no_addresses(range, errno);
    TUTTI_FAULT_POINT("segment.attached");
    return made;
  }

  /// To be handed to a process that is to attach; still owned by the segment. It is closed on exec.
  int descriptor() const { return descriptor_; }
  std::size_t range() const { return range_; }
  std::byte* base() const { return base_; }
  /// So many bytes of addresses have been taken.
  std::uint64_t taken() const { return head().top.load(std::memory_order_relaxed); }

  /// Takes `bytes` bytes of addresses aligned to `alignment`, a power of two up to `huge_page`, without memory. Several
  /// threads and processes may take at once; none waits for another. `purpose` is for the `resource_error` that it
  /// throws where the range is used up.
  std::uint64_t reserve(std::size_t bytes, std::size_t alignment, const char* purpose) {
    std::atomic<std::uint64_t>& top = head().top;
    std::uint64_t old = top.load(std::memory_order_relaxed);
    std::uint64_t start = 0;
    bytes = std::max<std::size_t>(bytes, 1);
    do {
      start = rounded_up(old, alignment);
      if (start > range_ || bytes > range_ - start)
        refuse(bytes, 0, purpose, {range_ - std::min<std::uint64_t>(start, range_), "in this segment"});
    } while (!top.compare_exchange_weak(old, start + bytes, std::memory_order_relaxed));
    return start;
  }

  /// Undoes a `reserve`, unless somebody has taken more in the meantime: then the addresses are lost. There must be no
  /// memory there.
  void give_back_addresses(std::uint64_t start, std::size_t bytes) noexcept {
    std::uint64_t end = start + bytes;
    head().top.compare_exchange_strong(end, start, std::memory_order_relaxed);
  }

  /// Makes `bytes` reserved bytes at `offset` memory, zeroed. What is not there is a `resource_error` here, which
  /// leaves nothing taken, and never a signal later.
  [[gnu::noinline]] void commit(std::uint64_t offset, std::size_t bytes, const char* purpose) {
    // A file that would be too large is a signal otherwise.
    rlimit limit{};
    if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && offset + bytes > limit.rlim_cur)
      refuse(bytes, EFBIG, purpose,
             {limit.rlim_cur - std::min<std::uint64_t>(offset, limit.rlim_cur), "in one file (RLIMIT_FSIZE)"});
    std::size_t chunk = chunk_bytes;
    for (std::size_t done = 0; done < bytes;) {
      if (const std::size_t rest = bytes - done; rest >= check_bytes) {
        if (const memory_left left = available_memory(descriptor_); rest > left.bytes) {
          discard(offset, done);
          refuse(bytes, 0, purpose, {left.bytes + done, left.where});
        }
      }
      const std::size_t next = std::min(bytes - done, chunk);
      const int wrong = allocate(offset + done, next);
      if (wrong == EINTR) {
        chunk = std::max(chunk / 2, std::size_t{1} << 16);  // between two signals something must be done
      } else if (wrong != 0) {
        discard(offset, done + next);
        refuse(bytes, wrong, purpose);
      } else {
        done += next;
      }
    }
  }

  /// Gives back what the bytes are made of: the addresses stay reserved, and are zero when committed again.
  void discard(std::uint64_t offset, std::size_t bytes) noexcept {
    if (bytes == 0) return;
    while (::fallocate(descriptor_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                       static_cast<off_t>(bytes)) != 0 &&
           errno == EINTR) {
    }
  }

  /// Both: `bytes` bytes of zeroed memory aligned to `alignment`.
  std::uint64_t take(std::size_t bytes, std::size_t alignment, const char* purpose) {
    bytes = std::max<std::size_t>(bytes, 1);
    const std::uint64_t start = reserve(bytes, alignment, purpose);
    try {
      TUTTI_FAULT_POINT("segment.reserved");
      commit(start, bytes, purpose);
    } catch (...) {
      give_back_addresses(start, bytes);
      throw;
    }
    TUTTI_FAULT_POINT("segment.taken");
    return start;
  }

  std::byte* at(std::uint64_t offset) const { return base_ + offset; }
  template <class T>
  T* object(std::uint64_t offset) const {
    return reinterpret_cast<T*>(at(offset));
  }
  /// Whether all of these bytes lie in the segment.
  bool holds(const std::byte* data, std::size_t bytes) const {
    const std::uint64_t offset = offset_of(data);
    return offset < range_ && bytes <= range_ - offset;
  }
  std::uint64_t offset_of(const std::byte* data) const {
    return reinterpret_cast<std::uintptr_t>(data) - reinterpret_cast<std::uintptr_t>(base_);
  }

 private:
  static constexpr std::uint64_t magic = 0x746e656d67657374;  // "tsegment"
  static constexpr std::uint32_t version = 1;
  struct header {
    std::uint64_t magic = 0;
    std::uint32_t version = segment::version;
    std::uint32_t unused = 0;
    std::uint64_t range = 0;
    alignas(64) std::atomic<std::uint64_t> top{0};
  };
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free, "processes cannot share a lock of this library");
  static constexpr std::uint64_t first = 4096;  // where what is taken begins

  // So much at a time is made memory, after a look at what is there: ranks that grow at once see each other.
  static constexpr std::size_t chunk_bytes = std::size_t{1} << 26;
  // Of less the system has always some.
  static constexpr std::size_t check_bytes = std::size_t{1} << 20;

  header& head() const { return *reinterpret_cast<header*>(base_); }
  static constexpr std::uint64_t rounded_up(std::uint64_t value, std::uint64_t step) {
    return (value + step - 1) / step * step;
  }

  [[noreturn, gnu::noinline, gnu::cold]] void refuse(std::uint64_t bytes, int wrong, const char* purpose) const {
    refuse(bytes, wrong, purpose, available_memory(descriptor_));
  }
  [[noreturn, gnu::noinline, gnu::cold]] static void refuse(std::uint64_t bytes, int wrong, const char* purpose,
                                                            memory_left left) {
    message text;
    text << "not enough shared memory for " << purpose << ": " << bytes << " bytes needed, " << left.bytes
         << " bytes available " << left.where;
    if (wrong != 0) text << ": " << std::generic_category().message(wrong);
    throw resource_error(text);
  }
  [[noreturn, gnu::noinline, gnu::cold]] static void no_addresses(std::uint64_t range, int wrong) {
    message text;
    text << "a segment of shared memory needs " << range << " bytes of addresses";
    rlimit limit{};
    if (::getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
      text << ", and this process may have " << limit.rlim_cur << " in all (RLIMIT_AS)";
    throw resource_error(text << ": " << std::generic_category().message(wrong));
  }

  /// An error number; 0 if the bytes are there.
  int allocate(std::uint64_t offset, std::size_t bytes) noexcept {
    const auto start = static_cast<off_t>(offset);
    const auto length = static_cast<off_t>(bytes);
    if (bytes >= huge_page) {
      // What is touched through the mapping gets huge pages where they are to be had by asking; that this process has
      // it mapped then is welcome. It may fail, and then the next call says why. First the file must be so long.
      constexpr int populate_write = 23;                       // MADV_POPULATE_WRITE, which older headers do not have
      constexpr std::uint64_t pages = std::uint64_t{1} << 16;  // whole pages, however large they are
      const std::uint64_t begin = rounded_up(offset, pages);
      const std::uint64_t end = (offset + bytes) / pages * pages;
      if (::fallocate(descriptor_, 0, start + length - 1, 1) == 0) ::madvise(at(begin), end - begin, populate_write);
    }
    return ::fallocate(descriptor_, 0, start, length) == 0 ? 0 : errno;
  }

  /// Maps the descriptor at an address that is a multiple of a huge page.
  bool map(std::size_t range) noexcept {
    void* const room =
        ::mmap(nullptr, range + huge_page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED) return false;
    auto* const begin = static_cast<std::byte*>(room);
    const std::size_t before = (huge_page - reinterpret_cast<std::uintptr_t>(begin) % huge_page) % huge_page;
    std::byte* const base = begin + before;
    if (::mmap(base, range, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED, descriptor_, 0) ==
        MAP_FAILED) {
      const int wrong = errno;
      ::munmap(room, range + huge_page);
      errno = wrong;
      return false;
    }
    if (before != 0) ::munmap(begin, before);
    if (before != huge_page) ::munmap(base + range, huge_page - before);
    ::madvise(base, range, MADV_HUGEPAGE);
    ::madvise(base, range, MADV_DONTDUMP);  // a rank that aborts must not be busy for seconds with its core
    base_ = base;
    range_ = range;
    return true;
  }
  void release() noexcept {
    if (base_ != nullptr) ::munmap(base_, range_);
    if (descriptor_ >= 0) ::close(descriptor_);
  }

  static int open_memory(segment_source source) {
    const bool any = source == segment_source::any;
    int made = -1;
    if (any || source == segment_source::memfd) made = open_memfd();
    if (made < 0 && (any || source == segment_source::unnamed))
      made = ::open("/dev/shm", O_TMPFILE | O_RDWR | O_CLOEXEC, S_IRUSR | S_IWUSR);
    if (made < 0 && (any || source == segment_source::named)) made = open_named();
    if (made < 0)
      throw resource_error(message() << "no shared memory can be had, neither by memfd_create nor in /dev/shm: "
                                     << std::generic_category().message(errno));
    return made;
  }
  static int open_memfd() noexcept {
    constexpr unsigned no_execution = 8;  // MFD_NOEXEC_SEAL, which older systems do not know and some newer demand
    int made = ::memfd_create("tutti", MFD_CLOEXEC | MFD_ALLOW_SEALING | no_execution);
    if (made < 0 && errno == EINVAL) made = ::memfd_create("tutti", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    // Nobody can take away what others have mapped.
    if (made >= 0) ::fcntl(made, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL);
    return made;
  }
  static int open_named() noexcept {
    remove_leftovers();
    const named_segment name;
    if (!name) return -1;
    const int made = ::shm_open(name.text(), O_CREAT | O_EXCL | O_RDWR, S_IRUSR | S_IWUSR);
    TUTTI_FAULT_POINT("segment.named");
    if (made >= 0) ::shm_unlink(name.text());
    return made;
  }

  std::byte* base_ = nullptr;
  std::size_t range_ = 0;
  int descriptor_ = -1;
};

}  // namespace tutti::detail
