#include "cli/help.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>

#include "base/nearest.hpp"

namespace cove::cli {
namespace {

struct Group {
  const char* title;
  std::vector<const char*> commands;
};

const std::vector<Group>& groups() {
  static const std::vector<Group> all{
      {"Run", {"run", "create", "exec", "shell", "cp", "rm"}},
      {"Sandboxes", {"ls", "inspect", "update", "touch", "pause", "resume"}},
      {"Inside a sandbox", {"kernel", "executions", "ps", "logs", "upload", "download", "install", "forward"}},
      {"Servers and keys", {"serve", "key", "template", "mcp", "doctor", "routes", "completion"}},
      {"Compatibility", {"noxrc", "sandbox-run"}},
  };
  return all;
}

// Commands in the order of the groups, not in that in which they were added.
class GroupedHelp : public CLI::Formatter {
 public:
  std::string make_subcommands(const CLI::App* app, CLI::AppFormatMode) const override {
    std::string out;
    std::vector<const CLI::App*> rest = app->get_subcommands([](const CLI::App*) { return true; });
    const auto put = [&](const char* title, const std::vector<const CLI::App*>& commands) {
      if (commands.empty()) return;
      out += fmt::format("\n{}:\n", title);
      for (const auto* command : commands) out += make_subcommand(command);
    };
    for (const auto& group : groups()) {
      std::vector<const CLI::App*> commands;
      for (const auto* name : group.commands) {
        const auto found = std::ranges::find(rest, std::string(name), [](const auto* one) { return one->get_name(); });
        if (found == rest.end()) continue;
        commands.push_back(*found);
        rest.erase(found);
      }
      put(group.title, commands);
    }
    put("More", rest);
    return out;
  }
};

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

std::string meant(const CLI::App& above, const std::string& word) {
  std::vector<std::string> known;
  for (const auto* command : above.get_subcommands([](const CLI::App*) { return true; }))
    known.push_back(command->get_name());
  for (const auto& synonym : kSynonyms) {
    if (synonym.word == word && std::ranges::find(known, std::string(synonym.ours)) != known.end())
      return std::string(synonym.ours);
  }
  return nearest(word, known);
}

struct Place {
  const CLI::App* command;
  std::string path;                 // "cove kernel"
  std::optional<std::string> word;  // the first that names no command below it
};

Place place_of(const CLI::App& app, const Words& words) {
  Place place{.command = &app, .path = app.get_name(), .word = {}};
  for (const auto& word : words) {
    const auto below = place.command->get_subcommands([](const CLI::App*) { return true; });
    if (below.empty()) return place;
    const auto found = std::ranges::find(below, word, [](const auto* one) { return one->get_name(); });
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

void group_commands(CLI::App& app) {
  app.formatter(std::make_shared<GroupedHelp>());
}

std::optional<std::string> unknown_command(const CLI::App& app, const Words& words) {
  const auto place = place_of(app, words);
  if (!place.word || place.word->starts_with('-')) return std::nullopt;
  // Words after a command that also does something by itself are its own to judge.
  if (place.command->get_require_subcommand_min() == 0) return std::nullopt;
  const auto suggested = meant(*place.command, *place.word);
  return fmt::format("there is no command '{} {}'{}", place.path, *place.word,
                     suggested.empty() ? "" : fmt::format("; did you mean {} {}?", place.path, suggested));
}

const CLI::App* command_without_verb(const CLI::App& app, const Words& words) {
  const auto place = place_of(app, words);
  return !place.word && place.command->get_require_subcommand_min() > 0 ? place.command : nullptr;
}

}  // namespace cove::cli
