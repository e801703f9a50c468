#pragma once

#include <map>
#include <optional>
#include <string>

#include "http/auth.hpp"
#include "oauth/token.hpp"
#include "store/store.hpp"

namespace cove::server {

// The keys of the store, as the HTTP side asks for them. Another process may revoke one at any time: what is remembered
// here is forgotten whenever the store says that somebody wrote.
class KeyRing : public http::Authenticator {
 public:
  // Who is asked for keys stays so until the server ends: without one no request is let in by accident.
  enum class Mode { open, keys };
  // `own` opens as well, for the tenant of an open server; and so do tokens, if there is something to check them by,
  // each for a tenant of its holder's.
  KeyRing(store::Store& store, Mode mode, std::string_view own = "", std::optional<oauth::TokenCheck> tokens = {});

  std::optional<http::Principal> check(std::string_view key) override;
  [[nodiscard]] bool open() const override { return mode_ == Mode::open; }
  // Whether who was let in once still would be: for what lasts.
  [[nodiscard]] bool still_valid(const http::Principal& principal);
  // Of the tenant's key; none when the server is open.
  [[nodiscard]] store::KeyQuotas quotas(const http::Principal& principal);
  // Whether it may do what concerns every tenant. Everybody may where nobody needs a key.
  [[nodiscard]] bool operates(const http::Principal& principal);

 private:
  // False: the store cannot be read now.
  bool look_again();
  [[nodiscard]] std::optional<http::Principal> holder_of(std::string_view token) const;

  store::Store& store_;
  Mode mode_;
  std::string own_hash_;
  std::optional<oauth::TokenCheck> tokens_;
  std::int64_t version_ = -1;
  std::map<std::string, store::KeyRow, std::less<>> by_hash_;
  std::map<std::string, store::KeyQuotas, std::less<>> by_id_;
  std::int64_t seen_version_ = -1;
  std::map<std::string, bool, std::less<>> active_;  // ids, as of that version: whether each operates
};

}  // namespace cove::server
