#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "cli/admin/doctor_command.hpp"
#include "cli/admin/key_command.hpp"
#include "cli/admin/serve_command.hpp"
#include "cli/client/client_options.hpp"
#include "cli/command.hpp"
#include "cli/console.hpp"
#include "cli/help.hpp"
#include "cli/mcp/mcp_command.hpp"
#include "cli/noxrc/noxrc_command.hpp"
#include "cli/run/run_command.hpp"
#include "cli/run/sandbox_run_command.hpp"

namespace {

using namespace cove::cli;

constexpr auto kCommands = std::to_array<void (*)(App&, Commands&)>({
    add_run_command,
    add_doctor_command,
    add_key_command,
    add_serve_command,
    add_routes_command,
    add_client_commands,
    add_mcp_command,
});

// Programs whose words follow rules of their own: `cove NAME …`, or a link of that name.
struct Program {
  const char* name;
  const char* description;
  int (*run)(Words words);
};
constexpr auto kPrograms = std::to_array<Program>({
    {"noxrc", "The NoxRunner command line (cove noxrc --help)", noxrc_command},
    {"sandbox-run", "Call the handler of a Python script once (cove sandbox-run --help)", sandbox_run_command},
});

// Someone may start us with 0, 1 or 2 closed; a descriptor of ours must never take such a number.
void open_standard_streams() {
  for (int fd = 0; fd <= 2; ++fd) {
    if (::fcntl(fd, F_GETFD) < 0) [[maybe_unused]]
      const int opened = ::open("/dev/null", fd == 0 ? O_RDONLY : O_WRONLY);
  }
}

// `cove help kernel exec` is `cove kernel exec --help`; `cove version` is `cove --version`.
Words plain(Words words) {
  if (words.empty()) return words;
  if (words.front() == "help") {
    words.erase(words.begin());
    words.emplace_back("--help");
  } else if (words.front() == "version" && words.size() == 1) {
    words.front() = "--version";
  }
  return words;
}

int run_command_line(const Words& given) {
  const auto all = plain(given);
  App app("Cove runs untrusted code in sandboxes: on this machine (cove run) or on a server (cove serve).", "cove");
  app.require_subcommand(1);
  app.footer("cove help COMMAND shows the options of a command, with examples.");
  app.set_version_flag("--version", "cove " COVE_VERSION);
  Commands commands;
  for (const auto add : kCommands) add(app, commands);
  for (const auto& program : kPrograms) app.add_subcommand(program.name, program.description);
  group_commands(app);

  // What follows the first -- is never ours to read as options.
  const auto dashes = std::ranges::find(all, "--");
  const Words ours(all.begin(), dashes);
  const auto after = dashes == all.end() ? AfterDashes() : Words(dashes + 1, all.end());
  if (const auto* command = command_without_verb(app, ours); command != nullptr && !after) {
    return cove::write_all(STDOUT_FILENO, command->help(command == &app ? "" : "cove")) ? 0 : 125;
  }
  const auto called = [&] { return std::ranges::find_if(commands, [](const auto& one) { return one.app->called(); }); };
  const auto parsed = app.parse(ours);
  if (!parsed) {
    const auto known = app.subcommands();
    const auto named = std::ranges::find_if(known, [](const auto* one) { return one->called(); });
    const auto help = named == known.end() ? std::string() : " " + (*named)->name();
    const auto reason = unknown_command(app, ours).value_or(parsed.error().message);
    const auto message = fmt::format("{} (see cove{} --help)", reason, help);
    const bool as_json = std::ranges::find(all.begin(), dashes, "--json") != dashes;
    const auto command = called();
    return command != commands.end() && command->refuse ? command->refuse(message, as_json)
                                                        : refuse_usage(message, as_json);
  }
  if (*parsed == Parsed::shown) return 0;
  const auto command = called();
  return command == commands.end() ? 125 : command->run(after);
}

}  // namespace

int main(int argc, char** argv) {
  open_standard_streams();
  ::signal(SIGXFSZ, SIG_IGN);  // a file too large for the caller's limit is an error to report, not a death
  ::signal(SIGCHLD, SIG_DFL);  // if our caller ignored it, the kernel would reap our children before we can wait
  const Words all(argv, argv + argc);
  const bool helps = argc > 2 && all[1] == "help";
  for (const auto& program : kPrograms) {
    if (helps && all[2] == program.name) return program.run({"--help"});
    if (argc > 0 && std::filesystem::path(all[0]).filename() == program.name)
      return program.run(Words(all.begin() + 1, all.end()));
    if (argc > 1 && all[1] == program.name) return program.run(Words(all.begin() + 2, all.end()));
  }
  return run_command_line(argc > 0 ? Words(all.begin() + 1, all.end()) : Words());
}
