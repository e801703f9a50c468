#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace cove::cli {

using Words = std::vector<std::string>;

// A flag, an option with a value ("-l,--lang") or a word at its place ("id"). Its App owns it.
class Option {
 public:
  explicit Option(CLI::Option& option) : option_(option) {}

  Option* required();
  Option* group(const std::string& title);       // where the help shows it; "" leaves it out
  Option* type_name(const std::string& word);    // the kind of value, as the help names it
  Option* option_text(const std::string& text);  // all that the help shows between name and description
  Option* capture_default_str();                 // the help shows the variable's present value as the default
  Option* excludes(Option* other);

  // How many values it takes each time.
  Option* expected(int count);
  Option* expected(int least, int most);
  Option* allow_extra_args(bool allowed);
  // What is made of values that were given again, where the variable holds several, and where it holds one text.
  Option* take_all();
  Option* join(char delimiter);
  // A value is cut at each of these.
  Option* delimiter(char delimiter);

  Option* one_of(const Words& values);
  Option* between(int least, int most);

  // How often it was given.
  [[nodiscard]] std::size_t count() const;

 private:
  CLI::Option& option_;
};

// An option as a completion script must know it.
struct OptionSummary {
  std::string positional;  // the name of a word at its place; "" for the others
  Words names;             // "-q", "--quiet"
  std::string description;
  int most_values = 0;
};

struct CommandGroup {
  std::string title;
  Words commands;
};

// What became of the words: they call a command, or asked for the help or the version, which was printed.
enum class Parsed { call, shown };

// The program or one of its subcommands: what may stand on the command line, and what did. Variables that options fill
// must outlive the parsing.
//
// CLI11 does the work. Its code is in its headers, so arguments.cpp alone includes them: everybody else would compile
// it again.
class App {
 public:
  explicit App(const std::string& description = "", const std::string& name = "");
  App(const App&) = delete;
  App& operator=(const App&) = delete;
  ~App();

  App* add_subcommand(const std::string& name, const std::string& description);
  Option* add_option(const std::string& name, std::string& value, const std::string& description);
  Option* add_option(const std::string& name, Words& values, const std::string& description);
  Option* add_option(const std::string& name, int& value, const std::string& description);
  Option* add_option(const std::string& name, std::uint32_t& value, const std::string& description);
  Option* add_option(const std::string& name, std::uint64_t& value, const std::string& description);
  Option* add_flag(const std::string& name, bool& value, const std::string& description);
  Option* add_flag(const std::string& name, std::string& value, const std::string& description);  // --x is --x=true
  void set_version_flag(const std::string& name, const std::string& version);

  void require_subcommand(int count) { require_subcommand(count, count); }
  void require_subcommand(int least, int most);
  void prefix_command();  // from the first word that is no option on, all are left to remaining()
  void callback(std::function<void()> called);

  // The help: its first lines, its last ones, and the subcommands in groups; what is in none comes last.
  void usage(const std::string& text);
  void footer(const std::string& text);
  void group_subcommands(std::vector<CommandGroup> groups);

  // Errc::invalid says what is wrong with the words.
  Result<Parsed> parse(const Words& words);
  // The words called this command.
  [[nodiscard]] bool called() const;
  [[nodiscard]] Words remaining() const;
  [[nodiscard]] std::size_t count(const std::string& option) const;

  [[nodiscard]] std::string name() const;
  [[nodiscard]] std::string description() const;
  [[nodiscard]] std::string footer() const;
  // `above`: what stands before the name in the usage line.
  [[nodiscard]] std::string help(const std::string& above = "") const;
  [[nodiscard]] bool needs_subcommand() const;
  [[nodiscard]] const App* parent() const { return parent_; }
  [[nodiscard]] std::vector<const App*> subcommands() const;
  [[nodiscard]] std::vector<OptionSummary> options() const;

 private:
  App(CLI::App& app, const App& parent);
  Option* keep(CLI::Option* option);

  std::unique_ptr<CLI::App> program_;  // none for a subcommand, which is part of its program's
  CLI::App& app_;
  const App* parent_ = nullptr;
  std::vector<std::unique_ptr<App>> subcommands_;
  std::vector<std::unique_ptr<Option>> options_;
};

}  // namespace cove::cli
