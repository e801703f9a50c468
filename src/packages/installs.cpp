#include "packages/installs.hpp"

#include <algorithm>
#include <optional>

#include "base/clock.hpp"
#include "base/text.hpp"
#include "json/fields.hpp"
#include "packages/index_page.hpp"
#include "packages/pip_session.hpp"

namespace cove::packages {
namespace {

namespace json = boost::json;
using cove::json::text_of;

constexpr std::size_t kMaxPackages = 200;
constexpr std::size_t kMaxOutput = 64U << 10;  // of pip
constexpr std::size_t kMaxInstalled = 5000;

// What pip says it installed: untrusted, so it is shown to the caller and used for nothing else.
json::array installed_of(const json::object& done) {
  json::array out;
  const auto* list = done.if_contains("installed");
  if (list == nullptr || !list->is_array()) return out;
  for (const auto& entry : list->as_array()) {
    if (!entry.is_object() || out.size() >= kMaxInstalled) continue;
    const auto& one = entry.as_object();
    out.push_back(json::object{{"name", text_of(one, "name").substr(0, 200)},
                               {"version", text_of(one, "version").substr(0, 200)},
                               {"location", text_of(one, "location").substr(0, 500)}});
  }
  return out;
}

json::array shown(const std::vector<Package>& packages) {
  json::array out;
  for (const auto& package : packages) {
    json::object one{{"name", package.name}, {"version", nullptr}};
    if (!package.version.empty()) one["version"] = package.version;
    out.push_back(std::move(one));
  }
  return out;
}

// Earlier requests and new ones; of two for the same package the new one.
std::vector<Package> merged(const json::object& before, std::vector<Package> now) {
  std::vector<Package> all;
  const auto* list = before.if_contains("requested");
  if (list != nullptr && list->is_array()) {
    for (const auto& entry : list->as_array()) {
      if (entry.is_object()) all.push_back({text_of(entry.as_object(), "name"), text_of(entry.as_object(), "version")});
    }
  }
  for (auto& package : now) {
    const auto same = std::ranges::find_if(
        all, [&](const Package& other) { return project_name(other.name) == project_name(package.name); });
    if (same != all.end())
      *same = std::move(package);
    else
      all.push_back(std::move(package));
  }
  return all;
}

journal::Act act_of(const InstallRequest& request) {
  journal::Act act{.kind = journal::kind::kPackages, .summary = "install"};
  json::array packages;
  for (const auto& package : request.packages) {
    act.summary += " " + package.name + (package.version.empty() ? "" : " " + package.version);
    packages.push_back(json::object{{"name", package.name}, {"version", package.version}});
  }
  act.detail = {{"packages", packages}, {"index", request.index.text()}};
  act.repeat = {
      {"packages", std::move(packages)}, {"index", request.index.text()}, {"timeoutMs", request.timeout.count()}};
  return act;
}

}  // namespace

void Installs::write(const sandbox::Sandbox& sandbox, const json::object& status) {
  const auto written = registry_.store().sandboxes().set_dependencies(sandbox.row().id, json::serialize(status));
  if (!written && written.error().code != Errc::not_found)
    log_(fmt::format("dependencies not stored sandbox={} reason=\"{}\"", sandbox.row().id, written.error().message));
}

json::object Installs::status(const sandbox::Sandbox& sandbox) {
  if (const auto found = under_way_.find(sandbox.row().id); found != under_way_.end()) return found->second.status;
  boost::system::error_code failed;
  const auto text = registry_.store().sandboxes().dependencies(sandbox.row().id);
  auto kept = text && !text->empty() ? json::parse(*text, failed) : json::value();
  if (failed || !kept.is_object())
    return {{"status", "none"}, {"requested", json::array()}, {"installed", json::array()}};
  auto& object = kept.as_object();
  // It was under way when a previous server ended.
  if (object["status"] == "pending" || object["status"] == "installing") {
    object["status"] = "failed";
    object["error"] = "the server ended during the install";
  }
  return object;
}

Installs::Installs(boost::asio::any_io_executor executor, sandbox::Registry& registry, outbound::Client& client,
                   Options options, Log log)
    : registry_(registry), client_(client), log_(std::move(log)), queue_(std::move(executor), {}) {
  set_options(options);
}

void Installs::set_options(Options options) {
  options_ = options;
  queue_.set_options({.at_once = options.max_concurrent, .waiting = UINT32_MAX, .keeps_some_free = false});
}

Result<> Installs::begin(std::shared_ptr<sandbox::Sandbox> sandbox, InstallRequest request) {
  if (under_way_.contains(sandbox->row().id))
    return fail(Errc::conflict, "an install is under way in this sandbox: wait until it has ended");
  if (sandbox->state() == sandbox::State::paused) return fail(Errc::conflict, "the sandbox is paused: resume it first");
  const auto before = status(*sandbox);
  request.packages = merged(before, std::move(request.packages));
  if (request.packages.size() > kMaxPackages)
    return fail(Errc::over_limit, fmt::format("a sandbox may request at most {} packages", kMaxPackages));
  const auto* installed = before.if_contains("installed");
  json::object now{{"status", "pending"},
                   {"requested", shown(request.packages)},
                   {"index", request.index.text()},
                   {"installed", installed == nullptr ? json::value(json::array()) : *installed},
                   {"error", nullptr},
                   {"startedAt", iso_time(unix_millis())},
                   {"completedAt", nullptr}};
  write(*sandbox, now);
  auto entry = sandbox->begin_act(request.actor, act_of(request));
  under_way_.emplace(sandbox->row().id, UnderWay{.status = std::move(now), .process = {}, .entry = std::move(entry)});
  registry_.tasks().spawn("install packages", run(std::move(sandbox), std::move(request)));
  return {};
}

void Installs::cancel(const sandbox::Sandbox& sandbox) {
  const auto found = under_way_.find(sandbox.row().id);
  if (found == under_way_.end()) return;
  found->second.cancelled = true;
  if (found->second.process) found->second.process->stop(guest::Reason::cancelled);
}

async::Task<> Installs::run(std::shared_ptr<sandbox::Sandbox> sandbox, InstallRequest request) {
  const sandbox::Sandbox::Activity activity(sandbox);
  auto& under_way = under_way_.at(sandbox->row().id);
  auto& now = under_way.status;
  sandbox::ProcessRequest wanted{.kind = sandbox::ProcessKind::internal, .argv = {"python3"}};
  wanted.output_limit = kMaxOutput;
  wanted.delivery = sandbox::Delivery::everything;
  auto first = sandbox->first_message("install", wanted);
  json::array specs;
  for (const auto& package : request.packages) specs.emplace_back(requirement(package.name, package.version).value());
  first["packages"] = std::move(specs);
  std::string error;
  std::optional<json::object> done;
  const auto gone = [&under_way, sandbox] {
    return under_way.cancelled || sandbox->state() == sandbox::State::deleting ||
           sandbox->state() == sandbox::State::gone;
  };
  const auto slot =
      co_await queue_.enter(sandbox->tenant(), {.at_once = options_.tenant_concurrent}, gone, request.timeout);
  Result<std::shared_ptr<sandbox::Process>> started = fail(Errc::unavailable, "too many installs were under way");
  if (slot) started = co_await sandbox->start_python(std::move(wanted));
  if (!started) {
    error = started.error().message;
  } else {
    const auto process = *started;
    under_way.process = process;
    if (under_way.cancelled) process->stop(guest::Reason::cancelled);
    now["status"] = "installing";
    write(*sandbox, now);
    process->limit_time(request.timeout);
    if (auto sent = process->send(json::serialize(first)); !sent) error = sent.error().message;
    PipSession session(client_, request, sandbox->tenant(), process);
    co_await session.run();
    done = std::move(session.done);
    const auto& end = *process->end();
    const auto* code = done ? done->if_contains("exit_code") : nullptr;
    if (end.reason != guest::Reason::exited)
      error = fmt::format("the install ended by {}", name_of(end.reason));
    else if (code == nullptr || !code->is_int64())
      error = "pip ended without a result";
    else if (code->as_int64() != 0)
      error = session.refusal.empty() ? "pip failed" : session.refusal;
    if (!error.empty()) {
      now["output"] = replace_invalid_utf8(session.output);
    }
    sandbox->forget(process);
  }
  if (done && error.empty()) now["installed"] = installed_of(*done);
  now["status"] = error.empty() ? "completed" : "failed";
  if (!error.empty()) now["error"] = replace_invalid_utf8(error);
  now["completedAt"] = iso_time(unix_millis());
  write(*sandbox, now);
  if (const auto entry = under_way.entry) {
    journal::Outcome outcome{.word = error.empty() ? "ok" : "failed", .good = error.empty()};
    outcome.result = {{"installed", now.at("installed")}};
    if (!error.empty()) outcome.result["note"] = now.at("error");
    entry->end(std::move(outcome));
  }
  under_way_.erase(sandbox->row().id);
}

}  // namespace cove::packages
