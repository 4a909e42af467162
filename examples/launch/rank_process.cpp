// SPDX-License-Identifier: BSL-1.0
#include "rank_process.hpp"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <system_error>
#include <utility>

namespace {

[[noreturn]] void refused(const char* what) { throw std::system_error(errno, std::generic_category(), what); }

struct pipe_ends {
  descriptor read;
  descriptor write;
};
pipe_ends make_pipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) refused("a pipe for what a rank writes");
  return {descriptor(ends[0]), descriptor(ends[1])};
}

std::string hexadecimal(std::random_device& random) {
  char text[17];
  std::snprintf(text, sizeof text, "%08x%08x", static_cast<unsigned>(random()), static_cast<unsigned>(random()));
  return text;
}

bool is_free(std::uint16_t port) {
  const descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int yes = 1;
  setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
}
/// A port of which the system gives none to those who connect.
std::uint16_t free_port(std::random_device& random) {
  for (int attempt = 0; attempt < 1000; ++attempt)
    if (const auto port = static_cast<std::uint16_t>(15000 + random() % 17000); is_free(port)) return port;
  errno = EADDRINUSE;
  refused("a port for rank 0");
}

void write_text(const char* path, const std::string& text) {
  const descriptor file(open(path, O_WRONLY | O_CLOEXEC));
  if (!file.open() || write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) refused(path);
}

/// In the new process. Only what may be called between fork and exec, since launch has one thread: anything.
[[noreturn]] void become_rank(const options& asked, int rank, const job_environment& environment, pid_t launcher,
                              int out, int err, int failure) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != launcher) _exit(EXIT_FAILURE);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  std::signal(SIGPIPE, SIG_DFL);
  const int in = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (in >= 0) dup2(in, STDIN_FILENO);
  dup2(out, STDOUT_FILENO);
  dup2(err, STDERR_FILENO);
  environment.set(asked, rank);
  std::vector<char*> arguments;
  for (const std::string& each : asked.command) arguments.push_back(const_cast<char*>(each.c_str()));
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  const int error = errno;
  if (write(failure, &error, sizeof error) < 0) _exit(126);
  _exit(127);
}

/// The parent of a process; 0 if there is no such process.
pid_t parent_of(const char* pid) {
  const descriptor file(open((std::string("/proc/") + pid + "/stat").c_str(), O_RDONLY | O_CLOEXEC));
  char text[1024] = {};
  if (!file.open() || read(file.get(), text, sizeof text - 1) <= 0) return 0;
  const char* const after_name = std::strrchr(text, ')');  // which may hold anything
  char state = 0;
  int parent = 0;
  return after_name != nullptr && std::sscanf(after_name + 1, " %c %d", &state, &parent) == 2 ? parent : 0;
}

}  // namespace

int cannot_run::code() const { return error == ENOENT ? 127 : 126; }

job_environment::job_environment() {
  std::random_device random;
  port_ = std::to_string(free_port(random));
  job_ = "launch " + hexadecimal(random);
  token_ = hexadecimal(random) + hexadecimal(random);
}
void job_environment::set(const options& asked, int rank) const {
  const auto tell = [](const char* name, const std::string& value) { setenv(name, value.c_str(), 1); };
  tell("TUTTI_RANK", std::to_string(rank));
  tell("TUTTI_SIZE", std::to_string(asked.ranks()));
  tell("TUTTI_JOB", job_);
  tell("TUTTI_TOKEN", token_);
  tell("MASTER_ADDR", "127.0.0.1");
  tell("MASTER_PORT", port_);
  tell("LOCAL_RANK", std::to_string(rank % asked.per_host));
  tell("LOCAL_WORLD_SIZE", std::to_string(asked.per_host));
}

rank_process start(const options& asked, int rank, const job_environment& environment) {
  pipe_ends out = make_pipe();
  pipe_ends err = make_pipe();
  pipe_ends failure = make_pipe();
  const pid_t launcher = getpid();
  const pid_t pid = fork();
  if (pid < 0) refused("the process of a rank");
  if (pid == 0) become_rank(asked, rank, environment, launcher, out.write.get(), err.write.get(), failure.write.get());
  setpgid(pid, pid);  // by whoever is first
  failure.write.reset();
  int error = 0;
  ssize_t got = 0;
  while ((got = read(failure.read.get(), &error, sizeof error)) < 0 && errno == EINTR) {
  }
  if (got == sizeof error) {
    waitpid(pid, nullptr, 0);
    throw cannot_run{error};
  }
  rank_process started;
  started.pid = pid;
  started.out = std::move(out.read);
  started.err = std::move(err.read);
  return started;
}

void enter_new_host() {
  if (unshare(CLONE_NEWIPC) == 0) return;
  const std::string user = std::to_string(geteuid());
  const std::string group = std::to_string(getegid());
  if (unshare(CLONE_NEWUSER | CLONE_NEWIPC) != 0) refused("an IPC namespace for the ranks of a host");
  write_text("/proc/self/setgroups", "deny");
  write_text("/proc/self/uid_map", user + " " + user + " 1");
  write_text("/proc/self/gid_map", group + " " + group + " 1");
}

void look(rank_process& rank) {
  siginfo_t end{};
  if (rank.ended || waitid(P_PID, static_cast<id_t>(rank.pid), &end, WEXITED | WNOHANG | WNOWAIT) != 0) return;
  if (end.si_pid != rank.pid) return;
  rank.ended = true;
  (end.si_code == CLD_EXITED ? rank.code : rank.signal) = end.si_status;
}

std::vector<pid_t> left_behind(const std::vector<rank_process>& ranks) {
  std::vector<pid_t> found;
  DIR* const processes = opendir("/proc");
  if (processes == nullptr) return found;
  const pid_t self = getpid();
  while (const dirent* const entry = readdir(processes)) {
    const pid_t pid = std::atoi(entry->d_name);
    if (pid <= 0 || parent_of(entry->d_name) != self) continue;
    const bool is_rank = std::any_of(ranks.begin(), ranks.end(), [&](const rank_process& r) { return r.pid == pid; });
    if (!is_rank) found.push_back(pid);
  }
  closedir(processes);
  return found;
}
