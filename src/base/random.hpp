#pragma once

#include <sys/random.h>

#include <cstddef>
#include <cstdlib>
#include <span>
#include <type_traits>

namespace cove {

// Random bytes from the kernel. getrandom(2) never returns fewer for such a small request.
inline void fill_random(std::span<std::byte> bytes) {
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) std::abort();
}

template <typename T>
  requires std::is_integral_v<T>
T random_number() {
  T value{};
  fill_random(std::as_writable_bytes(std::span(&value, 1)));
  return value;
}

}  // namespace cove
