#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/keys.hpp"

namespace cove::config {

// Reads `text` as the key's kind and puts it into its field. Errc::invalid with the reason alone: who calls knows the
// key and where the text came from.
Result<> put(Config& config, const Key& key, std::string_view text);
Result<> put(Config& config, const Key& key, std::vector<std::string> items);
Result<> put(Config& config, const Key& key, std::map<std::string, std::string> entries);

// The field as people write it: "512M", "a,b".
std::string shown(const Config& config, const Key& key);
bool same(const Config& a, const Config& b, const Key& key);
void copy(const Config& from, Config& to, const Key& key);

Result<Endpoint> parse_endpoint(std::string_view text);
// "127.0.0.1:8888=sandbox:NAME"
Result<SandboxListener> parse_listener(std::string_view text);

}  // namespace cove::config
