#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "http/auth.hpp"
#include "oauth/token.hpp"
#include "sandbox/authority.hpp"
#include "store/store.hpp"

namespace cove::server {

// The keys of the store, as the HTTP side asks for them. Another process may make or revoke one at any time: what is
// remembered here is forgotten whenever the store says that somebody wrote.
class KeyRing : public http::Authenticator, public sandbox::Authority {
 public:
  // An open server asks for keys from the moment there is one, and never stops: not when the last is revoked either.
  enum class Mode { open, keys };
  struct Options {
    Mode mode = Mode::keys;
    std::string own = {};                          // a key that opens as well, for the tenant of an open server
    std::optional<oauth::TokenCheck> tokens = {};  // tokens open as well, each for a tenant of its holder's
    std::function<void()> on_first_key = [] {};    // an open server has begun to ask
  };
  KeyRing(store::Store& store, Options options);

  std::optional<Principal> check(std::string_view key) override;
  bool open() override;
  bool still_valid(const Principal& principal) override;  // of both
  sandbox::Allowance allowance(const Principal& principal) override;
  bool operates(const Principal& principal) override;

 private:
  // False: the store cannot be read now.
  bool look_again();
  [[nodiscard]] store::KeyQuotas quotas(const Principal& principal);
  [[nodiscard]] std::optional<Principal> holder_of(std::string_view token) const;

  store::Store& store_;
  Options options_;
  std::string own_hash_;
  std::int64_t version_ = -1;
  std::map<std::string, store::KeyRow, std::less<>> by_hash_;
  std::map<std::string, store::KeyQuotas, std::less<>> by_id_;
  std::int64_t seen_version_ = -1;
  bool ever_keys_ = false;                           // as of that version: there is a key, or was one
  std::map<std::string, bool, std::less<>> active_;  // ids, as of that version: whether each operates
};

}  // namespace cove::server
