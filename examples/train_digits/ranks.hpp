// SPDX-License-Identifier: BSL-1.0
#pragma once

// A file for each transport: every algorithm is compiled for each, side by side.

#include "images.hpp"
#include "options.hpp"

#include <fstream>

namespace digits {

/// Trains on `wanted.ranks` threads of this process. Rank 0 says how it goes on and draws the picture into `chart`.
void train_on_threads(const task& work, const options& wanted, std::ofstream& chart);

/// The same on processes: forked from this one, or, if `wanted.transport` is "launched", those that a launcher started,
/// of which this is one.
void train_on_processes(const task& work, const options& wanted, std::ofstream& chart);

/// The same on the processes that a launcher or a script started, of which this is one, on one host or several. There
/// where the program was built with Asio.
void train_on_tcp(const task& work, const options& wanted, std::ofstream& chart);

/// The same on the ranks that MPI has started. There where the program was built with MPI.
void train_on_mpi(const task& work, const options& wanted, std::ofstream& chart);
/// Which of them this is; `size` becomes how many there are.
int rank_of_mpi(int& size);

/// The same alone, on the processes of one host, or on those of several, as its launcher says. There where the program
/// was built with Asio.
void train_on_any(const task& work, const options& wanted, std::ofstream& chart);

}  // namespace digits
