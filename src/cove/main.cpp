#include <fcntl.h>
#include <signal.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "cove/client_options.hpp"
#include "cove/console.hpp"
#include "cove/doctor_command.hpp"
#include "cove/key_command.hpp"
#include "cove/mcp_command.hpp"
#include "cove/noxrc_command.hpp"
#include "cove/run_command.hpp"
#include "cove/run_report.hpp"
#include "cove/sandbox_run_command.hpp"
#include "cove/serve_command.hpp"

namespace {

// Someone may start us with 0, 1 or 2 closed; a descriptor of ours must never take such a number.
void open_standard_streams() {
  for (int fd = 0; fd <= 2; ++fd) {
    if (::fcntl(fd, F_GETFD) < 0) [[maybe_unused]]
      const int opened = ::open("/dev/null", fd == 0 ? O_RDONLY : O_WRONLY);
  }
}

// A command line that makes no sense, said in the form that was asked for.
int refuse(const std::string& message, bool as_json) {
  cove::cli::tell("{}", message);
  if (as_json) [[maybe_unused]]
    const auto put = cove::cli::put_line(cove::cli::json_of_trouble(125, message));
  return 125;
}

}  // namespace

int main(int argc, char** argv) {
  open_standard_streams();
  ::signal(SIGXFSZ, SIG_IGN);  // a file too large for the caller's limit is an error to tell, not a death
  if (const auto words = cove::cli::noxrc_words(argc, argv)) return cove::cli::noxrc_command(*words);
  if (auto words = cove::cli::sandbox_run_words(argc, argv)) return cove::cli::sandbox_run_command(std::move(*words));
  CLI::App app("Cove runs code nobody has read, at once, in a sandbox that cannot hurt the host or a neighbour.",
               "cove");
  app.require_subcommand(1);
  app.set_version_flag("--version", "cove " COVE_VERSION);

  auto* run = app.add_subcommand("run", "Run a program in a sandbox of its own, and leave nothing behind");
  cove::cli::RunArguments run_arguments;
  cove::cli::describe(*run, run_arguments);

  auto* doctor = app.add_subcommand("doctor", "Show what this host can enforce, what it cannot, and how to mend it");
  cove::cli::DoctorOptions doctor_options;
  doctor->add_flag("--json", doctor_options.json, "Print one JSON object instead of a table");
  doctor->add_option("--state-dir", doctor_options.state_dir, "Where Cove keeps what it builds once");

  auto* key = app.add_subcommand("key", "Make, list and revoke the API keys of a server");
  cove::cli::KeyArguments key_arguments;
  cove::cli::describe(*key, key_arguments);

  auto* serve = app.add_subcommand("serve", "Serve sandboxes over HTTP, until told to stop");
  cove::cli::ConfigFlags serve_flags;
  serve_flags.describe(*serve);

  auto* routes = app.add_subcommand("routes", "List every address the server answers");
  bool routes_json = false;
  routes->add_flag("--json", routes_json, "Print a JSON array instead of a table");

  auto client_commands = cove::cli::add_client_commands(app);
  cove::cli::add_mcp_command(app, client_commands);
  // Taken before anything is parsed: its words follow rules of their own.
  app.add_subcommand("noxrc", "The NoxRunner command line, as it is (cove noxrc --help)");
  app.add_subcommand("sandbox-run", "Call the handler of a Python script once (cove sandbox-run --help)");

  // What follows the first -- is never ours to read as options.
  const std::vector<std::string> all(argv + 1, argv + argc);
  const auto dashes = std::ranges::find(all, "--");
  std::vector<std::string> ours(all.begin(), dashes);
  const std::vector<std::string> after(dashes == all.end() ? dashes : dashes + 1, all.end());
  try {
    std::ranges::reverse(ours);  // CLI11 takes its words from the back
    app.parse(ours);
  } catch (const CLI::Success& shown) {  // --help, --version
    return app.exit(shown);
  } catch (const CLI::ParseError& error) {
    const bool as_json = std::ranges::find(all.begin(), dashes, "--json") != dashes;
    if (*key) {
      key_arguments.json = as_json;
      return cove::cli::refuse_key_command(key_arguments, fmt::format("{} (cove key --help shows how)", error.what()));
    }
    const auto meant = app.get_subcommands();  // the one whose words made no sense
    const auto help = meant.empty() ? std::string() : " " + meant.front()->get_name();
    return refuse(fmt::format("{} (cove{} --help shows how)", error.what(), help), as_json);
  }
  if (*key) return cove::cli::key_command(key_arguments);
  if (*serve) return cove::cli::serve_command(serve_flags);
  for (const auto& command : client_commands) {
    if (*command.app) return command.run(dashes == all.end() ? std::nullopt : std::optional(after));
  }
  if (*routes) return cove::cli::routes_command(routes_json);
  if (*run) {
    auto words = run->remaining();
    if (!words.empty() && words.front().size() > 1 && words.front().starts_with('-')) {
      return refuse(fmt::format("{}: there is no such option (cove run --help lists them; put -- before words that are "
                                "the program's own)",
                                words.front()),
                    run_arguments.json);
    }
    const bool is_command = words.empty() && run_arguments.code.empty() && dashes != all.end();
    // `cove run tool.py a -- b`: the program was named before the dashes, so they are its own.
    if (!words.empty() && dashes != all.end()) words.emplace_back("--");
    words.insert(words.end(), after.begin(), after.end());
    const auto options = cove::cli::checked(run_arguments, std::move(words), is_command);
    if (!options) return refuse(options.error().message, run_arguments.json);
    return cove::cli::run_command(*options);
  }
  return cove::cli::doctor_command(doctor_options);
}
