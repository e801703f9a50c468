#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "cove/doctor_command.hpp"
#include "cove/run_command.hpp"

int main(int argc, char** argv) {
  CLI::App app("Cove runs code nobody has read, at once, in a sandbox that cannot hurt the host or a neighbour.", "cove");
  app.require_subcommand(1);
  app.set_version_flag("--version", "cove " COVE_VERSION);

  auto* run = app.add_subcommand("run", "Run a program in a sandbox of its own, and leave nothing behind");
  cove::cli::RunArguments run_arguments;
  cove::cli::describe(*run, run_arguments);

  auto* doctor = app.add_subcommand("doctor", "Show what this host can enforce, what it cannot, and how to mend it");
  cove::cli::DoctorOptions doctor_options;
  doctor->add_flag("--json", doctor_options.json, "Print one JSON object instead of a table");
  doctor->add_option("--state-dir", doctor_options.state_dir, "Where Cove keeps what it builds once");

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
    app.exit(error);
    return 125;
  }
  if (*run) {
    auto words = run->remaining();
    const bool is_command = words.empty() && run_arguments.code.empty() && dashes != all.end();
    // `cove run tool.py a -- b`: the program was named before the dashes, so they are its own.
    if (!words.empty() && dashes != all.end()) words.emplace_back("--");
    words.insert(words.end(), after.begin(), after.end());
    const auto options = cove::cli::checked(run_arguments, std::move(words), is_command);
    if (!options) {
      fmt::print(stderr, "cove: {}\n", options.error().message);
      return 125;
    }
    return cove::cli::run_command(*options);
  }
  return cove::cli::doctor_command(doctor_options);
}
