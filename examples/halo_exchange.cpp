// SPDX-License-Identifier: BSL-1.0
// Heat spreads along the wall of a pipe: a grid of cells, a ring around the pipe, hot at one end and cold at the other.
// Each rank has a tile of it, with a halo: copies of the cells around it, which others have. Before every step the
// ranks exchange these, each with its neighbours along and around the pipe. In the end each compares its tile with what
// one rank alone gets.

#include <tutti/communicator/cartesian.hpp>
#include <tutti/core/layout.hpp>
#include <tutti/tutti.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <functional>
#include <span>
#include <vector>

namespace {

constexpr std::size_t length = 64;  // of the pipe, in cells
constexpr std::size_t around = 48;
constexpr int steps = 100;

/// Row by row, with one row and column more on each side.
struct tile {
  std::size_t rows;
  std::size_t columns;
  std::vector<double> cells = std::vector<double>((rows + 2) * (columns + 2), 0.0);

  double& at(std::size_t row, std::size_t column) { return cells[row * (columns + 2) + column]; }
  std::span<double> row(std::size_t row) { return {&at(row, 1), columns}; }
  void read_column(std::size_t column, std::vector<double>& to) {
    for (std::size_t row = 1; row <= rows; ++row) to[row - 1] = at(row, column);
  }
  void write_column(std::size_t column, const std::vector<double>& from) {
    for (std::size_t row = 1; row <= rows; ++row) at(row, column) = from[row - 1];
  }
};

double next(double cell, double above, double below, double left, double right) {
  return cell + 0.2 * (above + below + left + right - 4 * cell);
}

std::vector<double> alone() {
  std::vector<double> now(length * around, 0.0);
  for (int step = 0; step < steps; ++step) {
    const std::vector<double> was = now;
    for (std::size_t x = 0; x < length; ++x) {
      for (std::size_t y = 0; y < around; ++y) {
        const auto cell = [&](std::size_t row, std::size_t column) { return was[row * around + column % around]; };
        now[x * around + y] = next(cell(x, y), x == 0 ? 1.0 : cell(x - 1, y), x + 1 == length ? 0.0 : cell(x + 1, y),
                                   cell(x, y + around - 1), cell(x, y + 1));
      }
    }
  }
  return now;
}

/// One message each way along the pipe, where one may be at its end, and one each way around it.
template <class Comm>
void exchange(Comm& comm, const tutti::cartesian<2>& grid, tile& mine, std::vector<double>& out,
              std::vector<double>& in) {
  const auto down = grid.shift(comm.rank(), 0, 1);
  tutti::sendrecv(comm, down.destination, mine.row(mine.rows), down.source, mine.row(0));
  tutti::sendrecv(comm, down.source, mine.row(1), down.destination, mine.row(mine.rows + 1));
  const auto right = grid.shift(comm.rank(), 1, 1);
  mine.read_column(mine.columns, out);
  tutti::sendrecv(comm, right.destination, out, right.source, in);
  mine.write_column(0, in);
  mine.read_column(1, out);
  tutti::sendrecv(comm, right.source, out, right.destination, in);
  mine.write_column(mine.columns + 1, in);
}

}  // namespace

int main() {
  bool right = true;
  for (const int ranks : {1, 2, 4, 6}) {
    tutti::run(ranks, [&](auto& comm) {
      const tutti::cartesian<2> grid(tutti::balanced_extents<2>(comm.size()), {false, true});
      const auto [row, column] = grid.coordinates(comm.rank());
      const tutti::layout of_rows(length, grid.extents()[0]);
      const tutti::layout of_columns(around, grid.extents()[1]);
      tile mine{of_rows.size(row), of_columns.size(column)};
      if (row == 0) std::ranges::fill(mine.row(0), 1.0);  // beyond the end it stays hot
      std::vector<double> out(mine.rows), in(mine.rows);
      for (int step = 0; step < steps; ++step) {
        exchange(comm, grid, mine, out, in);
        tile was = mine;
        for (std::size_t x = 1; x <= mine.rows; ++x)
          for (std::size_t y = 1; y <= mine.columns; ++y)
            mine.at(x, y) = next(was.at(x, y), was.at(x - 1, y), was.at(x + 1, y), was.at(x, y - 1), was.at(x, y + 1));
      }

      const std::vector<double> all = alone();
      std::vector<int> same{1};
      for (std::size_t x = 0; x < mine.rows; ++x)
        for (std::size_t y = 0; y < mine.columns; ++y)
          if (mine.at(x + 1, y + 1) != all[(of_rows.offset(row) + x) * around + of_columns.offset(column) + y])
            same[0] = 0;
      tutti::reduce(comm, same, tutti::minimum{}, 0);
      if (comm.rank() != 0) return;
      std::printf("%d ranks as %d x %d: %s\n", ranks, grid.extents()[0], grid.extents()[1],
                  same[0] != 0 ? "as one rank alone" : "WRONG");
      right = right && same[0] != 0;
    });
  }
  return right ? 0 : 1;
}
