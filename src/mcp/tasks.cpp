#include "mcp/tasks.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "async/deadline.hpp"
#include "base/clock.hpp"
#include "base/random_name.hpp"
#include "mcp/envelope.hpp"
#include "mcp/form.hpp"
#include "mcp/page.hpp"

namespace cove::mcp {
namespace {

namespace json = boost::json;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::string_view kExtension = "io.modelcontextprotocol/tasks";
constexpr std::size_t kPage = 100;

// A task's call has no client to send to.
class Silence : public Outlet {
 public:
  void send(json::object) override {}
  void send_batch(json::array) override {}
  [[nodiscard]] bool carries_everything() const override { return false; }
};

std::string new_id() {
  return random_name("task-");
}

tl::unexpected<Fault> unknown_task() {
  return fault(Code::invalid_params, "Invalid params: unknown task");
}

bool is_error(const json::object& result) {
  const auto* said = result.if_contains("isError");
  return said != nullptr && said->is_bool() && said->as_bool();
}

json::object error_of(const Fault& fault) {
  return error_message(nullptr, fault, UnknownId::omitted).at("error").as_object();
}

}  // namespace

bool knows_tasks(const Call& call) {
  const auto* extensions = call.capabilities.if_contains("extensions");
  return modern(call.revision) && extensions != nullptr && extensions->is_object() &&
         extensions->as_object().contains(kExtension);
}

Fault needs_tasks() {
  json::object extensions;
  extensions[kExtension] = json::object();
  return {.code = Code::missing_capability,
          .message = fmt::format("The client did not declare the extension that this needs: {}", kExtension),
          .data = {{"requiredCapabilities", {{"extensions", std::move(extensions)}}}}};
}

struct Tasks::Entry {
  std::string id;
  std::uint64_t number = 0;  // in the order they were begun
  std::shared_ptr<Call> call;
  std::string_view status = "working";
  std::string message;
  std::int64_t created = 0;
  std::int64_t updated = 0;
  milliseconds life{0};
  std::optional<Or<>> outcome;
  std::size_t bytes = 0;                 // of it
  std::map<std::string, Question> open;  // by key: what it waits for
  json::object said;                     // by key
  bool gone = false;                     // nobody will ask for it again

  [[nodiscard]] bool over() const { return outcome.has_value() || status == "cancelled"; }
};

// A task's questions go to the client that polls the task.
class Tasks::Asking : public Asker {
 public:
  Asking(Tasks& tasks, std::weak_ptr<Entry> entry) : tasks_(tasks), entry_(std::move(entry)) {}

  Task<Asked> ask(Call& call, std::vector<Question> questions) override {
    const auto entry = entry_.lock();
    Or<> nobody = fault(Code::internal, "The task was cancelled");
    if (!entry) co_return tl::unexpected<Or<>>(std::move(nobody));
    std::map<std::string, std::string> keys;  // a key is used once in the life of a task
    for (auto& question : questions) {
      auto key = question.key;
      for (int again = 2; entry->said.contains(key) || entry->open.contains(key); ++again)
        key = fmt::format("{}-{}", question.key, again);
      keys[question.key] = key;
      question.key = key;
      entry->open.emplace(key, std::move(question));
    }
    tasks_.change(*entry, "input_required", "");
    while (!entry->open.empty() && !call.cancelled()) co_await call.changed().wait();
    if (call.cancelled()) co_return tl::unexpected<Or<>>(std::move(nobody));
    tasks_.change(*entry, "working", "");
    Answers answers;
    for (const auto& [wanted, key] : keys) answers.emplace(wanted, entry->said.at(key).as_object());
    co_return answers;
  }

 private:
  Tasks& tasks_;
  std::weak_ptr<Entry> entry_;
};

Tasks::Tasks(boost::asio::any_io_executor executor, async::TaskGroup& tasks, Notifier& notifier, Options options)
    : executor_(std::move(executor)), tasks_(tasks), notifier_(notifier), options_(options) {}

// The lifetime that the client asks for, within bounds; the newest revision leaves it to the server.
Or<milliseconds> Tasks::life_for(const Call& call) const {
  const auto* task = call.params.if_contains("task");
  if (modern(call.revision) || task == nullptr || !task->is_object()) return options_.life;
  const auto* ttl = task->as_object().if_contains("ttl");
  if (ttl == nullptr || ttl->is_null()) return options_.life;
  boost::system::error_code wrong;
  const auto asked = ttl->is_number() ? ttl->to_number<std::int64_t>(wrong) : -1;
  if (wrong || asked < 0)
    return fault(Code::invalid_params, "Invalid params: task.ttl must be a number of milliseconds");
  return std::clamp(milliseconds(asked), milliseconds(1000), options_.max_life);
}

bool Tasks::fits(const std::string& tenant, std::size_t more) const {
  std::size_t mine = more;
  std::size_t bytes = 0;
  std::size_t my_bytes = 0;
  for (const auto& [id, entry] : entries_) {
    const bool own = entry->call->tenant == tenant;
    mine += own ? 1 : 0;
    bytes += entry->bytes;
    my_bytes += own ? entry->bytes : 0;
  }
  return mine <= options_.most && my_bytes <= options_.tenant_bytes && bytes <= options_.bytes;
}

bool Tasks::has_capacity_for(const Call& call) const {
  return fits(call.tenant, 1) || std::ranges::any_of(entries_, [&](const auto& entry) {
           return entry.second->call->tenant == call.tenant && entry.second->over();
         });
}

void Tasks::evict_finished(const std::string& tenant, std::size_t more) {
  while (!fits(tenant, more)) {
    std::shared_ptr<Entry> oldest;
    for (const auto& [id, entry] : entries_) {
      if (entry->call->tenant == tenant && entry->over() && (!oldest || entry->number < oldest->number)) oldest = entry;
    }
    if (!oldest) return;
    oldest->gone = true;
    entries_.erase(oldest->id);
    oldest->call->changed().notify_all();
  }
}

Task<Or<>> Tasks::begin(Call& call, Work work, milliseconds patience) {
  const auto life = life_for(call);
  if (!life) co_return tl::unexpected<Fault>(life.error());
  evict_finished(call.tenant, 1);
  if (!fits(call.tenant, 1))
    co_return fault(Code::internal,
                    fmt::format("The limit of {} tasks is reached: wait until one has ended", options_.most));
  const auto entry = std::make_shared<Entry>();
  entry->id = new_id();
  entry->number = next_++;
  entry->created = entry->updated = unix_millis();
  entry->life = *life;
  entry->call = std::make_shared<Call>(executor_, std::make_shared<Silence>());
  entry->call->copy_identity_from(call);
  entry->call->ask_by(std::make_shared<Asking>(*this, entry));
  entries_.emplace(entry->id, entry);
  tasks_.spawn("run an MCP task", run(this, entry, std::move(work)));
  tasks_.spawn("expire an MCP task", expire(this, entry));
  const auto until = Clock::now() + patience;
  while (!entry->over() && entry->open.empty() && !call.cancelled() && Clock::now() < until)
    co_await entry->call->changed().wait_until(until);
  if (patience.count() > 0 && (entry->over() || call.cancelled())) {
    cancel(*entry);
    entry->gone = true;
    entries_.erase(entry->id);
    entry->call->changed().notify_all();
    if (!entry->outcome) co_return fault(Code::internal, "The call was cancelled");
    co_return *entry->outcome;
  }
  auto task = described(*entry);
  if (!modern(call.revision)) co_return json::object{{"task", std::move(task)}};
  task["resultType"] = "task";
  co_return task;
}

Task<> Tasks::run(Tasks* self, std::shared_ptr<Entry> entry, Work work) {
  Or<> outcome = fault(Code::internal, "Internal error");
  try {
    outcome = co_await work(entry->call);
  } catch (...) {
    self->finish(*entry, std::move(outcome));
    throw;
  }
  if (outcome) outcome = fit(std::move(*outcome), entry->call->method, entry->call->revision, false);
  if (outcome && modern(entry->call->revision)) (*outcome)["resultType"] = "complete";
  self->finish(*entry, std::move(outcome));
}

Task<> Tasks::expire(Tasks* self, std::shared_ptr<Entry> entry) {
  const auto until = Clock::now() + entry->life;
  while (!entry->gone && Clock::now() < until) co_await entry->call->changed().wait_until(until);
  entry->gone = true;
  self->cancel(*entry);
  self->entries_.erase(entry->id);
}

void Tasks::change(Entry& entry, std::string_view status, std::string message) {
  entry.status = status;
  entry.message = std::move(message);
  entry.updated = unix_millis();
  entry.call->changed().notify_all();
  if (modern(entry.call->revision)) notifier_.task_changed(entry.call->tenant, entry.id, detailed(entry));
}

void Tasks::finish(Entry& entry, Or<> outcome) {
  if (entry.over()) return;
  entry.outcome = std::move(outcome);
  if (*entry.outcome) entry.bytes = json::serialize(**entry.outcome).size();
  entry.open.clear();
  const bool failed = !*entry.outcome || (!modern(entry.call->revision) && is_error(**entry.outcome));
  change(entry, failed ? "failed" : "completed", *entry.outcome ? "" : entry.outcome->error().message);
  evict_finished(entry.call->tenant, 0);
}

void Tasks::cancel(Entry& entry) {
  if (entry.over()) return;
  entry.open.clear();
  entry.call->cancel();
  change(entry, "cancelled", "The task was cancelled");
}

json::object Tasks::described(const Entry& entry) const {
  json::object task{{"taskId", entry.id},
                    {"status", entry.status},
                    {"createdAt", iso_time(entry.created)},
                    {"lastUpdatedAt", iso_time(entry.updated)}};
  if (!entry.message.empty()) task["statusMessage"] = entry.message;
  const bool newest = modern(entry.call->revision);
  task[newest ? "ttlMs" : "ttl"] = entry.life.count();
  task[newest ? "pollIntervalMs" : "pollInterval"] = options_.poll.count();
  return task;
}

json::object Tasks::detailed(const Entry& entry) const {
  auto task = described(entry);
  if (entry.outcome && *entry.outcome) task["result"] = **entry.outcome;
  if (entry.outcome && !*entry.outcome) task["error"] = error_of(entry.outcome->error());
  if (!entry.open.empty()) {
    json::object questions;
    for (const auto& [key, question] : entry.open)
      questions[key] = {{"method", question.method}, {"params", question.params}};
    task["inputRequests"] = std::move(questions);
  }
  return task;
}

std::shared_ptr<Tasks::Entry> Tasks::find(const Call& call, const std::string& id) const {
  const auto found = entries_.find(id);
  if (found == entries_.end()) return nullptr;
  const auto& owner = *found->second->call;
  const bool same_era = modern(owner.revision) == modern(call.revision);
  return owner.tenant == call.tenant && owner.key_id == call.key_id && same_era ? found->second : nullptr;
}

Or<std::shared_ptr<Tasks::Entry>> Tasks::wanted(const Call& call) const {
  const auto* id = call.params.if_contains("taskId");
  if (id == nullptr || !id->is_string()) return fault(Code::invalid_params, "Invalid params: taskId must be a string");
  auto entry = find(call, std::string(id->as_string()));
  if (!entry) return unknown_task();
  return entry;
}

Task<Or<>> Tasks::serve(Call& call) {
  const bool newest = modern(call.revision);
  if (!newest && call.revision != Revision::v2025_11_25)
    co_return fault(Code::method_not_found, fmt::format("Method not found: {}", call.method));
  if (newest && !knows_tasks(call)) co_return tl::unexpected<Fault>(needs_tasks());
  if (call.method == "tasks/list") co_return list(call);
  const bool known = call.method == "tasks/get" || call.method == "tasks/cancel" ||
                     call.method == (newest ? "tasks/update" : "tasks/result");
  if (!known) co_return fault(Code::method_not_found, fmt::format("Method not found: {}", call.method));
  const auto entry = wanted(call);
  if (!entry) co_return tl::unexpected<Fault>(entry.error());
  if (call.method == "tasks/get") co_return newest ? detailed(**entry) : described(**entry);
  if (call.method == "tasks/result") co_return co_await result(call, *entry);
  if (call.method == "tasks/update") co_return update(call, **entry);
  if (!newest && (*entry)->over())
    co_return fault(Code::invalid_params, fmt::format("Invalid params: the task is already {}", (*entry)->status));
  cancel(**entry);
  co_return newest ? json::object() : described(**entry);
}

// Without keys all callers are one tenant: only the tasks of the same connection are listed.
Or<> Tasks::list(const Call& call) const {
  std::vector<const Entry*> mine;
  for (const auto& [id, entry] : entries_) {
    const bool own = !call.key_id.empty() || entry->call->connection == call.connection;
    if (own && find(call, id)) mine.push_back(entry.get());
  }
  std::ranges::sort(mine, {}, &Entry::number);
  json::array all;
  for (const auto* entry : mine) all.push_back(described(*entry));
  return page_of(call.params, "tasks", all, kPage);
}

Task<Or<>> Tasks::result(Call& call, std::shared_ptr<Entry> entry) {
  json::object related;
  related[envelope_key("related-task")] = {{"taskId", entry->id}};
  while (!entry->over() && !entry->gone && !call.cancelled()) {
    std::vector<Question> questions;
    for (const auto& [key, question] : entry->open) {
      questions.push_back(question);
      questions.back().params["_meta"] = related;
    }
    const bool can = std::ranges::all_of(questions, [&](const Question& question) { return call.can_ask(question); });
    if (questions.empty() || !can) {
      co_await entry->call->changed().wait_until(Clock::now() + milliseconds(250));
      continue;
    }
    auto asked = co_await call.ask(std::move(questions));
    if (!asked) co_return asked.error();
    for (auto& [key, answer] : *asked) {
      if (!answer) finish(*entry, std::move(answer));
      if (answer && entry->open.erase(key) > 0) entry->said[key] = std::move(*answer);
    }
    entry->call->changed().notify_all();
  }
  if (!entry->outcome) co_return fault(Code::invalid_params, "The task was cancelled");
  auto outcome = *entry->outcome;
  if (outcome) {
    auto& meta = (*outcome)["_meta"];
    if (!meta.is_object()) meta = json::object();
    meta.as_object()[envelope_key("related-task")] = {{"taskId", entry->id}};
  }
  co_return outcome;
}

Or<> Tasks::update(const Call& call, Entry& entry) {
  const auto* answers = call.params.if_contains("inputResponses");
  if (answers == nullptr || !answers->is_object())
    return fault(Code::invalid_params, "Invalid params: inputResponses must be an object");
  for (const auto& [key, answer] : answers->as_object()) {
    if (!entry.open.contains(key)) continue;  // what nobody asked, or asks no more
    if (!answer.is_object())
      return fault(Code::invalid_params, "Invalid params: each of inputResponses must be an object");
    entry.open.erase(key);
    entry.said[key] = answer;
  }
  entry.call->changed().notify_all();
  return json::object();
}

}  // namespace cove::mcp
