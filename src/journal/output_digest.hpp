#pragma once

#include <cstdint>
#include <string_view>

namespace cove::journal {

// How much one stream wrote, and a fingerprint of it: equal output has equal fingerprints however it came in pieces.
// Against accidents, not against forgery (FNV-1a).
class OutputDigest {
 public:
  void add(std::string_view bytes) {
    bytes_ += bytes.size();
    for (const char byte : bytes) hash_ = (hash_ ^ static_cast<unsigned char>(byte)) * 0x100000001b3ULL;
  }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  [[nodiscard]] std::uint64_t fingerprint() const { return hash_; }

 private:
  std::uint64_t bytes_ = 0;
  std::uint64_t hash_ = 0xcbf29ce484222325ULL;
};

}  // namespace cove::journal
