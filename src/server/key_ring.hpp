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

// Checks credentials against the keys of the store. Other processes may create or revoke keys at any time, so the cache
// is dropped whenever the database has changed.
class KeyRing : public http::Authenticator, public sandbox::Authority {
 public:
  // An open server requires keys from the moment that the first exists, even after the last was revoked.
  enum class Mode { open, keys };
  struct Options {
    Mode mode = Mode::keys;
    std::string own = {};                          // one more valid key, of the default tenant
    std::optional<oauth::TokenCheck> tokens = {};  // accepts tokens too, each for its holder's own tenant
    std::function<void()> on_first_key = [] {};    // an open server now requires keys
  };
  KeyRing(store::Store& store, Options options);

  std::optional<Principal> check(std::string_view key) override;
  bool open() override;
  bool still_valid(const Principal& principal) override;  // of both
  sandbox::Allowance allowance(const Principal& principal) override;
  bool operates(const Principal& principal) override;

 private:
  // False: the store cannot be read now.
  bool refresh();
  [[nodiscard]] store::KeyQuotas quotas(const Principal& principal);
  [[nodiscard]] std::optional<Principal> holder_of(std::string_view token) const;

  store::Store& store_;
  Options options_;
  std::string own_hash_;
  std::int64_t version_ = -1;
  std::map<std::string, store::KeyRow, std::less<>> by_hash_;
  std::map<std::string, store::KeyQuotas, std::less<>> by_id_;
  std::int64_t seen_version_ = -1;
  bool ever_keys_ = false;                           // as of that version: a key exists or existed
  std::map<std::string, bool, std::less<>> active_;  // ids, as of that version: whether each operates
};

}  // namespace cove::server
