// SPDX-License-Identifier: BSL-1.0
#pragma once

// Hosts on a network of their own: network namespaces, joined by a router through pairs of virtual interfaces. They
// have no names and belong to descriptors of this process, so that the kernel removes all of it when the process ends,
// whatever ends it. Needs root, and ip(8) of iproute2.

#include <fcntl.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "child_process.hpp"

namespace test {

/// One network namespace.
class network_namespace {
 public:
  network_namespace() {
    const int before = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    if (before < 0 || unshare(CLONE_NEWNET) != 0) std::abort();
    descriptor_ = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    // Addresses count at once, not after a second in which nobody has objected.
    for (const char* const which : {"all", "default"})
      std::ofstream(std::string("/proc/sys/net/ipv6/conf/") + which + "/accept_dad") << 0;
    if (descriptor_ < 0 || setns(before, CLONE_NEWNET) != 0) std::abort();
    close(before);
  }
  network_namespace(const network_namespace&) = delete;
  network_namespace& operator=(const network_namespace&) = delete;
  ~network_namespace() { close(descriptor_); }

  /// The calling thread, and what it starts, is on that host from now on.
  void enter() const {
    if (setns(descriptor_, CLONE_NEWNET) != 0) std::abort();
  }
  /// As ip(8) finds it, from any process.
  std::string path() const { return "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(descriptor_); }
  /// Runs lines of commands of ip(8) there; what goes wrong is told on stderr, and ends the program.
  void ip(const std::string& lines) const {
    channel input;
    std::fflush(nullptr);
    const pid_t pid = fork();
    if (pid < 0) std::abort();
    if (pid == 0) {
      enter();
      dup2(input.reader(), STDIN_FILENO);
      execlp("ip", "ip", "-batch", "-", nullptr);
      _exit(127);
    }
    input.say(lines);
    input.close_writer();
    const int status = await_end(pid);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
      std::fprintf(stderr, "ip -batch ended with %d for:\n%s\n", status, lines.c_str());
      std::abort();
    }
  }

 private:
  int descriptor_ = -1;
};

/// Four hosts and the router between them:
///
///     host 0   10.77.0.10   fd77:0::10    on the bridge of the router
///     host 1   10.77.0.11   fd77:0::11    on the bridge of the router
///     host 2   10.77.2.12   fd77:2::12    on a subnet of its own
///     host 3   -            fd77:0::13    on the bridge, IPv6 only
///
/// by eth0. All but host 3 also have eth1 on a second bridge, 10.78.0.1x, and an interface docker0 with the same
/// address on every one of them, 172.17.0.1.
class four_hosts {
 public:
  static constexpr int count = 4;

  /// Whether this process may have them; if not, why not.
  static bool possible(std::string& why_not) {
    if (geteuid() != 0)
      why_not = "only root may make network namespaces";
    else if (std::system("ip -V >/dev/null 2>&1") != 0)
      why_not = "there is no ip(8); it is in Debian's iproute2";
    else if (!may_unshare())
      why_not = "the kernel, or the sandbox if there is one, makes no network namespaces";
    else
      return true;
    return false;
  }

  four_hosts() {
    std::string router =
        "link set lo up\n"
        "link add br0 type bridge\nlink set br0 up\naddr add 10.77.0.1/24 dev br0\n"
        "addr add fd77:0::1/64 dev br0 nodad\n"
        "link add br1 type bridge\nlink set br1 up\n";
    for (int h = 0; h < count; ++h) {
      const std::string n = std::to_string(h);
      router += "link add host" + n + " type veth peer name eth0 netns " + hosts_[at(h)].path() + "\n";
      if (h == 2)
        router += "addr add 10.77.2.1/24 dev host2\naddr add fd77:2::1/64 dev host2 nodad\n";
      else
        router += "link set host" + n + " master br0\n";
      router += "link set host" + n + " up\n";
      if (h == 3) continue;
      router += "link add other" + n + " type veth peer name eth1 netns " + hosts_[at(h)].path() + "\nlink set other" +
                n + " master br1\nlink set other" + n + " up\n";
    }
    router_.ip(router);
    child_process forwards([this] {
      router_.enter();
      std::ofstream("/proc/sys/net/ipv4/ip_forward") << 1;
      std::ofstream("/proc/sys/net/ipv6/conf/all/forwarding") << 1;
      return 0;
    });
    forwards.end();
    for (int h = 0; h < count; ++h) {
      const std::string n = std::to_string(h), subnet = h == 2 ? "2" : "0";
      std::string lines = "link set lo up\nlink set eth0 up\naddr add fd77:" + subnet + "::1" + n +
                          "/64 dev eth0 nodad\nroute add default via fd77:" + subnet + "::1\n";
      if (h != 3) {
        lines +=
            "addr add 10.77." + subnet + ".1" + n + "/24 dev eth0\nroute add default via 10.77." + subnet +
            ".1\nlink set eth1 up\naddr add 10.78.0.1" + n +
            "/24 dev eth1\nlink add docker0 type bridge\nlink set docker0 up\naddr add 172.17.0.1/16 dev docker0\n";
      }
      hosts_[at(h)].ip(lines);
    }
  }

  const network_namespace& host(int h) const { return hosts_[at(h)]; }
  const network_namespace& router() const { return router_; }
  /// As if the cable of its eth0 were drawn, and put in again.
  void unplug(int h) const { router_.ip("link set host" + std::to_string(h) + " down\n"); }
  void plug(int h) const { router_.ip("link set host" + std::to_string(h) + " up\n"); }

 private:
  static std::size_t at(int h) { return static_cast<std::size_t>(h); }
  static bool may_unshare() {
    child_process trial([] { return unshare(CLONE_NEWNET) == 0 ? 0 : 1; });
    return trial.result() == 0;
  }
  network_namespace router_;
  std::array<network_namespace, count> hosts_;
};

}  // namespace test
