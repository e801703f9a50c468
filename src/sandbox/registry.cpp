#include "sandbox/registry.hpp"

#include <algorithm>

#include "async/deadline.hpp"
#include "base/clock.hpp"
#include "base/log_fields.hpp"
#include "base/units.hpp"
#include "json/fields.hpp"

namespace cove::sandbox {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr milliseconds kTickInterval{500};
constexpr std::size_t kMaxExpired = 1000;  // that are remembered

// " key=value" for each member of an event's data.
std::string fields_of(const std::string& data_json) {
  std::string fields;
  boost::system::error_code failed;
  const auto data = boost::json::parse(data_json, failed);
  if (failed || !data.is_object()) return fields;
  for (const auto& [name, value] : data.as_object()) {
    const auto text = value.is_string() ? std::string(value.as_string()) : boost::json::serialize(value);
    fields += fmt::format(" {}={}", std::string_view(name), log_value(text));
  }
  return fields;
}

// What it takes to make a sandbox like this one.
boost::json::object creation_of(const store::SandboxRow& row) {
  return {{"template", row.template_name},
          {"memoryBytes", row.memory_bytes},
          {"diskBytes", row.disk_bytes},
          {"inodes", row.inodes},
          {"pids", row.pids},
          {"cpuMillis", row.cpu_millis},
          {"env", row.env_json},
          {"labels", row.labels_json},
          {"directory", row.directory}};
}

}  // namespace

Registry::Registry(boost::asio::any_io_executor executor, async::TaskGroup& tasks, store::Store& store, int run_dir,
                   Options options, Log log, std::function<void()> on_keeper_hung)
    : tasks_(tasks),
      store_(store),
      options_(std::move(options)),
      log_(std::move(log)),
      journal_(executor, store, log_),
      keeper_(
          executor, tasks, [this](const wire::KeeperReply& notice) { on_notice(notice); }, std::move(on_keeper_hung),
          KeeperClient::Patience{}),
      templates_(executor, tasks, store, options_.host_template, options_.ask_builder),
      context_{.executor = executor,
               .tasks = tasks,
               .keeper = keeper_,
               .store = store,
               .templates = templates_,
               .journal = journal_,
               .run_dir = run_dir,
               .zygotes = ZygoteGroups(options_.zygotes),
               .orphan_grace = options_.orphan_grace,
               .note = options_.note,
               .raisable = options_.raisable},
      pool_(tasks, [this](const auto& kind, const auto& tenant) { return make_unnamed(kind, tenant); }),
      left_(executor),
      sooner_(executor),
      boot_id_(boot_id()) {}

void Registry::on_notice(const wire::KeeperReply& notice) {
  const bool died = notice.word == wire::KeeperWord::died;
  const auto found = by_id_.find(std::string(notice.id.view()));
  if (found == by_id_.end()) {
    if (died) pool_.lose(notice.id.view());
    return;
  }
  // OOM kills before a command began are not that command's.
  found->second->update_counters(notice);
  if (notice.word == wire::KeeperWord::out_of_memory)
    found->second->note("out of memory: the kernel killed a process",
                        fmt::format("memory={}", format_size(found->second->row().memory_bytes)));
  if (died) tasks_.spawn("remove a dead sandbox", lose(found->second));
}

// Its init ended although nobody asked for that.
async::Task<> Registry::lose(std::shared_ptr<Sandbox> sandbox) {
  while (sandbox->state() == State::creating) co_await sandbox->changed().wait();
  if (sandbox->state() == State::deleting || sandbox->state() == State::gone) co_return;
  ++counters_.lost;
  log_(fmt::format("died sandbox={} pod={}", sandbox->row().id, sandbox->row().pod_name));
  publish("died", *sandbox);
  co_await remove(sandbox, "died");
}

async::Task<> Registry::keep_time() {
  while (true) {
    auto next = Clock::now() + kTickInterval;
    for (const auto& sandbox : all()) {
      const bool alive = sandbox->state() == State::running || sandbox->state() == State::paused;
      if (!alive) continue;
      sandbox->tick();
      if (sandbox->expired()) {
        ++counters_.expired;
        remember_expired(*sandbox);
        publish("expired", *sandbox);
        tasks_.spawn("expire a sandbox", remove(sandbox, "expired"));
        continue;
      }
      if (sandbox->expiry_is_fixed())
        next = std::min(next, Clock::now() + (sandbox->expires_boot() - boot_time()) + milliseconds(1));
    }
    pool_.tidy_tenants();
    pool_.tick();
    co_await sooner_.wait_until(next);
  }
}

async::Task<Result<std::shared_ptr<Sandbox>>> Registry::find(std::string tenant, std::string name) {
  const Key key(std::move(tenant), std::move(name));
  while (true) {
    const auto found = by_name_.find(key);
    if (found == by_name_.end()) break;
    const auto sandbox = found->second;
    if (sandbox->state() == State::creating) {
      co_await sandbox->changed().wait();
      continue;
    }
    if (sandbox->state() == State::deleting || sandbox->state() == State::gone || sandbox->expired()) break;
    if (sandbox->purpose() == Purpose::throwaway) break;
    co_return sandbox;
  }
  co_return absent(key);
}

void Registry::remember_expired(const Sandbox& sandbox) {
  if (sandbox.purpose() != Purpose::named) return;
  if (expired_.size() >= kMaxExpired) expired_.pop_front();
  expired_.emplace_back(Key(sandbox.tenant(), sandbox.name()), milliseconds(sandbox.row().ttl_ms));
}

// Whoever comes back to a sandbox of theirs learns what became of it.
tl::unexpected<Error> Registry::absent(const Key& key) const {
  const auto before =
      std::find_if(expired_.rbegin(), expired_.rend(), [&](const auto& one) { return one.first == key; });
  if (before == expired_.rend()) return fail(Errc::not_found, fmt::format("sandbox not found: {}", key.second));
  return fail(Errc::not_found, fmt::format("sandbox not found: {}: it expired, {} after it was last used", key.second,
                                           format_duration(before->second)));
}

std::shared_ptr<Sandbox> Registry::by_id(const std::string& id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : found->second;
}

async::Task<Result<>> Registry::check(milliseconds patience) {
  struct Question {
    explicit Question(boost::asio::any_io_executor executor) : answered(executor) {}
    std::optional<Result<wire::KeeperReply>> answer;
    async::Signal answered;
  };
  const auto question = std::make_shared<Question>(context_.executor);
  const auto put = [](KeeperClient& keeper, std::shared_ptr<Question> mine) -> async::Task<> {
    const wire::KeeperRequest request{.verb = wire::KeeperVerb::inspect, .id = SandboxId::random()};
    mine->answer.emplace(co_await keeper.ask(request));
    mine->answered.notify_all();
  };
  tasks_.spawn("ask after the keeper", put(keeper_, question));
  const auto until = Clock::now() + patience;
  while (!question->answer && co_await question->answered.wait_until(until)) {
  }
  if (!question->answer) co_return fail(Errc::unavailable, "the keeper does not answer");
  const auto& answer = *question->answer;
  // That it knows no such sandbox is an answer.
  if (!answer && answer.error().code == Errc::unavailable) co_return tl::unexpected<Error>(answer.error());
  co_return Result<>();
}

std::vector<std::shared_ptr<Sandbox>> Registry::all() const {
  std::vector<std::shared_ptr<Sandbox>> out;
  out.reserve(by_name_.size());
  for (const auto& [key, sandbox] : by_name_) out.push_back(sandbox);
  return out;
}

std::uint32_t Registry::background_of(const std::string& tenant) const {
  std::uint32_t count = 0;
  for (auto it = by_name_.lower_bound(Key(tenant, "")); it != by_name_.end() && it->first.first == tenant; ++it) {
    for (const auto& process : it->second->processes())
      count += process->request().kind == ProcessKind::background && !process->end() ? 1 : 0;
  }
  return count;
}

std::vector<std::shared_ptr<Sandbox>> Registry::of(const std::string& tenant, const std::string& after) const {
  std::vector<std::shared_ptr<Sandbox>> out;
  for (auto it = by_name_.upper_bound(Key(tenant, after)); it != by_name_.end() && it->first.first == tenant; ++it) {
    const auto& sandbox = it->second;
    if (sandbox->purpose() == Purpose::throwaway) continue;
    if (sandbox->state() != State::gone && !sandbox->expired()) out.push_back(sandbox);
  }
  return out;
}

std::shared_ptr<async::Signal> Registry::events_of(const std::string& tenant) {
  std::erase_if(followers_, [](const auto& entry) { return entry.second.expired(); });
  auto& known = followers_[tenant];
  auto signal = known.lock();
  if (!signal) known = signal = std::make_shared<async::Signal>(context_.executor);
  return signal;
}

// An event that cannot be written is lost, and the log says so; nothing else waits for it.
void Registry::publish(std::string_view type, const Sandbox& sandbox, std::string data_json,
                       const journal::Actor& actor) {
  if (sandbox.purpose() == Purpose::throwaway) return;
  journal::Act act{.kind = type == "network" ? journal::kind::kNetwork : journal::kind::kLifecycle,
                   .summary = std::string(type)};
  boost::system::error_code failed;
  if (auto data = boost::json::parse(data_json, failed); !failed && data.is_object())
    act.detail = std::move(data.as_object());
  if (type == "created") act.repeat = creation_of(sandbox.row());
  if (type == "updated") act.repeat = act.detail;
  if (type == "network") act.summary += " " + cove::json::text_of(act.detail, "mode");
  journal_.record(sandbox.subject(), actor, std::move(act), {.word = "ok"});
  sandbox.note(fmt::format("sandbox {}", type), fmt::format("pod={}{}", sandbox.row().pod_name, fields_of(data_json)));
  const store::EventRow event{.at_unix_ms = unix_millis(),
                              .tenant = sandbox.tenant(),
                              .type = std::string(type),
                              .sandbox = sandbox.name(),
                              .pod_name = sandbox.row().pod_name,
                              .data_json = std::move(data_json)};
  if (const auto written = store_.events().append(event); !written)
    log_(fmt::format("event lost type={} sandbox={} reason=\"{}\"", type, sandbox.row().id, written.error().message));
  const auto followers = followers_.find(sandbox.tenant());
  if (const auto signal = followers == followers_.end() ? nullptr : followers->second.lock()) signal->notify_all();
}

}  // namespace cove::sandbox
