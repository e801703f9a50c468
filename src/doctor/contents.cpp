#include "doctor/contents.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace cove::doctor {
namespace {

// A command in /cove/bin is Cove's own and in every sandbox; these are the programs it calls.
struct OwnTool {
  std::string_view command;
  std::array<std::string_view, 2> needs;
};
constexpr OwnTool kTypeScript{.command = "/cove/bin/tsx", .needs = {"esbuild", "node"}};

// `cove run -c` without --lang.
constexpr std::string_view kDefaultLanguage = "python";

bool on_path(const Host& host, std::string_view program) {
  for (const std::string_view directory : {"usr/local/bin", "usr/bin", "bin"}) {
    if (host.can_run(fmt::format("{}/{}", directory, program))) return true;
  }
  return false;
}

bool installed(const Host& host, const config::Language& language) {
  const std::string_view command = language.command.front();
  if (command == kTypeScript.command) {
    return std::ranges::all_of(kTypeScript.needs, [&](std::string_view program) { return on_path(host, program); });
  }
  return command.starts_with('/') ? host.can_run(language.command.front().substr(1)) : on_path(host, command);
}

void add_word(std::string& list, std::string_view word) {
  if (!list.empty()) list += ", ";
  list += word;
}

Check check_languages(const Host& host, const config::Languages& languages) {
  std::string have;
  std::string lack;
  std::string default_package;
  for (const auto& language : languages.all()) {
    const bool there = installed(host, language);
    add_word(there ? have : lack, language.name);
    if (!there && language.name == kDefaultLanguage) default_package = language.package;
  }
  Check check{.id = "languages", .title = "languages", .found = have.empty() ? "none" : have};
  if (!lack.empty()) check.found += "; not installed: " + lack;
  // The others are a matter of taste, and `cove run` names the package when one is asked for.
  if (default_package.empty()) return check;
  check.status = Status::warn;
  check.consequence =
      fmt::format("{} is what cove run takes when no language is named, and it cannot be run", kDefaultLanguage);
  check.fix = fmt::format("install the package {}", default_package);
  return check;
}

}  // namespace

Checks contents(const Host& host, const config::Languages& languages) {
  const Check root{
      .id = "template",
      .title = "template root",
      .status = Status::warn,
      .found = "host: sandboxes read this host's own /usr",
      .consequence =
          "sandboxes and host share the pages of its programs: a kernel bug that writes to the page cache "
          "reaches what root runs, and whoever is inside sees which packages the host has",
      .fix = "for tenants that may be hostile, a template with a root of its own, or one virtual machine a tenant",
  };
  return {root, check_languages(host, languages)};
}

}  // namespace cove::doctor
