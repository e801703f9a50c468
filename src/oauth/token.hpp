#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "oauth/signing_key.hpp"

namespace cove::oauth {

// What a token must satisfy.
struct Demands {
  std::vector<std::string> issuers;  // `iss` must be one of them
  std::string audience;              // must be in `aud`: this server's canonical URL
  std::vector<std::string> scopes;   // all are required
};

// The holder of a token.
struct Holder {
  std::string issuer;
  std::string subject;
  bool has_scopes = false;
  std::chrono::system_clock::time_point expires;  // valid until then
};

class TokenCheck {
 public:
  TokenCheck(std::vector<SigningKey> keys, Demands demands);

  // Errc::denied with a sentence for the log. Claims are used only after the signature is verified.
  [[nodiscard]] Result<Holder> check(std::string_view token, std::chrono::system_clock::time_point now) const;
  [[nodiscard]] const Demands& demands() const { return demands_; }

 private:
  std::vector<SigningKey> keys_;
  Demands demands_;
};

}  // namespace cove::oauth
