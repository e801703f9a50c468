#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "oauth/signing_key.hpp"

namespace cove::oauth {

// What a token must be.
struct Demands {
  std::vector<std::string> issuers;  // `iss` is one of them
  std::string audience;              // in `aud`: us, by our canonical address
  std::vector<std::string> scopes;   // all of them, to be of use
};

// Whose a token is.
struct Holder {
  std::string issuer;
  std::string subject;
  bool has_scopes = false;
  std::chrono::system_clock::time_point expires;  // until then it is believed
};

class TokenCheck {
 public:
  TokenCheck(std::vector<SigningKey> keys, Demands demands);

  // Errc::denied with a sentence for the log. What it says before its signature is checked is not believed.
  [[nodiscard]] Result<Holder> check(std::string_view token, std::chrono::system_clock::time_point now) const;
  [[nodiscard]] const Demands& demands() const { return demands_; }

 private:
  std::vector<SigningKey> keys_;
  Demands demands_;
};

}  // namespace cove::oauth
