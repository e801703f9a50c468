#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace cove::config {

// One entry of languages/languages.toml.
struct Language {
  std::string name;
  std::vector<std::string> aliases;
  std::vector<std::string> extensions;
  std::vector<std::string> command;
  std::vector<std::string> check;  // empty: nothing can check it
  std::string mime;
  std::string package;
};

// `command` or `check` with {file} filled in.
std::vector<std::string> command_line(const std::vector<std::string>& command, std::string_view file);

// Whether there is a program at a path, which is written without its leading slash.
using CanRun = std::function<bool(const std::string& path)>;
// Whether a root has what runs the language.
bool installed(const Language& language, const CanRun& can_run);

class Languages {
 public:
  static Result<Languages> parse(std::string_view toml);
  // Those built into the binary.
  static Result<Languages> built_in();

  // By name or alias, in capitals or not. Errc::not_found with the list of what there is.
  Result<Language> by_name(std::string_view name) const;
  // By the end of a file name. Errc::not_found likewise.
  Result<Language> by_file(std::string_view path) const;
  [[nodiscard]] std::span<const Language> all() const { return languages_; }

 private:
  [[nodiscard]] std::string names() const;
  std::vector<Language> languages_;  // by name
};

}  // namespace cove::config
