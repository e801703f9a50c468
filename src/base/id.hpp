#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "base/random.hpp"

namespace cove {

// The name of a sandbox: 26 characters of [a-z2-7], 130 random bits. Fixed size, so that it can cross to the keeper as
// it is.
struct SandboxId {
  std::array<char, 26> text{};

  static SandboxId random() {
    constexpr std::string_view kAlphabet = "abcdefghijklmnopqrstuvwxyz234567";
    std::array<std::uint8_t, 26> bytes{};
    fill_random(std::as_writable_bytes(std::span(bytes)));
    SandboxId id;
    for (std::size_t i = 0; i < bytes.size(); ++i) id.text[i] = kAlphabet[bytes[i] % 32];
    return id;
  }

  [[nodiscard]] std::string_view view() const { return {text.data(), text.size()}; }
  [[nodiscard]] bool valid() const {
    for (const char c : text) {
      if (!((c >= 'a' && c <= 'z') || (c >= '2' && c <= '7'))) return false;
    }
    return true;
  }
  bool operator==(const SandboxId&) const = default;
  auto operator<=>(const SandboxId&) const = default;
};

}  // namespace cove
