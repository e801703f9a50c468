#include "sandbox/registry.hpp"

#include <algorithm>

#include "async/deadline.hpp"
#include "base/clock.hpp"
#include "base/log_fields.hpp"
#include "base/random.hpp"
#include "base/units.hpp"

namespace cove::sandbox {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr milliseconds kTickInterval{500};
constexpr milliseconds kRetryInterval{500};
constexpr std::size_t kMaxNamed = 10;
constexpr std::size_t kMaxExpired = 1000;  // that are remembered

std::string pod_name() {
  return fmt::format("sbx-{:010x}", random_number<std::uint64_t>() & 0xff'ffff'ffff);
}

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

Result<> check_memory(const Quotas& quotas, std::uint64_t memory) {
  if (quotas.memory_bytes == 0 || memory <= quotas.memory_bytes) return {};
  return fail(Errc::quota,
              fmt::format("this tenant's sandboxes may have at most {} of memory in total: {} would be more",
                          format_size(quotas.memory_bytes), format_size(memory)));
}

}  // namespace

Registry::Registry(boost::asio::any_io_executor executor, async::TaskGroup& tasks, store::Store& store, int run_dir,
                   Options options, Log log, std::function<void()> on_keeper_hung)
    : tasks_(tasks),
      store_(store),
      options_(std::move(options)),
      log_(std::move(log)),
      keeper_(
          executor, tasks, [this](const wire::KeeperReply& notice) { on_notice(notice); }, std::move(on_keeper_hung),
          KeeperClient::Patience{}),
      templates_(executor, tasks, store, options_.host_template, options_.ask_builder),
      context_{.executor = executor,
               .tasks = tasks,
               .keeper = keeper_,
               .store = store,
               .templates = templates_,
               .run_dir = run_dir,
               .zygotes = ZygoteGroups(options_.zygotes),
               .orphan_grace = options_.orphan_grace,
               .note = options_.note,
               .raisable = options_.raisable},
      pool_(tasks, [this](const jail::Limits& limits) { return make_unnamed(limits); }),
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
    pool_.tick();
    co_await sooner_.wait_until(next);
  }
}

Result<> Registry::check_quotas(const CreateRequest& request, const Quotas& quotas) const {
  if (by_id_.size() >= options_.max_sandboxes)
    return fail(Errc::quota,
                fmt::format("the server's limit of {} sandboxes is reached: delete one first", options_.max_sandboxes));
  const auto count =
      std::ranges::count_if(by_name_, [&](const auto& entry) { return entry.first.first == request.tenant; });
  if (quotas.sandboxes != 0 && std::cmp_greater_equal(count, quotas.sandboxes))
    return fail(Errc::quota,
                fmt::format("this tenant's limit of {} sandboxes is reached: delete one first", quotas.sandboxes));
  return check_memory(quotas, memory_of(request.tenant, nullptr) + request.limits.memory_bytes);
}

std::uint64_t Registry::memory_of(const std::string& tenant, const Sandbox* without) const {
  std::uint64_t memory = 0;
  for (const auto& [key, sandbox] : by_name_) {
    if (key.first == tenant && sandbox.get() != without) memory += sandbox->row().memory_bytes;
  }
  return memory;
}

async::Task<Result<>> Registry::set_limits(std::shared_ptr<Sandbox> sandbox, SandboxLimits limits, Quotas quotas) {
  const auto others = memory_of(sandbox->tenant(), sandbox.get());
  if (auto allowed = check_memory(quotas, others + limits.memory_bytes); !allowed) co_return allowed;
  if (auto done = co_await sandbox->set_limits(limits); !done) co_return done;
  publish("updated", *sandbox,
          fmt::format(R"({{"memoryBytes": {}, "diskBytes": {}, "pids": {}, "cpuMillis": {}}})", limits.memory_bytes,
                      limits.disk_bytes, limits.pids, limits.cpu_millis));
  co_return Result<>();
}

// For the pool: made before anybody asked for it.
std::shared_ptr<Sandbox> Registry::make_unnamed(const jail::Limits& limits) {
  store::SandboxRow row{.id = std::string(SandboxId::random().view()),
                        .pod_name = pod_name(),
                        .created_unix_ms = unix_millis(),
                        .boot_id = boot_id_,
                        .memory_bytes = limits.memory_bytes,
                        .disk_bytes = limits.disk_bytes,
                        .inodes = limits.inodes,
                        .pids = limits.pids,
                        .cpu_millis = limits.cpu_millis};
  return std::make_shared<Sandbox>(context_, std::move(row), Purpose::throwaway);
}

async::Task<Result<Registry::Ensured>> Registry::ensure(CreateRequest request, Quotas quotas, IfThere if_there) {
  const Key key(request.tenant, request.name);
  // One that is going makes way first.
  for (auto found = by_name_.find(key); found != by_name_.end(); found = by_name_.find(key)) {
    const auto sandbox = found->second;
    const auto state = sandbox->state();
    if ((state == State::running || state == State::paused) && !sandbox->expired()) {
      if (if_there == IfThere::refuse)
        co_return fail(Errc::exists, fmt::format("a sandbox with this id already exists: {}", request.name));
      sandbox->set_ttl(request.ttl);
      sooner_.notify_all();
      co_return Ensured{.sandbox = sandbox, .created = false};
    }
    if (state == State::running || state == State::paused) {
      co_await remove(sandbox, "expired");
      continue;
    }
    co_await sandbox->changed().wait();
  }
  if (auto allowed = check_quotas(request, quotas); !allowed) co_return tl::unexpected<Error>(allowed.error());
  const auto from = templates_.usable(request.template_name);
  if (!from) co_return tl::unexpected<Error>(from.error());

  request.limits.disk_bytes = std::min(request.limits.disk_bytes, most_disk_bytes(request.limits.memory_bytes));
  store::SandboxRow row{.tenant = request.tenant,
                        .name = request.name,
                        .id = std::string(SandboxId::random().view()),
                        .pod_name = pod_name(),
                        .state = "creating",
                        .created_unix_ms = unix_millis(),
                        .ttl_ms = request.ttl.count(),
                        .expires_boot_ms = (boot_time() + request.ttl).count(),
                        .boot_id = boot_id_,
                        .memory_bytes = request.limits.memory_bytes,
                        .disk_bytes = request.limits.disk_bytes,
                        .inodes = request.limits.inodes,
                        .pids = request.limits.pids,
                        .cpu_millis = request.limits.cpu_millis,
                        .template_name = request.template_name,
                        .env_json = request.env_json,
                        .labels_json = request.labels_json,
                        .metadata_json = request.metadata_json,
                        .notes_json = request.notes_json,
                        .renewal = request.renewal};
  // What is not written down is nobody's after a crash, and swept by the next keeper.
  const bool python = request.python && context_.zygotes.of(request.tenant) == 0;
  const auto ready = (*from)->number == 0 ? pool_.take(request.limits, python) : nullptr;
  if (ready) ready->take_identity(std::move(row), request.purpose);
  const auto sandbox = ready ? ready : std::make_shared<Sandbox>(context_, std::move(row), request.purpose);
  if (request.purpose == Purpose::named) {
    if (auto written = store_.sandboxes().insert(sandbox->row()); !written) {
      if (ready) co_await ready->discard();
      co_return tl::unexpected<Error>(written.error());
    }
  }
  by_name_.emplace(key, sandbox);
  by_id_.emplace(sandbox->row().id, sandbox);
  auto made = ready ? Result<>() : co_await sandbox->create();
  if (!made) {
    // Whatever was made of it goes.
    co_await remove(sandbox, "failed");
    // Whatever the kernel said, it said it to us: to the caller it is a failure of the server, or one that may pass.
    auto error = made.error();
    if (error.code != Errc::unavailable && error.code != Errc::over_limit) error.code = Errc::io;
    co_return tl::unexpected<Error>(std::move(error));
  }
  sandbox->set_state(State::running);
  ++counters_.created;
  publish("created", *sandbox);
  sooner_.notify_all();
  co_return Ensured{.sandbox = sandbox, .created = true};
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

async::Task<Result<>> Registry::remove_template(std::string name) {
  std::string users;
  std::size_t count = 0;
  for (const auto& sandbox : all()) {
    if (sandbox->row().template_name != name || sandbox->state() == State::gone) continue;
    if (++count <= kMaxNamed) users += (users.empty() ? "" : ", ") + sandbox->name();
  }
  if (count > kMaxNamed) users += fmt::format(" and {} more", count - kMaxNamed);
  if (count > 0) co_return fail(Errc::conflict, fmt::format("template {} is in use by sandboxes: {}", name, users));
  const auto retired = templates_.retire(name);
  if (!retired) co_return tl::unexpected<Error>(retired.error());
  const wire::KeeperRequest request{.verb = wire::KeeperVerb::retire_template, .root = retired->number};
  // A keeper that is gone has no zygotes either.
  [[maybe_unused]] const auto told = co_await keeper_.ask(request);
  co_return co_await templates_.remove(std::move(name));
}

async::Task<> Registry::forget_later(std::string id) {
  log_(fmt::format("cannot forget sandbox={} now", id));
  while (!store_.sandboxes().erase(id)) co_await async::sleep_for(kRetryInterval);
}

async::Task<> Registry::remove(std::shared_ptr<Sandbox> sandbox, std::string why) {
  if (sandbox->state() == State::deleting || sandbox->state() == State::gone) {
    while (sandbox->state() != State::gone) co_await sandbox->changed().wait();
    co_return;
  }
  sandbox->set_state(State::deleting);
  // If this cannot be written the row still says "running", and a restart in this moment finds the sandbox gone.
  const bool written = sandbox->purpose() == Purpose::named;
  if (written) [[maybe_unused]]
    const auto marked = store_.sandboxes().set_state(sandbox->row().id, "deleting");
  co_await sandbox->destroy();
  // Nothing of it is left; a row that cannot be erased now is erased later, or at the next start.
  if (written && !store_.sandboxes().erase(sandbox->row().id))
    tasks_.spawn("forget a sandbox", forget_later(sandbox->row().id));
  by_name_.erase(Key(sandbox->tenant(), sandbox->name()));
  by_id_.erase(sandbox->row().id);
  inherited_.erase(sandbox->row().id);
  kernels_.forget(*sandbox);
  sandbox->changed().notify_all();
  if (why != "failed") {
    ++counters_.deleted;
    publish("deleted", *sandbox, fmt::format(R"({{"why": "{}"}})", why));
  }
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
void Registry::publish(std::string_view type, const Sandbox& sandbox, std::string data_json) {
  if (sandbox.purpose() == Purpose::throwaway) return;
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
