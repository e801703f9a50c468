#include "base/sha256.hpp"

#include <fmt/format.h>
#include <nettle/hmac.h>
#include <nettle/memops.h>
#include <nettle/sha2.h>

namespace cove {
namespace {

sha256_ctx* context_of(std::array<std::uint8_t, 128>& state) {
  static_assert(sizeof(sha256_ctx) <= 128 && alignof(sha256_ctx) <= 16);
  return reinterpret_cast<sha256_ctx*>(state.data());
}

std::string hex_of(const std::array<std::uint8_t, SHA256_DIGEST_SIZE>& digest) {
  std::string out;
  for (const auto byte : digest) out += fmt::format("{:02x}", byte);
  return out;
}

const std::uint8_t* bytes_of(std::string_view text) {
  return reinterpret_cast<const std::uint8_t*>(text.data());
}

}  // namespace

Sha256::Sha256() {
  sha256_init(context_of(state_));
}

void Sha256::add(std::string_view bytes) {
  sha256_update(context_of(state_), bytes.size(), bytes_of(bytes));
}

std::string Sha256::hex() {
  std::array<std::uint8_t, SHA256_DIGEST_SIZE> digest{};
  sha256_digest(context_of(state_), digest.size(), digest.data());  // also resets
  return hex_of(digest);
}

std::string hmac_sha256_hex(std::string_view key, std::string_view bytes) {
  hmac_sha256_ctx context{};
  hmac_sha256_set_key(&context, key.size(), bytes_of(key));
  hmac_sha256_update(&context, bytes.size(), bytes_of(bytes));
  std::array<std::uint8_t, SHA256_DIGEST_SIZE> digest{};
  hmac_sha256_digest(&context, digest.size(), digest.data());
  return hex_of(digest);
}

bool equal_in_constant_time(std::string_view a, std::string_view b) {
  return a.size() == b.size() && memeql_sec(a.data(), b.data(), a.size()) != 0;
}

}  // namespace cove
