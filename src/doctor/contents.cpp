#include "doctor/contents.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <string_view>

namespace cove::doctor {
namespace {

// `cove run -c` without --lang.
constexpr std::string_view kDefaultLanguage = "python";

void add_word(std::string& list, std::string_view word) {
  if (!list.empty()) list += ", ";
  list += word;
}

Check check_languages(const Host& host, const config::Languages& languages) {
  const auto can_run = [&host](const std::string& path) { return host.can_run(path); };
  std::string have;
  std::string lack;
  std::string default_package;
  for (const auto& language : languages.all()) {
    const bool there = config::installed(language, can_run);
    add_word(there ? have : lack, language.name);
    if (!there && language.name == kDefaultLanguage) default_package = language.package;
  }
  Check check{.id = "languages", .title = "languages", .found = have.empty() ? "none" : have};
  if (!lack.empty()) check.found += "; not installed: " + lack;
  // The others are a matter of taste, and `cove run` names the package when one is asked for.
  if (default_package.empty()) return check;
  check.status = Status::warn;
  check.consequence = fmt::format("cove run cannot run {}, its default language", kDefaultLanguage);
  check.fix = fmt::format("install the package {}", default_package);
  return check;
}

// Directories that are named by a number; what is being built has another name.
std::size_t built_templates(const Host& host) {
  std::error_code failed;
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(host.state.path + "/templates", failed)) {
    const auto name = entry.path().filename().string();
    count += name.find_first_not_of("0123456789") == std::string::npos ? 1 : 0;
  }
  return count;
}

}  // namespace

Checks contents(const Host& host, const config::Languages& languages) {
  Check root{
      .id = "template",
      .title = "template root",
      .status = Status::warn,
      .found = "host: sandboxes that name no template read this host's own /usr",
      .consequence =
          "sandboxes and host share the pages of its programs: a kernel bug that writes to the page cache "
          "reaches what root runs, and whoever is inside sees which packages the host has",
      .fix =
          "for tenants that may be hostile, use a template with a root of its own (cove template build), or one "
          "virtual machine for each tenant",
  };
  if (const auto built = built_templates(host); built > 0)
    root.found += fmt::format("; {} built template{} to choose from", built, built == 1 ? "" : "s");
  return {root, check_languages(host, languages)};
}

}  // namespace cove::doctor
