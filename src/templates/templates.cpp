#include "templates/templates.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <charconv>
#include <cstring>

#include "async/readiness.hpp"
#include "base/clock.hpp"
#include "base/random.hpp"
#include "base/text.hpp"

namespace cove::templates {
namespace {

namespace json = boost::json;

constexpr std::size_t kMaxLog = 512U << 10;
constexpr std::size_t kMaxAnswer = 1U << 20;
constexpr std::size_t kMaxReason = 500;
constexpr std::chrono::seconds kSettling{30};

std::vector<std::string> texts_of(const std::string& array_json) {
  std::vector<std::string> texts;
  boost::system::error_code failed;
  const auto parsed = json::parse(array_json, failed);
  if (failed || !parsed.is_array()) return texts;
  for (const auto& text : parsed.as_array()) {
    if (text.is_string()) texts.emplace_back(text.as_string());
  }
  return texts;
}

std::string json_of(const std::vector<std::string>& texts) {
  json::array array;
  for (const auto& text : texts) array.emplace_back(text);
  return json::serialize(array);
}

// Variables of `over` win.
std::string merged(const std::string& under_json, const std::string& over_json) {
  boost::system::error_code failed;
  auto variables = json::parse(under_json, failed);
  const auto over = json::parse(over_json, failed);
  if (failed || !variables.is_object() || !over.is_object()) return over_json;
  for (const auto& [name, value] : over.as_object()) variables.as_object()[name] = value;
  return json::serialize(variables);
}

template <typename Number>
void fill(Number& value, Number usual) {
  if (value == 0) value = usual;
}

template <std::size_t N>
Result<> set_lines(char (&field)[N], const std::vector<std::string>& lines, std::string_view what) {
  std::size_t at = 0;
  for (const auto& line : lines) {
    if (at + line.size() + 1 >= N) return fail(Errc::invalid, fmt::format("too many {}", what));
    std::memcpy(field + at, line.data(), line.size());
    at += line.size();
    field[at++] = '\n';
  }
  return {};
}

struct Pipe {
  UniqueFd read;
  UniqueFd write;
};

Result<Pipe> make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return fail_errno(errno, "pipe");
  Pipe pipe{.read = UniqueFd(ends[0]), .write = UniqueFd(ends[1])};
  if (::fcntl(pipe.read.get(), F_SETFL, O_NONBLOCK) != 0) return fail_errno(errno, "fcntl");
  return pipe;
}

// Everything that comes until the end, or until it is given up.
async::Task<> read_to_end(std::shared_ptr<async::Readiness> readiness, int fd,
                          std::function<void(std::string_view)> take) {
  std::array<char, 16384> buffer;
  while (co_await readiness->readable()) {
    const auto n = ::read(fd, buffer.data(), buffer.size());
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) break;
    if (n > 0) take(std::string_view(buffer.data(), static_cast<std::size_t>(n)));
  }
  readiness->give_up();
}

// What apt or dpkg said first, if it said anything: the rest of a log follows from it.
std::string explained(std::string reason, std::string_view log) {
  for (std::string_view rest = log; !rest.empty();) {
    const auto line = take_until(rest, '\n');
    if (line.starts_with("E: ")) return fmt::format("{}: {}", reason, line.substr(3, kMaxReason));
  }
  return reason;
}

}  // namespace

Templates::Templates(boost::asio::any_io_executor executor, async::TaskGroup& tasks, store::Store& store,
                     store::TemplateRow host, Ask ask)
    : executor_(executor),
      tasks_(tasks),
      store_(store),
      host_(std::move(host)),
      ask_(std::move(ask)),
      changed_(executor) {}

Result<> Templates::load() {
  COVE_TRY(auto rows, store_.templates().all());
  for (auto& row : rows) {
    if (row.status == "building") {
      row.status = "failed";
      row.reason = "the server ended during the build";
      COVE_CHECK(store_.templates().put(row));
    }
    // One that was being deleted goes with the sweep.
    if (row.status == "deleting") {
      COVE_CHECK(store_.templates().erase(row.name));
      continue;
    }
    auto name = row.name;
    rows_.emplace(std::move(name), std::move(row));
  }
  return {};
}

async::Task<Result<>> Templates::sweep() {
  wire::SupervisorRequest request{.verb = wire::SupervisorVerb::sweep_templates};
  for (const auto& [name, row] : rows_) {
    if (row.status == "ready" && request.count < wire::kMaxTemplates) request.numbers[request.count++] = row.number;
  }
  auto swept = co_await ask_and_wait(request);
  swept_ = true;
  changed_.notify_all();
  co_return swept;
}

async::Task<Result<>> Templates::settle() {
  const auto until = std::chrono::steady_clock::now() + kSettling;
  while (!swept_ && co_await changed_.wait_until(until)) {
  }
  if (!swept_) co_return fail(Errc::unavailable, "templates that were left behind are still being removed");
  co_return Result<>();
}

const store::TemplateRow* Templates::find(std::string_view name) const {
  if (name == kHostTemplate) return &host_;
  const auto found = rows_.find(name);
  return found == rows_.end() ? nullptr : &found->second;
}

Result<const store::TemplateRow*> Templates::usable(std::string_view name) const {
  const auto* row = find(name);
  if (row == nullptr || row->status == "deleting")
    return fail(Errc::not_found, fmt::format("template not found: {}", name));
  if (row->status == "building") return fail(Errc::conflict, fmt::format("template {} is still being built", name));
  if (row->status != "ready")
    return fail(Errc::conflict, fmt::format("template {} could not be built: {}", name, row->reason));
  return row;
}

std::vector<const store::TemplateRow*> Templates::all() const {
  std::vector<const store::TemplateRow*> out{&host_};
  for (const auto& [name, row] : rows_) out.push_back(&row);
  return out;
}

std::string Templates::log(std::string_view name) const {
  if (const auto going = building_.find(name); going != building_.end()) return going->second->log;
  const auto* row = find(name);
  return row == nullptr ? std::string() : row->log;
}

Result<> Templates::put(const store::TemplateRow& row) {
  COVE_CHECK(store_.templates().put(row));
  rows_.insert_or_assign(row.name, row);
  changed_.notify_all();
  return {};
}

Result<store::TemplateRow> Templates::build(BuildRequest request) {
  if (request.name == kHostTemplate) return fail(Errc::exists, "the host template is always there");
  const auto* before = find(request.name);
  if (before != nullptr && before->status != "failed")
    return fail(Errc::exists, fmt::format("a template of this name exists: {}", request.name));
  if (!building_.empty())
    return fail(Errc::conflict,
                fmt::format("template {} is being built: wait for it, since only one build runs at a time",
                            building_.begin()->first));
  if (before == nullptr && rows_.size() >= wire::kMaxTemplates)
    return fail(Errc::quota,
                fmt::format("the limit of {} templates is reached: delete one first", wire::kMaxTemplates));
  COVE_TRY(const auto* const base, usable(request.base));

  auto packages = texts_of(base->packages_json);
  for (auto& name : request.packages) packages.push_back(std::move(name));
  std::ranges::sort(packages);
  const auto repeated = std::ranges::unique(packages);
  packages.erase(repeated.begin(), repeated.end());
  auto& defaults = request.defaults;
  fill(defaults.memory_bytes, base->defaults.memory_bytes);
  fill(defaults.disk_bytes, base->defaults.disk_bytes);
  fill(defaults.pids, base->defaults.pids);
  fill(defaults.cpu_millis, base->defaults.cpu_millis);
  fill(defaults.timeout_ms, base->defaults.timeout_ms);
  defaults.env_json = merged(base->defaults.env_json, defaults.env_json);
  if (request.preload.empty()) request.preload = texts_of(base->preload_json);

  store::TemplateRow row{.name = request.name,
                         .number = random_number<std::uint32_t>() | 1U,  // not the host's; never one of before
                         .created_unix_ms = unix_millis(),
                         .base = request.base,
                         .packages_json = json_of(packages),
                         .preload_json = json_of(request.preload),
                         .defaults = defaults};
  wire::SupervisorRequest order{.verb = wire::SupervisorVerb::build_template,
                                .number = row.number,
                                .timeout_seconds = static_cast<std::uint32_t>(request.timeout.count()),
                                .max_bytes = request.max_bytes};
  COVE_CHECK(set_lines(order.packages, packages, "packages"));
  COVE_CHECK(set_lines(order.preload, request.preload, "modules to preload"));
  COVE_TRY(auto answer, make_pipe());
  COVE_TRY(auto log, make_pipe());
  COVE_CHECK(put(row));
  std::vector<UniqueFd> fds;
  fds.push_back(std::move(answer.write));
  fds.push_back(std::move(log.write));
  building_.emplace(row.name, std::make_shared<Building>());
  if (auto asked = ask_(order, std::move(fds)); !asked) {
    building_.erase(row.name);
    row.status = "failed";
    row.reason = asked.error().message;
    COVE_CHECK(put(row));
    return tl::unexpected<Error>(asked.error());
  }
  tasks_.spawn("follow a build", follow(row.name, std::move(answer.read), std::move(log.read)));
  return row;
}

async::Task<> Templates::follow_log(std::shared_ptr<Building> building, UniqueFd log) {
  const auto readiness = std::make_shared<async::Readiness>(executor_, log.get());
  co_await read_to_end(readiness, log.get(), [this, building](std::string_view bytes) {
    const bool first_too_many = building->log.size() < kMaxLog && building->log.size() + bytes.size() >= kMaxLog;
    building->log += bytes.substr(0, kMaxLog - std::min(kMaxLog, building->log.size()));
    if (first_too_many) building->log += "\n(the rest of the log is not kept)\n";
    changed_.notify_all();
  });
  building->log_ended = true;
  changed_.notify_all();
}

// The builder writes a line for each thing it found, and one at the end.
Templates::Outcome Templates::read_answer(std::string_view text, store::TemplateRow& row) {
  Outcome outcome{.failure = "the builder ended unexpectedly"};
  json::array languages;
  json::object installed;
  while (!text.empty()) {
    auto line = take_until(text, '\n');
    const auto word = take_until(line, ' ');
    if (word == "language") languages.emplace_back(line);
    if (word == "kernels") row.kernels = true;
    if (word == "size") std::from_chars(line.data(), line.data() + line.size(), row.size_bytes);
    if (word == "installed") {
      const auto package = take_until(line, ' ');
      installed[package] = line;
    }
    if (word == "failed") outcome = {.answered = true, .failure = std::string(line.substr(0, kMaxReason))};
    if (word == "done") outcome = {.answered = true, .failure = {}};
  }
  row.languages_json = json::serialize(languages);
  row.installed_json = json::serialize(installed);
  return outcome;
}

async::Task<> Templates::follow(std::string name, UniqueFd answer, UniqueFd log) {
  const auto building = building_.at(name);
  tasks_.spawn("read the log of a build", follow_log(building, std::move(log)));
  const auto readiness = std::make_shared<async::Readiness>(executor_, answer.get());
  building->give_up = [readiness] { readiness->give_up(); };
  if (building->cancelled) readiness->give_up();
  std::string text;
  co_await read_to_end(readiness, answer.get(), [&text](std::string_view bytes) {
    text += bytes.substr(0, kMaxAnswer - std::min(kMaxAnswer, text.size()));
  });
  building->give_up = {};
  answer.reset();  // a builder that is still at it stops
  // It holds the log as long as it lives.
  while (!building->log_ended) co_await changed_.wait();

  const auto found = rows_.find(name);
  if (found == rows_.end()) co_return;
  auto row = found->second;
  auto outcome = read_answer(text, row);
  if (building->cancelled) outcome = {.answered = true, .failure = "it was cancelled"};
  row.log = replace_invalid_utf8(building->log);
  if (!outcome.answered) {
    // One that was killed has left what it made.
    wire::SupervisorRequest request{.verb = wire::SupervisorVerb::remove_template, .number = row.number};
    if (const auto removed = co_await ask_and_wait(request); !removed) row.log += removed.error().message + "\n";
  }
  if (outcome.failure.empty()) {
    row.status = "ready";
    row.built_unix_ms = unix_millis();
  } else if (row.status == "building") {
    row.status = "failed";
    row.reason = explained(outcome.failure, row.log);
  }
  building_.erase(name);
  if (const auto written = put(row); !written) {
    // As it will be found after a restart.
    row.status = "failed";
    row.reason = written.error().message;
    rows_.insert_or_assign(name, row);
    changed_.notify_all();
  }
}

async::Task<Result<>> Templates::ask_and_wait(wire::SupervisorRequest request) {
  auto pipe = make_pipe();
  if (!pipe) co_return tl::unexpected<Error>(pipe.error());
  std::vector<UniqueFd> fds;
  fds.push_back(std::move(pipe->write));
  if (auto asked = ask_(request, std::move(fds)); !asked) co_return asked;
  const auto readiness = std::make_shared<async::Readiness>(executor_, pipe->read.get());
  std::string text;
  co_await read_to_end(readiness, pipe->read.get(), [&text](std::string_view bytes) {
    text += bytes.substr(0, kMaxAnswer - std::min(kMaxAnswer, text.size()));
  });
  store::TemplateRow unused;
  const auto outcome = read_answer(text, unused);
  if (!outcome.failure.empty()) co_return fail(Errc::io, outcome.failure);
  co_return Result<>();
}

Result<store::TemplateRow> Templates::change(std::string_view name, store::TemplateDefaults defaults) {
  if (name == kHostTemplate)
    return fail(Errc::conflict, "the host template has the limits of the server's configuration");
  const auto* found = find(name);
  if (found == nullptr || found->status == "deleting")
    return fail(Errc::not_found, fmt::format("template not found: {}", name));
  auto row = *found;
  row.defaults = std::move(defaults);
  COVE_CHECK(put(row));
  return row;
}

Result<store::TemplateRow> Templates::retire(std::string_view name) {
  if (name == kHostTemplate) return fail(Errc::conflict, "the host template cannot be deleted");
  const auto* found = find(name);
  if (found == nullptr || found->status == "deleting")
    return fail(Errc::not_found, fmt::format("template not found: {}", name));
  auto row = *found;
  row.status = "deleting";
  COVE_CHECK(put(row));
  if (const auto going = building_.find(name); going != building_.end()) {
    going->second->cancelled = true;
    if (going->second->give_up) going->second->give_up();
  }
  return row;
}

async::Task<Result<>> Templates::remove(std::string name) {
  while (building_.contains(name)) co_await changed_.wait();
  const auto found = rows_.find(name);
  if (found == rows_.end()) co_return Result<>();
  wire::SupervisorRequest request{.verb = wire::SupervisorVerb::remove_template, .number = found->second.number};
  if (auto removed = co_await ask_and_wait(request); !removed) co_return removed;
  if (auto erased = store_.templates().erase(name); !erased) co_return erased;
  rows_.erase(name);
  changed_.notify_all();
  co_return Result<>();
}

}  // namespace cove::templates
