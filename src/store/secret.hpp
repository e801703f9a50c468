#pragma once

#include <string>
#include <string_view>

namespace cove::store {

inline constexpr std::string_view kKeyPrefix = "cove_";

// "cove_" and 43 characters of [A-Za-z0-9], 256 random bits: a secret, shown once and never stored.
std::string new_key();
// "key_" and 16 characters of [a-z2-7]: identifies a key without revealing it.
std::string new_key_id();
// The part of a key that may be shown, to recognise it by.
std::string shown_prefix(std::string_view key);

// 64 characters of [0-9a-f]. A key is random, so one round without salt is enough: there is no dictionary to try.
std::string sha256_hex(std::string_view bytes);

}  // namespace cove::store
