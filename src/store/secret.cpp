#include "store/secret.hpp"

#include <fmt/format.h>
#include <nettle/sha2.h>

#include <array>
#include <cstdint>
#include <span>

#include "base/random.hpp"

namespace cove::store {
namespace {

// Each character with the same chance: bytes past the last whole multiple of the alphabet are thrown away.
std::string random_text(std::string_view alphabet, std::size_t length) {
  const std::size_t usable = 256 - 256 % alphabet.size();
  std::string out;
  while (out.size() < length) {
    std::array<std::uint8_t, 64> bytes{};
    fill_random(std::as_writable_bytes(std::span(bytes)));
    for (const auto byte : bytes) {
      if (out.size() < length && byte < usable) out.push_back(alphabet[byte % alphabet.size()]);
    }
  }
  return out;
}

}  // namespace

std::string new_key() {
  constexpr std::string_view kBase62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  return std::string(kKeyPrefix) + random_text(kBase62, 43);
}

std::string new_key_id() {
  return "key_" + random_text("abcdefghijklmnopqrstuvwxyz234567", 16);
}

std::string shown_prefix(std::string_view key) {
  return std::string(key.substr(0, kKeyPrefix.size() + 4));
}

std::string sha256_hex(std::string_view bytes) {
  sha256_ctx context{};
  sha256_init(&context);
  sha256_update(&context, bytes.size(), reinterpret_cast<const std::uint8_t*>(bytes.data()));
  std::array<std::uint8_t, SHA256_DIGEST_SIZE> digest{};
  sha256_digest(&context, digest.size(), digest.data());
  std::string out;
  for (const auto byte : digest) out += fmt::format("{:02x}", byte);
  return out;
}

}  // namespace cove::store
