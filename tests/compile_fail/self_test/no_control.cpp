// SPDX-License-Identifier: BSL-1.0
// expect: a sentence
int main() { static_assert(sizeof(int) == 0, "a sentence"); }
