// SPDX-License-Identifier: BSL-1.0
// expect: the mistake \(this one\) is named
template <int Value>
void must_be_even() {
  static_assert(Value % 2 == 0, "the mistake (this one) is named");
}

int main() {
  must_be_even<2>();
#if MISTAKE
  must_be_even<3>();
#endif
}
