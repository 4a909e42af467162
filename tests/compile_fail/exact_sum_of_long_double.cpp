// SPDX-License-Identifier: BSL-1.0
// expect: exact_sum is defined for binary floating-point types of 16, 32 and 64 bits
#include <tutti/tutti.hpp>

int main() {
#if MISTAKE
  const tutti::exact_sum<long double> sum;
#else
  const tutti::exact_sum<double> sum;
#endif
  return sum.value() == 0 ? 0 : 1;
}
