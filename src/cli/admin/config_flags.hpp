#pragma once

#include <map>
#include <string>

#include "cli/arguments.hpp"
#include "config/config.hpp"

namespace cove::cli {

// The flags of `cove serve`: --config, and one for each key of the configuration. Must outlive the parsing.
class ConfigFlags {
 public:
  void describe(App& command);

  // The rest of a LoadInput is for its caller to fill.
  [[nodiscard]] std::string file() const { return file_; }
  [[nodiscard]] config::Settings given() const;

 private:
  std::string file_;
  std::map<std::string, std::string> texts_;
  std::map<std::string, Option*> options_;
};

}  // namespace cove::cli
