#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace cove::store {

inline constexpr const char* kSecretKeyFile = "secrets.key";

// Seals secrets that must be stored and read again, with AES-256-GCM under a key in a file of its own (mode 0600, made
// when it is first needed): whoever gets hold of the database alone learns nothing.
class SecretBox {
 public:
  explicit SecretBox(std::string dir) : dir_(std::move(dir)) {}

  // "sealed:" and what only this box opens, and only for the same `owner`: a row's id. "" stays "".
  Result<std::string> seal(std::string_view owner, std::string_view secret);
  // What was never sealed is given back as it is: databases of before hold such. Errc::denied for what does not open.
  Result<std::string> open(std::string_view owner, std::string_view sealed);
  static bool is_sealed(std::string_view text);

 private:
  Result<const std::string*> key();

  std::string dir_;
  std::optional<std::string> key_;
};

}  // namespace cove::store
