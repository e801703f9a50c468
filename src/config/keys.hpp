#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "config/config.hpp"

namespace cove::config {

// How a value is written, in the file and as text.
enum class Kind {
  text,
  address,   // 127.0.0.1:8000, [::1]:8000
  boolean,   // true, false
  choice,    // one of `choices`
  count,     // a whole number
  cores,     // 0.5, 2
  size,      // 512M, 1Gi, or a number of bytes
  duration,  // 500ms, 30s, 2m, or a number of seconds
  list,      // ["a", "b"]; as text a,b
  map,       // a table; as text a=b,c=d
};

// Whether SIGHUP can change it in a running server.
enum class Reload { live, restart };

// Which field of a Config a key fills.
using Field = std::variant<std::string& (*)(Config&), Endpoint& (*)(Config&), bool& (*)(Config&), OnExit& (*)(Config&),
                           ZygoteSharing& (*)(Config&), NetworkMode& (*)(Config&), LogLevel& (*)(Config&),
                           LogFormat& (*)(Config&), MetricsAccess& (*)(Config&), ReportedVersion& (*)(Config&),
                           WorkspaceStatuses& (*)(Config&), McpProfile& (*)(Config&), std::uint32_t& (*)(Config&),
                           std::uint64_t& (*)(Config&), std::chrono::milliseconds& (*)(Config&),
                           std::vector<std::string>& (*)(Config&), std::map<std::string, std::string>& (*)(Config&)>;

// Everything about one key, said once: parsing, `cove serve --help` and the sample file follow it.
struct Key {
  std::string_view name;  // the path in the file: "sandbox.memory"
  Kind kind;
  std::string_view fallback;  // the default, as text
  Reload reload;
  Field field;
  std::string_view help;                  // one sentence; none: for our own tests, and nobody is told
  std::uint64_t least = 0;                // of counts, thousandths of cores, bytes, milliseconds
  std::uint64_t most = 0;                 // 0: whatever fits
  std::vector<std::string_view> choices;  // in the order of the enum

  [[nodiscard]] std::string env() const;           // COVE_SANDBOX_MEMORY
  [[nodiscard]] std::string flag() const;          // --sandbox-memory
  [[nodiscard]] std::string_view section() const;  // "sandbox"; empty at the top
};

// A variable that other servers of these APIs are configured with, and the key it means here. COVE_… wins over it.
struct Alias {
  std::string_view variable;
  std::string_view key;
  std::string_view unit;  // what is put behind a bare number to make it the key's kind: "ms"
};
std::span<const Alias> aliases();

std::span<const Key> keys();
// nullptr when there is none.
const Key* find_key(std::string_view name);

}  // namespace cove::config
