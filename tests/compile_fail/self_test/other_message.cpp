// SPDX-License-Identifier: BSL-1.0
// expect: a sentence that nobody prints
int main() {
#if MISTAKE
  static_assert(sizeof(int) == 0, "another sentence");
#endif
}
