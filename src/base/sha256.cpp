#include "base/sha256.hpp"

#include <fmt/format.h>
#include <nettle/sha2.h>

namespace cove {
namespace {

sha256_ctx* context_of(std::array<std::uint8_t, 128>& state) {
  static_assert(sizeof(sha256_ctx) <= 128 && alignof(sha256_ctx) <= 16);
  return reinterpret_cast<sha256_ctx*>(state.data());
}

}  // namespace

Sha256::Sha256() {
  sha256_init(context_of(state_));
}

void Sha256::add(std::string_view bytes) {
  sha256_update(context_of(state_), bytes.size(), reinterpret_cast<const std::uint8_t*>(bytes.data()));
}

std::string Sha256::hex() {
  std::array<std::uint8_t, SHA256_DIGEST_SIZE> digest{};
  sha256_digest(context_of(state_), digest.size(), digest.data());  // also resets
  std::string out;
  for (const auto byte : digest) fmt::format_to(std::back_inserter(out), "{:02x}", byte);
  return out;
}

}  // namespace cove
