#include "config/languages.hpp"

#include <algorithm>
#include <cctype>

#include "config/toml.hpp"

extern "C" {
extern const char cove_languages_toml[];
extern const char cove_languages_toml_end[];
}

namespace cove::config {
namespace {

Result<std::vector<std::string>> texts(const toml::table& table, std::string_view language, std::string_view key) {
  std::vector<std::string> out;
  const auto* array = table[key].as_array();
  if (array == nullptr) return out;
  for (const auto& item : *array) {
    const auto text = item.value<std::string>();
    if (!text) return fail(Errc::invalid, fmt::format("languages: {}.{} must be a list of strings", language, key));
    out.push_back(*text);
  }
  return out;
}

Result<std::string> text(const toml::table& table, std::string_view language, std::string_view key) {
  const auto value = table[key].value<std::string>();
  if (!value) return fail(Errc::invalid, fmt::format("languages: {}.{} is missing", language, key));
  return *value;
}

// A command in /cove/bin is Cove's own and in every sandbox; these are the programs it calls.
struct OwnTool {
  std::string_view command;
  std::array<std::string_view, 2> needs;
};
constexpr auto kOwnTools = std::to_array<OwnTool>({{.command = "/cove/bin/javarun", .needs = {"java", "javac"}},
                                                   {.command = "/cove/bin/phprun", .needs = {"php", "grep"}},
                                                   {.command = "/cove/bin/tsx", .needs = {"esbuild", "node"}}});

bool on_path(std::string_view program, const CanRun& can_run) {
  for (const std::string_view directory : {"usr/local/bin", "usr/bin", "bin"}) {
    if (can_run(fmt::format("{}/{}", directory, program))) return true;
  }
  return false;
}

}  // namespace

bool installed(const Language& language, const CanRun& can_run) {
  const std::string_view command = language.command.front();
  for (const auto& tool : kOwnTools) {
    if (command != tool.command) continue;
    return std::ranges::all_of(tool.needs, [&](std::string_view program) { return on_path(program, can_run); });
  }
  return command.starts_with('/') ? can_run(language.command.front().substr(1)) : on_path(command, can_run);
}

std::vector<std::string> command_line(const std::vector<std::string>& command, std::string_view file) {
  std::vector<std::string> out = command;
  for (auto& word : out) {
    if (word == "{file}") word = file;
  }
  return out;
}

Result<Languages> Languages::parse(std::string_view toml) {
  const auto parsed = toml::parse(toml);
  if (!parsed)
    return fail(Errc::invalid, fmt::format("languages: line {}: {}", parsed.error().source().begin.line,
                                           parsed.error().description()));
  Languages languages;
  for (const auto& [key, node] : parsed.table()) {
    const auto name = std::string(key.str());
    const auto* table = node.as_table();
    if (table == nullptr) return fail(Errc::invalid, fmt::format("languages: {} must be a table", name));
    Language language{.name = name};
    COVE_TRY(language.aliases, texts(*table, name, "aliases"));
    COVE_TRY(language.extensions, texts(*table, name, "extensions"));
    COVE_TRY(language.command, texts(*table, name, "command"));
    COVE_TRY(language.check, texts(*table, name, "check"));
    COVE_TRY(language.mime, text(*table, name, "mime"));
    COVE_TRY(language.package, text(*table, name, "package"));
    if (language.extensions.empty())
      return fail(Errc::invalid, fmt::format("languages: {}.extensions is missing", name));
    if (std::ranges::count(language.command, "{file}") != 1)
      return fail(Errc::invalid, fmt::format("languages: {}.command must name {{file}} once", name));
    languages.languages_.push_back(std::move(language));
  }
  return languages;
}

Result<Languages> Languages::built_in() {
  return parse({cove_languages_toml, static_cast<std::size_t>(cove_languages_toml_end - cove_languages_toml)});
}

std::string Languages::names() const {
  std::string out;
  for (const auto& language : languages_) out += (out.empty() ? "" : ", ") + language.name;
  return out;
}

Result<Language> Languages::by_name(std::string_view name) const {
  const auto same = [](std::string_view a, std::string_view b) {
    return std::ranges::equal(a, b,
                              [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
  };
  const auto found = std::ranges::find_if(languages_, [&](const Language& language) {
    return same(language.name, name) ||
           std::ranges::any_of(language.aliases, [&](const auto& alias) { return same(alias, name); });
  });
  if (found == languages_.end())
    return fail(Errc::not_found, fmt::format("unknown language '{}'; there are {}", name, names()));
  return *found;
}

Result<Language> Languages::by_file(std::string_view path) const {
  for (const auto& language : languages_) {
    for (const auto& extension : language.extensions) {
      if (path.size() > extension.size() && path.ends_with(extension)) return language;
    }
  }
  return fail(Errc::not_found,
              fmt::format("cannot tell the language of '{}' from its name; add --lang with one of {}", path, names()));
}

}  // namespace cove::config
