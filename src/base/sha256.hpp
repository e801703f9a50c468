#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace cove {

// SHA-256 of bytes that come in pieces.
class Sha256 {
 public:
  Sha256();
  void add(std::string_view bytes);
  // 64 characters of [0-9a-f]; begins anew.
  std::string hex();

 private:
  alignas(16) std::array<std::uint8_t, 128> state_;  // nettle's context, kept out of this header
};

// HMAC-SHA256 as 64 characters of [0-9a-f].
std::string hmac_sha256_hex(std::string_view key, std::string_view bytes);

// Compares in constant time for texts of equal length.
bool equal_in_constant_time(std::string_view a, std::string_view b);

}  // namespace cove
