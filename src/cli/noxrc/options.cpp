#include "cli/noxrc/options.hpp"

#include <algorithm>
#include <array>
#include <charconv>

namespace cove::cli::noxrc {
namespace {

enum class Kind { flag, text, number, repeated };
enum class Rest { none, files, command };

struct Option {
  std::string_view name;
  Kind kind;
  std::string_view usual;  // "" = none
  std::string_view what;
};

struct Command {
  std::string_view name;
  std::string_view what;
  bool session;
  Rest rest;
  std::vector<Option> options;
};

const std::vector<Option>& global_options() {
  static const std::vector<Option> options{
      {"--base-url", Kind::text, "", "server address (NOXRUNNER_BASE_URL, or http://127.0.0.1:8080)"},
      {"--local-test", Kind::flag, "", "use no server: run sandboxes in this process"},
      {"--timeout", Kind::number, "30", "timeout of requests in seconds (30)"},
      {"--verbose", Kind::flag, "", "show details of unexpected errors (NOXRUNNER_VERBOSE=1)"},
  };
  return options;
}

const std::vector<Command>& commands() {
  static const std::vector<Command> all{
      {"health", "check whether the server is healthy", false, Rest::none, {}},
      {"create",
       "create a sandbox, or reuse an existing one",
       true,
       Rest::none,
       {{"--ttl", Kind::number, "900", "time to live in seconds (900)"},
        {"--image", Kind::text, "", "image"},
        {"--cpu", Kind::text, "", "CPU limit, such as 500m or 1"},
        {"--mem", Kind::text, "", "memory limit, such as 512Mi"},
        {"--storage", Kind::text, "", "storage limit, such as 1Gi"},
        {"--wait", Kind::flag, "", "wait until the sandbox is ready"},
        {"--wait-timeout", Kind::number, "30", "seconds to wait (30)"}}},
      {"exec",
       "run a command; options come before SESSION",
       true,
       Rest::command,
       {{"--workdir", Kind::text, "/workspace", "working directory (/workspace)"},
        {"--env", Kind::repeated, "", "environment variable KEY=VALUE; repeatable"},
        {"--timeout-seconds", Kind::number, "30", "timeout in seconds (30)"},
        {"--ignore-exit-code", Kind::flag, "", "exit with 0 whatever the command returned"}}},
      {"upload",
       "upload files",
       true,
       Rest::files,
       {{"--dir", Kind::text, "", "upload the contents of this directory"},
        {"--dest", Kind::text, "/workspace", "destination directory (/workspace)"}}},
      {"download",
       "download files",
       true,
       Rest::none,
       {{"--src", Kind::text, "/workspace", "directory or file to download (/workspace)"},
        {"--output", Kind::text, "", "write the archive to this file"},
        {"--extract", Kind::text, ".", "unpack into this directory (.)"}}},
      {"touch", "extend the time to live of a sandbox", true, Rest::none, {}},
      {"delete", "delete a sandbox", true, Rest::none, {}},
      {"shell",
       "open an interactive shell",
       true,
       Rest::none,
       {{"--workdir", Kind::text, "/workspace", "first working directory (/workspace)"},
        {"--timeout-seconds", Kind::number, "30", "timeout of each command in seconds (30)"}}},
  };
  return all;
}

std::string usage(const Command* command) {
  if (command == nullptr)
    return "usage: noxrc [-h] [--base-url URL] [--local-test] [--timeout N] [--verbose] COMMAND ...\n";
  auto text = fmt::format("usage: noxrc {} [-h]", command->name);
  for (const auto& option : command->options) {
    const bool valued = option.kind != Kind::flag;
    text += fmt::format(" [{}{}]", option.name, valued ? option.kind == Kind::number ? " N" : " VALUE" : "");
  }
  if (command->session) text += " SESSION";
  if (command->rest == Rest::files) text += " [FILE ...]";
  if (command->rest == Rest::command) text += " CMD ...";
  return text + "\n";
}

std::string help(const Command* command) {
  auto text = usage(command);
  if (command == nullptr) {
    text += "\nCommands:\n";
    for (const auto& each : commands()) text += fmt::format("  {:10} {}\n", each.name, each.what);
  } else {
    text += fmt::format("\n{}\n", command->what);
  }
  text += "\nOptions:\n  -h, --help             show this help\n";
  for (const auto& option : command == nullptr ? global_options() : command->options)
    text += fmt::format("  {:22} {}\n", option.name, option.what);
  return text;
}

Printout wrong(const Command* command, const std::string& why) {
  const auto name = command == nullptr ? std::string("noxrc") : fmt::format("noxrc {}", command->name);
  return {.text = fmt::format("{}{}: error: {}\n", usage(command), name, why), .status = 2};
}

// Takes the options of one level off a list of words.
class Taker {
 public:
  Taker(const Words& words, Invocation& into) : words_(words), into_(into) {}

  [[nodiscard]] bool over() const { return at_ == words_.size(); }
  [[nodiscard]] const std::string& word() const { return words_[at_]; }
  std::string take() { return words_[at_++]; }
  Words take_rest() {
    return {words_.begin() + static_cast<std::ptrdiff_t>(std::exchange(at_, words_.size())), words_.end()};
  }
  // Digits after a dash are a value, not an option, as argparse has it.
  [[nodiscard]] bool at_option() const {
    const auto& text = word();
    return text.size() > 1 && text.starts_with('-') && !(std::isdigit(static_cast<unsigned char>(text[1])) != 0);
  }

  // None when the option was understood.
  std::optional<Printout> option(const std::vector<Option>& options, const Command* command) {
    const auto text = take();
    if (text == "-h" || text == "--help") return Printout{.text = help(command), .status = 0};
    const auto equals = text.find('=');
    const auto name = text.substr(0, equals);
    const Option* found = nullptr;
    for (const auto& each : options) {
      if (each.name == name) {
        found = &each;
        break;
      }
      if (!name.starts_with("--") || name.size() < 3 || !each.name.starts_with(name)) continue;
      if (found != nullptr)
        return wrong(command, fmt::format("ambiguous option: {} could match {}, {}", name, found->name, each.name));
      found = &each;
    }
    if (found == nullptr) {
      if (std::string_view("--help").starts_with(name) && name.size() > 2)
        return Printout{.text = help(command), .status = 0};
      return wrong(nullptr, fmt::format("unrecognized arguments: {}", text));
    }
    if (found->kind == Kind::flag) {
      if (equals != std::string::npos)
        return wrong(command,
                     fmt::format("argument {}: ignored explicit argument '{}'", found->name, text.substr(equals + 1)));
      into_.values[std::string(found->name)] = "1";
      return std::nullopt;
    }
    if (equals == std::string::npos && (over() || at_option() || word() == "--"))
      return wrong(command, fmt::format("argument {}: expected one argument", found->name));
    auto value = equals == std::string::npos ? take() : text.substr(equals + 1);
    if (found->kind == Kind::number) {
      int number = 0;
      const auto [end, failed] = std::from_chars(value.data(), value.data() + value.size(), number);
      if (failed != std::errc() || end != value.data() + value.size())
        return wrong(command, fmt::format("argument {}: invalid int value: '{}'", found->name, value));
    }
    if (found->kind == Kind::repeated)
      into_.environment.push_back(std::move(value));
    else
      into_.values[std::string(found->name)] = std::move(value);
    return std::nullopt;
  }

 private:
  const Words& words_;
  Invocation& into_;
  std::size_t at_ = 0;
};

void put_defaults(const std::vector<Option>& options, Invocation& invocation) {
  for (const auto& option : options) {
    if (!option.usual.empty()) invocation.values.emplace(option.name, option.usual);
  }
}

}  // namespace

std::string Invocation::value(const std::string& option) const {
  const auto found = values.find(option);
  return found == values.end() ? "" : found->second;
}

int Invocation::number(const std::string& option) const {
  const auto text = value(option);
  int number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

std::variant<Invocation, Printout> parse(const Words& words) {
  Invocation invocation;
  Taker taker(words, invocation);
  while (!taker.over() && taker.at_option() && taker.word() != "--") {
    if (auto printout = taker.option(global_options(), nullptr)) return *printout;
  }
  put_defaults(global_options(), invocation);
  if (invocation.has("--base-url")) invocation.base_url = invocation.value("--base-url");
  invocation.local = invocation.has("--local-test");
  invocation.verbose = invocation.has("--verbose");
  invocation.timeout = invocation.number("--timeout");
  invocation.values.clear();
  if (taker.over()) return Printout{.text = help(nullptr), .status = 1};

  const auto name = taker.take();
  const auto command = std::ranges::find(commands(), name, &Command::name);
  if (command == commands().end()) {
    std::string names;
    for (const auto& each : commands()) names += fmt::format("{}'{}'", names.empty() ? "" : ", ", each.name);
    return wrong(nullptr, fmt::format("argument command: invalid choice: '{}' (choose from {})", name, names));
  }
  invocation.command = name;
  bool session_known = false;
  bool only_words = false;  // after a --
  while (!taker.over()) {
    if (session_known && command->rest == Rest::command) {
      invocation.words = taker.take_rest();
      if (!invocation.words.empty() && invocation.words.front() == "--")
        invocation.words.erase(invocation.words.begin());
    } else if (!only_words && taker.word() == "--") {
      only_words = true;
      taker.take();
    } else if (!only_words && taker.at_option()) {
      if (auto printout = taker.option(command->options, &*command)) return *printout;
    } else if (command->session && !session_known) {
      session_known = true;
      invocation.session = taker.take();
    } else if (command->rest == Rest::files) {
      invocation.words.push_back(taker.take());
    } else {
      return wrong(nullptr, fmt::format("unrecognized arguments: {}", taker.take()));
    }
  }
  if (command->session && !session_known) return wrong(&*command, "the following arguments are required: session_id");
  put_defaults(command->options, invocation);
  return invocation;
}

}  // namespace cove::cli::noxrc
