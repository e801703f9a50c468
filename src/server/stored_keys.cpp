#include "server/stored_keys.hpp"

#include <fcntl.h>

#include "base/io.hpp"
#include "oauth/signing_key.hpp"

#include "store/store.hpp"

namespace cove::server {
namespace {

constexpr unsigned kTimeoutSeconds = 5;
// Exit statuses of the process that reads: apart from those of one that fails before it could.
constexpr int kFirstStatus = 10;

StoredKeys read_keys(const std::string& directory) {
  const auto store = store::Store::open(directory, store::OnBroken::refuse);
  if (!store) return StoredKeys::unreadable;
  const auto active = (*store)->keys().count();
  const auto all = (*store)->keys().list();
  if (!active || !all) return StoredKeys::unreadable;
  if (*active > 0) return StoredKeys::active;
  return all->empty() ? StoredKeys::none : StoredKeys::revoked;
}

int status_of(StoredKeys keys) {
  return kFirstStatus + static_cast<int>(keys);
}

}  // namespace

StoredKeys stored_keys(const FrontHome& home) {
  const auto status =
      home.inside(kTimeoutSeconds, [](const std::string& directory) { return status_of(read_keys(directory)); });
  for (const auto keys : {StoredKeys::none, StoredKeys::active, StoredKeys::revoked}) {
    if (status && *status == status_of(keys)) return keys;
  }
  return StoredKeys::unreadable;
}

Result<std::string> read_token_keys(const config::Config& config) {
  if (!config.oauth.configured()) return std::string();
  COVE_TRY(auto text, read_file_at(AT_FDCWD, config.oauth.keys_file));
  if (const auto keys = oauth::read_key_set(text); !keys)
    return fail(Errc::invalid, fmt::format("oauth.keys_file {}: {}", config.oauth.keys_file, keys.error().message));
  return text;
}

}  // namespace cove::server
