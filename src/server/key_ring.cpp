#include "server/key_ring.hpp"

#include "store/secret.hpp"

namespace cove::server {
namespace {

constexpr std::size_t kMostRemembered = 10'000;

}  // namespace

KeyRing::KeyRing(store::Store& store, Mode mode, std::string_view own)
    : store_(store), mode_(mode), own_hash_(own.empty() ? "" : store::sha256_hex(own)) {}

std::optional<http::Principal> KeyRing::check(std::string_view key) {
  const auto version = store_.data_version();
  if (!version || *version != version_ || by_hash_.size() > kMostRemembered) {
    by_hash_.clear();
    by_id_.clear();
    version_ = version.value_or(-1);
  }
  // The comparison is one of hashes: how long it takes tells nothing about a key.
  const auto hash = store::sha256_hex(key);
  if (hash == own_hash_) return http::Principal{};
  auto found = by_hash_.find(hash);
  if (found == by_hash_.end()) {
    const auto row = store_.keys().find_by_hash(hash);
    if (!row || !*row) return std::nullopt;
    found = by_hash_.emplace(hash, **row).first;
    by_id_[(*row)->id] = (*row)->quotas;
  }
  return http::Principal{.tenant = found->second.tenant, .key_id = found->second.id};
}

bool KeyRing::look_again() {
  const auto version = store_.data_version();
  if (version && *version == seen_version_) return true;
  const auto rows = store_.keys().list();
  if (!rows) return false;
  active_.clear();
  for (const auto& row : *rows) {
    if (!row.revoked_unix_ms) active_.emplace(row.id, row.operates);
  }
  seen_version_ = version.value_or(-1);
  return true;
}

bool KeyRing::still_valid(const http::Principal& principal) {
  if (principal.key_id.empty()) return true;
  if (!look_again()) return true;  // a store that cannot be read now revokes nothing
  return active_.contains(principal.key_id);
}

bool KeyRing::operates(const http::Principal& principal) {
  if (principal.key_id.empty()) return mode_ == Mode::open;
  if (!look_again()) return false;
  const auto found = active_.find(principal.key_id);
  return found != active_.end() && found->second;
}

store::KeyQuotas KeyRing::quotas(const http::Principal& principal) {
  if (principal.key_id.empty()) return {};
  if (const auto found = by_id_.find(principal.key_id); found != by_id_.end()) return found->second;
  // Forgotten since it was checked, because somebody wrote: it bounds its tenant all the same.
  const auto rows = store_.keys().list(principal.tenant);
  for (const auto& row : rows ? *rows : std::vector<store::KeyRow>()) {
    if (row.id == principal.key_id) return row.quotas;
  }
  return {.max_sandboxes = 1, .max_memory_bytes = 1, .executions_per_minute = 1, .concurrent_executions = 1};
}

}  // namespace cove::server
