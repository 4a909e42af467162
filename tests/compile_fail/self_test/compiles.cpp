// SPDX-License-Identifier: BSL-1.0
// expect: anything
int main() {
#if MISTAKE
  static_assert(true);
#endif
}
