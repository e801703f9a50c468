#pragma once

#include <boost/json.hpp>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace cove::tools::codegen {

// A tool, as its server describes it.
struct Tool {
  std::string name;
  std::string description{};
  boost::json::object input_schema{};
  std::optional<boost::json::object> output_schema{};
};

struct Server {
  std::string name;              // as the broker knows it
  boost::json::object params{};  // shown in the package; nothing in it is secret
};

struct Module {
  std::string name;  // of the module and its function
  std::string tool;  // as the server spells it
  std::string source;
};

// What a package is made of. `files` are named relative to its directory.
struct Package {
  struct File {
    std::string path;
    std::string text;
  };
  std::vector<Module> modules;  // in the order of the tools
  std::vector<File> files;      // theirs too

  [[nodiscard]] std::vector<std::string> names() const;
};

inline constexpr std::size_t kMaxPackage = std::size_t{8} << 20;  // bytes of its files
inline constexpr std::size_t kMaxModules = 2'000;

// One package for a server, one module for each of its tools. Names and descriptions of any kind are texts in it, and
// never code. Errc::over_limit: it would be too large.
Result<Package> generate(const Server& server, const std::vector<Tool>& tools);

// Server parameters as they may be shown to code in a sandbox: what may hold a secret is left out, unless it is nothing
// but ${NAME}.
boost::json::object shown_params(const boost::json::object& params);

}  // namespace cove::tools::codegen
