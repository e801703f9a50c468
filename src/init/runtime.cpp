// The few functions the C++ headers expect of a runtime library, which cove-init does without. Whatever cannot go on
// aborts: pid 1 ends, and with it the sandbox.
#include <cstdlib>
#include <new>

void* operator new(std::size_t size) {
  void* memory = std::malloc(size == 0 ? 1 : size);
  if (memory == nullptr) std::abort();
  return memory;
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}

namespace std {
void __throw_length_error(const char*) {
  abort();
}
void __throw_logic_error(const char*) {
  abort();
}
void __throw_bad_alloc() {
  abort();
}
void __throw_bad_array_new_length() {
  abort();
}
void __throw_out_of_range_fmt(const char*, ...) {
  abort();
}
void __throw_bad_function_call() {
  abort();
}
void __glibcxx_assert_fail(const char*, int, const char*, const char*) noexcept {
  abort();
}
}  // namespace std
