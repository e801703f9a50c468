#include "cli/help.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/nearest.hpp"

namespace cove::cli {
namespace {

// What other programs call what we have under another name.
struct Synonym {
  std::string_view word;
  std::string_view ours;
};
constexpr auto kSynonyms = std::to_array<Synonym>({
    {"list", "ls"},
    {"ls", "list"},
    {"delete", "rm"},
    {"remove", "rm"},
    {"destroy", "rm"},
    {"del", "rm"},
    {"rm", "delete"},
    {"rm", "revoke"},
    {"delete", "revoke"},
    {"new", "create"},
    {"add", "create"},
    {"start", "serve"},
    {"server", "serve"},
    {"show", "inspect"},
    {"info", "inspect"},
    {"show", "get"},
    {"status", "get"},
    {"ssh", "shell"},
    {"bash", "shell"},
    {"sh", "shell"},
    {"copy", "cp"},
    {"unpause", "resume"},
    {"execute", "exec"},
    {"keys", "key"},
    {"kernels", "kernel"},
    {"templates", "template"},
    {"execution", "executions"},
    {"stop", "pause"},
    {"variables", "vars"},
});

std::string meant(const App& above, const std::string& word) {
  std::vector<std::string> known;
  for (const auto* command : above.subcommands()) known.push_back(command->name());
  for (const auto& synonym : kSynonyms) {
    if (synonym.word == word && std::ranges::find(known, std::string(synonym.ours)) != known.end())
      return std::string(synonym.ours);
  }
  return nearest(word, known);
}

struct Place {
  const App* command;
  std::string path;                 // "cove kernel"
  std::optional<std::string> word;  // the first that names no command below it
};

Place place_of(const App& app, const Words& words) {
  Place place{.command = &app, .path = app.name(), .word = {}};
  for (const auto& word : words) {
    const auto below = place.command->subcommands();
    if (below.empty()) return place;
    const auto found = std::ranges::find(below, word, [](const auto* one) { return one->name(); });
    if (found == below.end()) {
      place.word = word;
      return place;
    }
    place.command = *found;
    place.path += " " + word;
  }
  return place;
}

}  // namespace

void group_commands(App& app) {
  app.group_subcommands({
      {"Run", {"run", "create", "exec", "shell", "cp", "rm"}},
      {"Sandboxes", {"ls", "inspect", "update", "network", "tools", "journal", "replay", "touch", "pause", "resume"}},
      {"Inside a sandbox", {"kernel", "executions", "ps", "logs", "upload", "download", "install", "forward"}},
      {"Servers and keys", {"serve", "key", "template", "mcp", "doctor", "routes", "completion"}},
      {"Compatibility", {"up", "down", "noxrc", "sandbox-run"}},
  });
}

std::optional<std::string> unknown_command(const App& app, const Words& words) {
  const auto place = place_of(app, words);
  if (!place.word || place.word->starts_with('-')) return std::nullopt;
  const auto suggested = meant(*place.command, *place.word);
  return fmt::format("there is no command '{} {}'{}", place.path, *place.word,
                     suggested.empty() ? "" : fmt::format("; did you mean {} {}?", place.path, suggested));
}

const App* command_without_verb(const App& app, const Words& words) {
  const auto place = place_of(app, words);
  return !place.word && place.command->needs_subcommand() ? place.command : nullptr;
}

}  // namespace cove::cli
