#pragma once

#include <boost/json.hpp>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace cove::oauth {

// A public key that tokens are signed with: RSA (RS256), P-256 (ES256) or Ed25519 (EdDSA).
class SigningKey {
 public:
  // Errc::unsupported for an unknown type of key, Errc::invalid for a malformed one.
  static Result<SigningKey> from_jwk(const boost::json::object& jwk);
  SigningKey(SigningKey&&) noexcept;
  SigningKey& operator=(SigningKey&&) noexcept;
  ~SigningKey();

  [[nodiscard]] const std::string& id() const { return id_; }              // `kid`; may be empty
  [[nodiscard]] std::string_view algorithm() const { return algorithm_; }  // the only one it is used with
  [[nodiscard]] bool signed_this(std::string_view text, std::string_view signature) const;

 private:
  struct Key;
  SigningKey(std::unique_ptr<Key> key, std::string id, std::string_view algorithm);

  std::unique_ptr<Key> key_;
  std::string id_;
  std::string_view algorithm_;
};

// Reads a JWK set, {"keys": […]}. Unusable keys are skipped; Errc::invalid when none is left.
Result<std::vector<SigningKey>> read_key_set(std::string_view text);

}  // namespace cove::oauth
