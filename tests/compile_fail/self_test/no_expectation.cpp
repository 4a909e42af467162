// SPDX-License-Identifier: BSL-1.0
int main() {
#if MISTAKE
  static_assert(sizeof(int) == 0, "a sentence");
#endif
}
