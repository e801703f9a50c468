#include "cli/arguments.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <utility>

namespace cove::cli {
namespace {

class UsageFormatter : public CLI::Formatter {
 public:
  explicit UsageFormatter(std::string text) : text_(std::move(text)) {}
  std::string make_usage(const CLI::App*, std::string) const override { return text_; }

 private:
  std::string text_;
};

// Commands in the order of the groups, not in that in which they were added.
class GroupedFormatter : public CLI::Formatter {
 public:
  explicit GroupedFormatter(std::vector<CommandGroup> groups) : groups_(std::move(groups)) {}

  std::string make_subcommands(const CLI::App* app, CLI::AppFormatMode) const override {
    std::string out;
    std::vector<const CLI::App*> rest = app->get_subcommands([](const CLI::App*) { return true; });
    const auto put = [&](const std::string& title, const std::vector<const CLI::App*>& commands) {
      if (commands.empty()) return;
      out += fmt::format("\n{}:\n", title);
      for (const auto* command : commands) out += make_subcommand(command);
    };
    for (const auto& group : groups_) {
      std::vector<const CLI::App*> commands;
      for (const auto& name : group.commands) {
        const auto found = std::ranges::find(rest, name, [](const auto* one) { return one->get_name(); });
        if (found == rest.end()) continue;
        commands.push_back(*found);
        rest.erase(found);
      }
      put(group.title, commands);
    }
    put("More", rest);
    return out;
  }

 private:
  std::vector<CommandGroup> groups_;
};

}  // namespace

Option* Option::required() {
  option_.required();
  return this;
}

Option* Option::group(const std::string& title) {
  option_.group(title);
  return this;
}

Option* Option::type_name(const std::string& word) {
  option_.type_name(word);
  return this;
}

Option* Option::option_text(const std::string& text) {
  option_.option_text(text);
  return this;
}

Option* Option::capture_default_str() {
  option_.capture_default_str();
  return this;
}

Option* Option::excludes(Option* other) {
  option_.excludes(&other->option_);
  return this;
}

Option* Option::expected(int count) {
  option_.expected(count);
  return this;
}

Option* Option::expected(int least, int most) {
  option_.expected(least, most);
  return this;
}

Option* Option::allow_extra_args(bool allowed) {
  option_.allow_extra_args(allowed);
  return this;
}

Option* Option::take_all() {
  option_.take_all();
  return this;
}

Option* Option::join(char delimiter) {
  option_.join(delimiter);
  return this;
}

Option* Option::delimiter(char delimiter) {
  option_.delimiter(delimiter);
  return this;
}

Option* Option::one_of(const Words& values) {
  option_.check(CLI::IsMember(values));
  return this;
}

Option* Option::between(int least, int most) {
  option_.check(CLI::Range(least, most));
  return this;
}

std::size_t Option::count() const {
  return option_.count();
}

App::App(const std::string& description, const std::string& name)
    : program_(std::make_unique<CLI::App>(description, name)), app_(*program_) {}

App::App(CLI::App& app, const App& parent) : app_(app), parent_(&parent) {}

App::~App() = default;

Option* App::keep(CLI::Option* option) {
  return options_.emplace_back(std::make_unique<Option>(*option)).get();
}

App* App::add_subcommand(const std::string& name, const std::string& description) {
  auto& command = *app_.add_subcommand(name, description);
  return subcommands_.emplace_back(std::unique_ptr<App>(new App(command, *this))).get();
}

Option* App::add_option(const std::string& name, std::string& value, const std::string& description) {
  return keep(app_.add_option(name, value, description));
}

Option* App::add_option(const std::string& name, Words& values, const std::string& description) {
  return keep(app_.add_option(name, values, description));
}

Option* App::add_option(const std::string& name, int& value, const std::string& description) {
  return keep(app_.add_option(name, value, description));
}

Option* App::add_option(const std::string& name, std::uint32_t& value, const std::string& description) {
  return keep(app_.add_option(name, value, description));
}

Option* App::add_option(const std::string& name, std::uint64_t& value, const std::string& description) {
  return keep(app_.add_option(name, value, description));
}

Option* App::add_flag(const std::string& name, bool& value, const std::string& description) {
  return keep(app_.add_flag(name, value, description));
}

Option* App::add_flag(const std::string& name, std::string& value, const std::string& description) {
  return keep(app_.add_flag(name, value, description));
}

void App::set_version_flag(const std::string& name, const std::string& version) {
  app_.set_version_flag(name, version);
}

void App::require_subcommand(int least, int most) {
  app_.require_subcommand(static_cast<std::size_t>(least), static_cast<std::size_t>(most));
}

void App::prefix_command() {
  app_.prefix_command();
}

void App::callback(std::function<void()> called) {
  app_.callback(std::move(called));
}

void App::usage(const std::string& text) {
  app_.formatter(std::make_shared<UsageFormatter>(text));
}

void App::footer(const std::string& text) {
  app_.footer(text);
}

void App::group_subcommands(std::vector<CommandGroup> groups) {
  app_.formatter(std::make_shared<GroupedFormatter>(std::move(groups)));
}

Result<Parsed> App::parse(const Words& words) {
  try {
    // CLI11 takes its words from the back.
    app_.parse(Words(words.rbegin(), words.rend()));
  } catch (const CLI::Success& shown) {
    app_.exit(shown);
    return Parsed::shown;
  } catch (const CLI::ParseError& error) {
    return fail(Errc::invalid, error.what());
  }
  return Parsed::call;
}

bool App::called() const {
  return app_.parsed();
}

Words App::remaining() const {
  return app_.remaining();
}

std::size_t App::count(const std::string& option) const {
  return app_.count(option);
}

std::string App::name() const {
  return app_.get_name();
}

std::string App::description() const {
  return app_.get_description();
}

std::string App::footer() const {
  return app_.get_footer();
}

std::string App::help(const std::string& above) const {
  return app_.help(above);
}

bool App::needs_subcommand() const {
  return app_.get_require_subcommand_min() > 0;
}

std::vector<const App*> App::subcommands() const {
  std::vector<const App*> all;
  for (const auto& command : subcommands_) all.push_back(command.get());
  return all;
}

std::vector<OptionSummary> App::options() const {
  std::vector<OptionSummary> all;
  for (const auto* option : std::as_const(app_).get_options({})) {
    auto& one = all.emplace_back();
    if (option->get_positional()) one.positional = option->get_name(true);
    for (const auto& name : option->get_snames()) one.names.push_back("-" + name);
    for (const auto& name : option->get_lnames()) one.names.push_back("--" + name);
    one.description = option->get_description();
    one.most_values = option->get_items_expected_max();
  }
  return all;
}

}  // namespace cove::cli
