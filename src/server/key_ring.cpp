#include "server/key_ring.hpp"

#include "store/secret.hpp"

namespace cove::server {
namespace {

constexpr std::size_t kMaxRemembered = 10'000;
constexpr std::size_t kHolderName = 40;
constexpr std::string_view kTokenPrefix = "token_";  // of what stands for a key, where there is none
constexpr std::string_view kOwnKey = "own";          // of whoever started the server for himself

bool shown_a_token(const Principal& principal) {
  return principal.key_id.starts_with(kTokenPrefix);
}

}  // namespace

KeyRing::KeyRing(store::Store& store, Options options)
    : store_(store),
      options_(std::move(options)),
      own_hash_(options_.own.empty() ? "" : store::sha256_hex(options_.own)) {}

bool KeyRing::open() {
  if (options_.mode == Mode::keys) return false;
  // A store that cannot be read now has no news.
  [[maybe_unused]] const bool read = refresh();
  if (!ever_keys_) return true;
  options_.mode = Mode::keys;
  options_.on_first_key();
  return false;
}

std::optional<Principal> KeyRing::holder_of(std::string_view token) const {
  const auto holder = options_.tokens->check(token, std::chrono::system_clock::now());
  if (!holder) return std::nullopt;
  const auto name = store::sha256_hex(holder->issuer + "\n" + holder->subject).substr(0, kHolderName);
  return Principal{.tenant = "oauth-" + name,
                   .key_id = std::string(kTokenPrefix) + name,
                   .in_scope = holder->has_scopes,
                   .expires = holder->expires};
}

std::optional<Principal> KeyRing::check(std::string_view key) {
  if (options_.tokens && !key.starts_with(store::kKeyPrefix)) return holder_of(key);
  const auto version = store_.data_version();
  if (!version || *version != version_ || by_hash_.size() > kMaxRemembered) {
    by_hash_.clear();
    by_id_.clear();
    version_ = version.value_or(-1);
  }
  // The comparison is one of hashes: how long it takes tells nothing about a key.
  const auto hash = store::sha256_hex(key);
  if (hash == own_hash_) return Principal{.key_id = std::string(kOwnKey)};
  auto found = by_hash_.find(hash);
  if (found == by_hash_.end()) {
    const auto row = store_.keys().find_by_hash(hash);
    if (!row || !*row) return std::nullopt;
    found = by_hash_.emplace(hash, **row).first;
    by_id_[(*row)->id] = (*row)->quotas;
  }
  return Principal{.tenant = found->second.tenant, .key_id = found->second.id};
}

bool KeyRing::refresh() {
  const auto version = store_.data_version();
  if (version && *version == seen_version_) return true;
  const auto rows = store_.keys().list();
  if (!rows) return false;
  active_.clear();
  ever_keys_ = !rows->empty();
  for (const auto& row : *rows) {
    if (!row.revoked_unix_ms) active_.emplace(row.id, row.operates);
  }
  seen_version_ = version.value_or(-1);
  return true;
}

bool KeyRing::still_valid(const Principal& principal) {
  if (principal.expires && std::chrono::system_clock::now() >= *principal.expires) return false;
  if (principal.key_id.empty()) return open();
  if (principal.key_id == kOwnKey || shown_a_token(principal)) return true;
  if (!refresh()) return true;  // a store that cannot be read now revokes nothing
  return active_.contains(principal.key_id);
}

bool KeyRing::operates(const Principal& principal) {
  if (principal.key_id.empty()) return open();
  if (!refresh()) return false;
  const auto found = active_.find(principal.key_id);
  return found != active_.end() && found->second;
}

sandbox::Allowance KeyRing::allowance(const Principal& principal) {
  const auto key = quotas(principal);
  return {.sandboxes = {.sandboxes = key.max_sandboxes, .memory_bytes = key.max_memory_bytes},
          .executions = {.at_once = key.concurrent_executions, .per_minute = key.executions_per_minute}};
}

store::KeyQuotas KeyRing::quotas(const Principal& principal) {
  if (principal.key_id.empty() || principal.key_id == kOwnKey || shown_a_token(principal)) return {};
  if (const auto found = by_id_.find(principal.key_id); found != by_id_.end()) return found->second;
  // Forgotten since it was checked, because somebody wrote: it bounds its tenant all the same.
  const auto rows = store_.keys().list(principal.tenant);
  for (const auto& row : rows ? *rows : std::vector<store::KeyRow>()) {
    if (row.id == principal.key_id) return row.quotas;
  }
  return {.max_sandboxes = 1, .max_memory_bytes = 1, .executions_per_minute = 1, .concurrent_executions = 1};
}

}  // namespace cove::server
