// SPDX-License-Identifier: BSL-1.0
#include <tutti/run_tcp_tls.hpp>

#include <cstdlib>

int main() {
  try {
    tutti::run_tcp_tls(tutti::tcp_options{}, [](tutti::communicator<tutti::tcp_tls>&) {});
  } catch (const tutti::usage_error&) {
    return EXIT_SUCCESS;  // there is no certificate
  }
  return EXIT_FAILURE;
}
