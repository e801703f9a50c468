#pragma once

#include <map>
#include <optional>
#include <string>
#include <variant>

#include "cli/client/client_options.hpp"

namespace cove::cli::noxrc {

// Parses `noxrc …` by the rules of Python's argparse, which callers' scripts rely on.
struct Invocation {
  std::optional<std::string> base_url;
  bool local = false;
  bool verbose = false;
  int timeout = 30;
  std::string command;
  std::string session;
  Words words;                                // FILE…, or the command of exec
  std::map<std::string, std::string> values;  // "--ttl" to "900", defaults included; flags that were given to "1"
  Words environment;

  [[nodiscard]] std::string value(const std::string& option) const;
  [[nodiscard]] int number(const std::string& option) const;
  [[nodiscard]] bool has(const std::string& option) const { return values.contains(option); }
};

// Text to print instead of running: help (0, or 1 without a command), or a usage error (2).
struct Printout {
  std::string text;
  int status = 0;
};

std::variant<Invocation, Printout> parse(const Words& words);

}  // namespace cove::cli::noxrc
