#include "cli/admin/config_flags.hpp"

#include "base/text.hpp"
#include "config/keys.hpp"

namespace cove::cli {
namespace {

std::string group_of(const config::Key& key) {
  const auto section = key.section();
  if (section.empty()) return key.kind == config::Kind::map ? "Sandboxes" : "Server";
  if (section == "log") return "Logging";
  if (section == "http") return "HTTP";
  if (section == "sandbox") return "Sandboxes";
  if (section == "exec") return "Executions";
  if (section == "upload") return "Uploads";
  if (section == "execute") return "Code interpreter";
  if (section == "files") return "Kept files";
  return std::string(section);
}

std::string help_of(const config::Key& key) {
  std::string help(key.help);
  if (!key.fallback.empty()) help += fmt::format(" (default {})", key.fallback);
  return fmt::format("{} [{}]", help, key.env());
}

std::string word_of(config::Kind kind) {
  switch (kind) {
    case config::Kind::address:
      return "ADDRESS";
    case config::Kind::choice:
      return "WORD";
    case config::Kind::count:
    case config::Kind::cores:
      return "N";
    case config::Kind::size:
      return "SIZE";
    case config::Kind::duration:
      return "TIME";
    case config::Kind::list:
      return "A,B,…";
    case config::Kind::map:
      return "IMAGE=TEMPLATE,…";
    default:
      return "TEXT";
  }
}

void append(std::string& list, std::string_view item) {
  if (!list.empty()) list += ',';
  list += item;
}

// Of what --listen was given, addresses of sandboxes belong to `listeners`.
void split_listen(config::Settings& settings) {
  const auto given = settings.find("listen");
  if (given == settings.end()) return;
  std::string own;
  std::string_view rest = given->second;
  while (!rest.empty()) {
    const auto item = take_until(rest, ',');
    append(item.find("=sandbox:") == std::string_view::npos ? own : settings["listeners"], item);
  }
  if (own.empty())
    settings.erase("listen");
  else
    settings["listen"] = own;
}

}  // namespace

void ConfigFlags::describe(App& command) {
  command.add_option("--config", file_, "Configuration file (default /etc/cove/cove.toml, if it exists) [COVE_CONFIG]")
      ->group("Server")
      ->option_text("FILE");
  for (const auto& key : config::keys()) {
    const std::string name(key.name);
    auto& text = texts_[name];
    Option* option = nullptr;
    if (key.kind == config::Kind::boolean) {
      option = command.add_flag(key.flag(), text, help_of(key));  // --x is --x=true
    } else {
      option = command.add_option(key.flag(), text, help_of(key))->option_text(word_of(key.kind));
      // --listen may be repeated for listeners of sandboxes (given()).
      if (key.kind == config::Kind::list || key.kind == config::Kind::map || name == "listen")
        option->expected(1)->join(',');
    }
    option->group(key.help.empty() ? "" : group_of(key));  // "": not in the help
    options_[name] = option;
  }
  command.footer(
      "Flags override the environment variables in brackets, which override the file. SIGHUP reloads the file.\n"
      "Exit status: 0 success, 1 failure, 2 invalid configuration, 125 unknown option.");
}

config::Settings ConfigFlags::given() const {
  config::Settings out;
  for (const auto& [name, option] : options_) {
    if (option->count() > 0) out[name] = texts_.at(name);
  }
  split_listen(out);
  return out;
}

}  // namespace cove::cli
