#include "mcp/call.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace cove::mcp {
namespace {

namespace json = boost::json;

constexpr std::array<std::string_view, 8> kLevels{"debug", "info",     "notice", "warning",
                                                  "error", "critical", "alert",  "emergency"};

}  // namespace

std::optional<Level> find_level(std::string_view name) {
  const auto found = std::ranges::find(kLevels, name);
  if (found == kLevels.end()) return std::nullopt;
  return static_cast<Level>(found - kLevels.begin());
}

std::string_view name_of(Level level) {
  return kLevels.at(static_cast<std::size_t>(level));
}

std::string level_names() {
  return fmt::format("{}", fmt::join(kLevels, ", "));
}

void Call::copy_identity_from(const Call& other) {
  revision = other.revision;
  bare = other.bare;
  tenant = other.tenant;
  key_id = other.key_id;
  client = other.client;
  connection = other.connection;
  id = other.id;
  method = other.method;
  params = other.params;
  capabilities = other.capabilities;
}

void Call::cancel() {
  cancelled_ = true;
  changed_.notify_all();
}

void Call::progress(std::string_view message) {
  if (!wants_progress() || cancelled_) return;
  json::object step{{"progressToken", token_}, {"progress", ++steps_}};
  if (has_annotations(revision)) step["message"] = message;
  tell(notification_message("notifications/progress", std::move(step)));
}

void Call::progress(std::uint64_t done, std::uint64_t total) {
  if (!wants_progress() || cancelled_) return;
  tell(notification_message("notifications/progress",
                            {{"progressToken", token_}, {"progress", done}, {"total", total}}));
}

void Call::log(Level level, std::string_view logger, json::value data) {
  if (!wants_log(level) || cancelled_) return;
  json::object line{{"level", name_of(level)}, {"logger", logger}, {"data", std::move(data)}};
  tell(notification_message("notifications/message", std::move(line)));
}

bool Call::can_ask(const Question& question) const {
  return asker_ && known_in(revision, question) && declared(capabilities, needed_for(question));
}

Task<Asked> Call::ask(std::vector<Question> questions) {
  json::object missing;
  for (const auto& question : questions) {
    if (can_ask(question)) continue;
    for (const auto& [name, value] : needed_for(question)) missing[name] = value;
  }
  if (!missing.empty()) {
    std::vector<std::string> names;
    for (const auto& [name, value] : missing) names.emplace_back(name);
    Or<> refused =
        fault(modern(revision) ? Code::missing_capability : Code::invalid_request,
              fmt::format("The client has not declared the required capabilities: {}", fmt::join(names, ", ")),
              json::object{{"requiredCapabilities", std::move(missing)}});
    co_return tl::unexpected<Or<>>(std::move(refused));
  }
  co_return co_await asker_->ask(*this, std::move(questions));
}

}  // namespace cove::mcp
