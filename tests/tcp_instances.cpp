// SPDX-License-Identifier: BSL-1.0

#include "tcp_instances.hpp"

template class tutti::detail::tcp_service<tutti::detail::tcp_plain>;
template class tutti::detail::basic_tcp_group<tutti::detail::tcp_plain>;
