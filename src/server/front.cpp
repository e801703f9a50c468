#include "server/front.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/json.hpp>

#include "async/deadline.hpp"
#include "base/io.hpp"
#include "config/languages.hpp"
#include "doors/execute/door.hpp"
#include "doors/mcp/endpoint.hpp"
#include "doors/mcp/service.hpp"
#include "doors/operator/door.hpp"
#include "doors/sandboxes/door.hpp"
#include "doors/workspace/door.hpp"
#include "http/server.hpp"
#include "outbound/client.hpp"
#include "sandbox/readiness.hpp"
#include "server/key_ring.hpp"
#include "server/log.hpp"
#include "server/metrics.hpp"
#include "sys/record.hpp"
#include "wire/supervisor_messages.hpp"

namespace cove::server {
namespace {

namespace asio = boost::asio;
using async::Task;
using Clock = std::chrono::steady_clock;

std::optional<oauth::TokenCheck> token_check(const config::Config& config, const std::string& keys) {
  auto set = keys.empty() ? fail(Errc::not_found, "") : oauth::read_key_set(keys);
  if (!set) return std::nullopt;
  return oauth::TokenCheck(std::move(*set), {.issuers = config.oauth.authorization_servers,
                                             .audience = config.oauth.resource,
                                             .scopes = config.oauth.scopes});
}

http::ServerOptions http_options(const config::Config& config) {
  http::ServerOptions options;
  options.max_connections = config.http.max_connections;
  options.allowed_hosts = config.http.allowed_hosts;
  options.allowed_origins = config.http.allowed_origins;
  // Where everybody may connect, the names a server is known by are the operator's to list; the key is the lock.
  options.challenge = doors::mcp::token_challenge(config.oauth);
  options.check_host = config.listen.loopback() || !config.http.allowed_hosts.empty();
  return options;
}

sandbox::Admission::Options admission_options(const config::Config& config) {
  return {.at_once = config.exec.max_concurrent, .waiting = config.exec.max_queued};
}

// What is asked for most: a sandbox with nothing said about it, and a run.
sandbox::Pool::Options pool_options(const config::Config& config) {
  const jail::Limits plain{
      .memory_bytes = config.sandbox.memory_bytes,
      .disk_bytes = std::min(config.sandbox.disk_bytes, sandbox::most_disk_bytes(config.sandbox.memory_bytes)),
      .inodes = config.sandbox.inodes,
      .pids = config.sandbox.pids,
      .cpu_millis = config.sandbox.cpu_millis};
  const auto size = config.pool.size;
  const auto handlers = size == 0 ? 0 : config.workspace.handler_pool;
  const bool warm = config.python.warm;
  sandbox::Pool::Options options{.age = config.python.zygote_age};
  options.kinds.push_back({.name = "sandbox", .limits = plain, .size = size});
  options.kinds.push_back(
      {.name = "execute", .limits = doors::execute::limits_of(config), .python = warm, .size = size});
  options.kinds.push_back(
      {.name = "handler", .limits = doors::workspace::handler_limits(config), .python = warm, .size = handlers});
  return options;
}

sandbox::Callbacks::Options callback_options(const config::Config& config) {
  sandbox::Callbacks::Options options{.attempts = config.callbacks.attempts,
                                      .backoff = config.callbacks.backoff,
                                      .timeout = config.callbacks.timeout,
                                      .max_size_bytes = config.callbacks.max_size_bytes};
  for (const auto& text : config.callbacks.allow) {
    if (auto place = outbound::parse_place(text)) options.reach.places.push_back(std::move(*place));
  }
  return options;
}

sandbox::Admission::Options slot_options(const config::Config& config) {
  return {.at_once = config.execute.max_concurrent,
          .waiting = 10'000,
          .patience = config.execute.queue_timeout,
          .keeps_some_free = false};
}

// What every host has: a root of its own, and the languages that were installed on it.
store::TemplateRow host_template() {
  store::TemplateRow host{.name = std::string(sandbox::kHostTemplate), .status = "ready", .kernels = true};
  boost::json::array names;
  const auto languages = config::Languages::built_in();
  for (const auto& language : languages ? languages->all() : std::span<const config::Language>()) {
    if (config::installed(language, [](const std::string& path) { return ::access(("/" + path).c_str(), X_OK) == 0; }))
      names.emplace_back(language.name);
  }
  host.languages_json = boost::json::serialize(names);
  return host;
}

std::string words_of(std::exception_ptr exception) {
  try {
    std::rethrow_exception(exception);
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "an exception of unknown kind";
  }
}

class Front {
 public:
  Front(FrontOptions options, std::unique_ptr<store::Store> store, UniqueFd run_dir);
  int run();

 private:
  Task<> start();
  Task<> hear_supervisor();
  Task<> hear_signals();
  Task<> finish();
  Task<> leave_when_alone();
  void drain();
  void reload();
  void watch_pool();
  void ask_for_keeper();
  Result<> ask_supervisor(const wire::SupervisorRequest& request, std::vector<UniqueFd> fds);
  Task<> sweep_templates();
  void describe_metrics();

  FrontOptions options_;
  std::shared_ptr<const config::Config> config_;
  Log log_;
  std::unique_ptr<store::Store> store_;
  UniqueFd run_dir_;
  asio::io_context loop_{1};
  async::TaskGroup tasks_;
  KeyRing keys_;
  Metrics metrics_;
  sandbox::Admission admission_;
  sandbox::Admission slots_;
  outbound::Client outbound_;  // for whatever door asks others
  sandbox::Registry registry_;
  sandbox::Callbacks callbacks_;
  sandbox::Jobs jobs_;
  sandbox::Installs installs_;
  store::FileStore files_;
  doors::execute::Meter meter_;
  doors::sandboxes::Services sandboxes_;
  doors::execute::Services execute_;
  doors::workspace::Services workspace_;
  doors::mcp::Services mcp_;
  doors::mcp::CodeService tools_;
  doors::mcp::Endpoint endpoint_;
  doors::operators::Services operators_;
  http::Router router_;
  http::Server server_;
  asio::signal_set signals_;
  bool draining_ = false;
  bool hurry_ = false;
  int status_ = 0;
};

Front::Front(FrontOptions options, std::unique_ptr<store::Store> store, UniqueFd run_dir)
    : options_(std::move(options)),
      config_(std::make_shared<const config::Config>(options_.config)),
      log_(config_->log),
      store_(std::move(store)),
      run_dir_(std::move(run_dir)),
      tasks_(loop_.get_executor(),
             [this](std::string_view name, std::exception_ptr exception) {
               log_.error(fmt::format("task=\"{}\" failed reason=\"{}\"", name, words_of(exception)));
             }),
      keys_(*store_, options_.needs_keys ? KeyRing::Mode::keys : KeyRing::Mode::open, options_.own_key,
            token_check(*config_, options_.token_keys)),
      admission_(loop_.get_executor(), admission_options(*config_)),
      slots_(loop_.get_executor(), slot_options(*config_)),
      outbound_(loop_.get_executor(), {.ca_file = config_->outbound.ca_file}),
      registry_(
          loop_.get_executor(), tasks_, *store_, run_dir_.get(),
          {.max_sandboxes = config_->max_sandboxes,
           .enforcement = options_.enforcement,
           .zygotes = config_->python.zygotes == config::ZygoteSharing::tenant
                          ? sandbox::ZygoteLines::Sharing::tenant
                          : sandbox::ZygoteLines::Sharing::everyone,
           .host_template = host_template(),
           .ask_builder = [this](const wire::SupervisorRequest& request,
                                 std::vector<UniqueFd> fds) { return ask_supervisor(request, std::move(fds)); }},
          [this](std::string_view line) { log_.warn(line); }, [this] { ask_for_keeper(); }),
      callbacks_(
          loop_.get_executor(), tasks_, *store_, outbound_, [this] { return callback_options(*config_); },
          [this](std::string_view line) { log_.warn(line); }),
      jobs_(
          registry_, admission_, callbacks_, [this] { return config_->exec.history; },
          [this](std::string_view line) { log_.warn(line); }),
      installs_(registry_, outbound_, [this](std::string_view line) { log_.warn(line); }),
      files_(*store_, std::move(options_.files), config_->files.ttl),
      meter_(metrics_.registry()),
      sandboxes_{.registry = registry_,
                 .admission = admission_,
                 .jobs = jobs_,
                 .callbacks = callbacks_,
                 .installs = installs_,
                 .quotas = [this](const http::Principal& principal) { return keys_.quotas(principal); },
                 .config = [this] { return config_; },
                 .draining = [this] { return draining_; },
                 .operates = [this](const http::Principal& principal) { return keys_.operates(principal); },
                 .still_valid = [this](const http::Principal& principal) { return keys_.still_valid(principal); }},
      execute_{.registry = registry_,
               .slots = slots_,
               .admission = admission_,
               .files = files_,
               .meter = meter_,
               .quotas = [this](const http::Principal& principal) { return keys_.quotas(principal); },
               .config = [this] { return config_; },
               .draining = [this] { return draining_; },
               .still_valid = [this](const http::Principal& principal) { return keys_.still_valid(principal); },
               .log = [this](std::string_view line) { log_.warn(line); }},
      workspace_{.registry = registry_,
                 .admission = admission_,
                 .quotas = [this](const http::Principal& principal) { return keys_.quotas(principal); },
                 .config = [this] { return config_; },
                 .draining = [this] { return draining_; },
                 .outbound = outbound_},
      mcp_{.registry = registry_,
           .admission = admission_,
           .installs = installs_,
           .tasks = tasks_,
           .quotas = [this](const http::Principal& principal) { return keys_.quotas(principal); },
           .config = [this] { return config_; },
           .draining = [this] { return draining_; }},
      tools_(loop_.get_executor(), mcp_),
      endpoint_(loop_.get_executor(),
                {.tasks = tasks_,
                 .service = tools_,
                 .config = [this] { return config_; },
                 .still_valid = [this](const http::Principal& principal) { return keys_.still_valid(principal); }}),
      operators_{.healthy = [this] { return !draining_ && !registry_.keeper_lost(); },
                 .metrics = [this] { return metrics_.text(); },
                 .metrics_access = config_->http.metrics},
      server_((doors::sandboxes::add_routes(router_, &sandboxes_), doors::execute::add_routes(router_, &execute_),
               doors::workspace::add_routes(router_, &workspace_), doors::mcp::add_routes(router_, &endpoint_),
               doors::operators::add_routes(router_, &operators_), loop_.get_executor()),
              http_options(*config_), router_, keys_,
              [this](const http::AccessRecord& record) {
                metrics_.count(record);
                log_.access(http::to_log_line(record));
              },
              [this](std::string_view where, std::exception_ptr exception) {
                log_.error(fmt::format("handler=\"{}\" failed reason=\"{}\"", where, words_of(exception)));
              }),
      signals_(loop_, SIGTERM, SIGHUP) {
  describe_metrics();
  ::fcntl(options_.supervisor.get(), F_SETFL, O_NONBLOCK);  // nothing we ask for is worth waiting for
  // Blocked since before we were: what came in the meantime is heard now.
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

void Front::ask_for_keeper() {
  log_.error("the keeper does not answer: asking for another");
  const wire::SupervisorRequest request{.verb = wire::SupervisorVerb::replace_keeper};
  if (const auto asked = ask_supervisor(request, {}); !asked) log_.error(asked.error().message);
}

Result<> Front::ask_supervisor(const wire::SupervisorRequest& request, std::vector<UniqueFd> fds) {
  std::vector<int> numbers;
  for (const auto& fd : fds) numbers.push_back(fd.get());
  if (sys::send_record(options_.supervisor.get(), std::as_bytes(std::span(&request, 1)), numbers) < 0)
    return fail(Errc::unavailable, fmt::format("the supervisor does not answer: {}", std::strerror(errno)));
  return {};
}

Task<> Front::sweep_templates() {
  if (const auto swept = co_await registry_.templates().sweep(); !swept)
    log_.error(fmt::format("templates cannot be swept reason=\"{}\"", swept.error().message));
}

void Front::describe_metrics() {
  metrics_.watch("cove_sandboxes", "Sandboxes there are", [this] { return static_cast<double>(registry_.size()); });
  metrics_.watch("cove_executions_running", "Executions running now", [this] { return admission_.inside(); });
  metrics_.watch("cove_executions_waiting", "Executions waiting for a place", [this] { return admission_.waiting(); });
  metrics_.watch("code_interpreter_executions_limit", "Executions that may hold a slot at once",
                 [this] { return config_->execute.max_concurrent; });
  metrics_.watch("cove_http_connections", "Connections open now",
                 [this] { return static_cast<double>(server_.connections()); });
  const auto& counters = registry_.counters();
  const auto total = [&](const char* name, const char* help, const std::uint64_t& value) {
    metrics_.watch_total(name, help, [&value] { return static_cast<double>(value); });
  };
  total("cove_sandboxes_created_total", "Sandboxes made", counters.created);
  total("cove_sandboxes_deleted_total", "Sandboxes ended, for whatever reason", counters.deleted);
  total("cove_sandboxes_expired_total", "Sandboxes ended because their time was over", counters.expired);
  total("cove_sandboxes_lost_total", "Sandboxes that ended although nobody asked", counters.lost);
  total("cove_sandboxes_adopted_total", "Sandboxes taken over from the server before", counters.adopted);
  using State = sandbox::Kernel::State;
  for (const auto state : {State::starting, State::idle, State::busy, State::dead}) {
    metrics_.watch("cove_kernels", "Kernels there are",
                   [this, state] { return static_cast<double>(registry_.kernels().count(state)); },
                   {{"state", std::string(name_of(state))}});
  }
  for (const auto reason : sandbox::all_reasons()) {
    metrics_.watch_total("cove_kernel_executions_total", "Executions in kernels that are over",
                         [this, reason] { return static_cast<double>(registry_.kernels().ended(reason)); },
                         {{"reason", std::string(name_of(reason))}});
  }
  const auto& pythons = registry_.python_starts();
  metrics_.watch_total("cove_python_starts_total", "Interpreters started: forked from a warm one, or cold",
                       [&pythons] { return static_cast<double>(pythons.warm); }, {{"birth", "warm"}});
  metrics_.watch_total("cove_python_starts_total", "Interpreters started: forked from a warm one, or cold",
                       [&pythons] { return static_cast<double>(pythons.cold); }, {{"birth", "cold"}});
}

Task<> Front::start() {
  if (const auto swept = files_.sweep(); !swept)
    log_.error(fmt::format("files cannot be swept reason=\"{}\"", swept.error().message));
  else if (*swept > 0)
    log_.info(fmt::format("files swept={}", *swept));
  if (const auto remembered = jobs_.remember(); !remembered)
    log_.error(fmt::format("executions cannot be read reason=\"{}\"", remembered.error().message));
  const auto ready = co_await registry_.use_keeper(keeper::KeeperLink(std::move(options_.keeper)));
  if (!ready) log_.error(fmt::format("keeper failed reason=\"{}\"", ready.error().message));
  jobs_.adopt();
  tasks_.spawn("sweep templates", sweep_templates());
  registry_.pool().open(pool_options(*config_));
  watch_pool();
  asio::ip::tcp::acceptor acceptor(loop_);
  acceptor.assign(config_->listen.host.find(':') == std::string::npos ? asio::ip::tcp::v4() : asio::ip::tcp::v6(),
                  options_.listener.release());
  const auto port = acceptor.local_endpoint().port();
  config::Endpoint bound = config_->listen;
  bound.port = port;
  log_.info(fmt::format("serving on http://{} sandboxes={} keys={}", bound.text(), registry_.size(),
                        options_.needs_keys ? "required" : "not required"));
  if (config_->workspace.network)
    log_.warn("workspace.network is asked for (SANDBOX_ALLOW_NETWORK): sandboxes have no network here");
  tasks_.spawn("keep time", registry_.keep_time());
  tasks_.spawn("deliver callbacks", callbacks_.deliver());
  tasks_.spawn("keep time of MCP sessions", endpoint_.keep_time());
  tasks_.spawn("expire files", doors::execute::expire_files(execute_));
  if (options_.leave_after.count() > 0) tasks_.spawn("leave when alone", leave_when_alone());
  co_await server_.serve(std::move(acceptor));
}

// A new keeper comes when the one before has died.
Task<> Front::hear_supervisor() {
  sandbox::Readiness readiness(loop_.get_executor(), options_.supervisor.get());
  while (co_await readiness.readable()) {
    std::byte word{};
    UniqueFd link;
    const auto size = sys::receive_record(options_.supervisor.get(), std::span(&word, 1), link);
    if (size == 0) co_return;
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (!link) {
      // Lost on the way, for want of a descriptor or of memory: another is asked for until one comes.
      co_await async::sleep_for(std::chrono::milliseconds(200));
      ask_for_keeper();
      continue;
    }
    log_.warn("keeper died: a new one takes over");
    const auto ready = co_await registry_.use_keeper(keeper::KeeperLink(std::move(link)));
    if (!ready) log_.error(fmt::format("keeper failed reason=\"{}\"", ready.error().message));
  }
}

void Front::watch_pool() {
  for (const auto& shelf : registry_.pool().shelves()) {
    const Metrics::Labels kind{{"kind", shelf.kind.name}};
    metrics_.watch(
        "cove_pool_ready", "Sandboxes that stand ready", [&shelf] { return static_cast<double>(shelf.ready.size()); },
        kind);
    metrics_.watch(
        "cove_pool_oldest_seconds", "Age of the oldest sandbox that stands ready",
        [this, &shelf] { return static_cast<double>(registry_.pool().oldest(shelf).count()) / 1000; }, kind);
    metrics_.watch_total(
        "cove_pool_hits_total", "Sandboxes that stood ready when they were asked for",
        [&shelf] { return static_cast<double>(shelf.hits); }, kind);
    metrics_.watch_total(
        "cove_pool_misses_total", "Sandboxes that had to be made when they were asked for",
        [&shelf] { return static_cast<double>(shelf.misses); }, kind);
  }
}

void Front::reload() {
  auto input = options_.reload_from;
  if (!config_->file.empty()) input.file = options_.directory + "/" + options_.configuration_copy;
  auto loaded = config::load(input);
  if (!loaded) {
    log_.error(fmt::format("reload refused, the old configuration stays: {}", loaded.error().message));
    return;
  }
  loaded->file = config_->file;
  if (loaded->listen.port == 0 && loaded->listen.host == config_->listen.host) loaded->listen = config_->listen;
  auto plan = config::plan_reload(*config_, *loaded);
  config_ = std::make_shared<const config::Config>(std::move(plan.config));
  log_.set(config_->log);
  admission_.set_options(admission_options(*config_));
  slots_.set_options(slot_options(*config_));
  files_.set_ttl(config_->files.ttl);
  registry_.set_max_sandboxes(config_->max_sandboxes);
  registry_.pool().open(pool_options(*config_));
  server_.reload(http_options(*config_));
  std::string applied;
  for (const auto& key : plan.applied) applied += (applied.empty() ? "" : ",") + key;
  std::string waiting;
  for (const auto& key : plan.need_restart) waiting += (waiting.empty() ? "" : ",") + key;
  log_.info(fmt::format("reloaded changed={} need_restart={}", applied.empty() ? "-" : applied,
                        waiting.empty() ? "-" : waiting));
}

Task<> Front::hear_signals() {
  while (true) {
    const auto [failed, number] = co_await signals_.async_wait(asio::as_tuple(asio::use_awaitable));
    if (failed) co_return;
    if (number == SIGHUP) {
      reload();
    } else if (!draining_) {
      drain();
    } else {
      hurry_ = true;
    }
  }
}

void Front::drain() {
  draining_ = true;
  log_.info("draining");
  server_.drain();
  tasks_.spawn("finish", finish());
}

Task<> Front::leave_when_alone() {
  auto alone_since = Clock::now();
  while (!draining_) {
    co_await async::sleep_for(std::chrono::milliseconds(100));
    if (server_.connections() > 0 || registry_.size() > 0) alone_since = Clock::now();
    if (!draining_ && Clock::now() > alone_since + options_.leave_after) drain();
  }
}

// What runs may end by itself for a while; then it is ended. What the configuration says about sandboxes is done last.
Task<> Front::finish() {
  co_await registry_.pool().close();
  if (config_->on_exit == config::OnExit::keep) jobs_.let_go();
  const auto until = Clock::now() + config_->drain;
  const auto busy = [this] {
    return admission_.inside() > 0 || admission_.waiting() > 0 || slots_.waiting() > 0 || sandboxes_.transfers > 0 ||
           execute_.transfers > 0 || workspace_.transfers > 0;
  };
  while (!hurry_ && busy() && Clock::now() < until) co_await async::sleep_for(std::chrono::milliseconds(20));
  for (const auto& sandbox : registry_.all()) {
    for (const auto& process : sandbox->processes()) {
      if (process->request().kind == sandbox::ProcessKind::exec) process->stop(sandbox::Reason::shutdown);
    }
  }
  registry_.kernels().cancel_all(sandbox::Reason::shutdown);
  if (config_->on_exit == config::OnExit::destroy) jobs_.end_all();
  const auto last = Clock::now() + std::chrono::milliseconds(hurry_ ? 500 : 3000);
  while (admission_.inside() > 0 && Clock::now() < last) co_await async::sleep_for(std::chrono::milliseconds(10));
  // What nobody can find again goes in any case.
  const bool all = config_->on_exit == config::OnExit::destroy;
  const auto goes = [all](const auto& sandbox) { return all || sandbox->purpose() == sandbox::Purpose::throwaway; };
  const auto left = [&] {
    const auto sandboxes = registry_.all();
    return std::ranges::any_of(sandboxes, goes);
  };
  for (const auto& sandbox : registry_.all()) {
    if (goes(sandbox)) tasks_.spawn("end a sandbox", registry_.remove(sandbox, "shutdown"));
  }
  const auto gone = Clock::now() + std::chrono::seconds(30);
  while (left() && Clock::now() < gone) co_await async::sleep_for(std::chrono::milliseconds(5));
  if (left()) status_ = 1;
  log_.info(fmt::format("stopped kept={}", registry_.size()));
  co_await server_.stop();
  loop_.stop();
}

int Front::run() {
  tasks_.spawn("hear signals", hear_signals());
  tasks_.spawn("hear the supervisor", hear_supervisor());
  tasks_.spawn("serve", start());
  loop_.run();
  return status_;
}

void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

int run_front(FrontOptions options) {
  const Log log(options.config.log);
  raise_descriptor_limit();
  auto store = store::Store::open(options.directory, store::OnBroken::move_aside);
  if (!store) {
    log.error(fmt::format("cannot open the store: {}", store.error().message));
    return 1;
  }
  if (!(*store)->warning().empty()) {
    log.error((*store)->warning());
  }
  // Keys that were lost must not open the door.
  options.needs_keys = options.needs_keys || (*store)->keys_may_be_lost();
  if (::mkdir((options.directory + "/run").c_str(), 0700) != 0 && errno != EEXIST) {
    log.error(fmt::format("cannot make {}/run: {}", options.directory, std::strerror(errno)));
    return 1;
  }
  auto run_dir = open_at(AT_FDCWD, options.directory + "/run", O_RDONLY | O_DIRECTORY);
  if (!run_dir) {
    log.error(run_dir.error().message);
    return 1;
  }
  const auto front = std::make_unique<Front>(std::move(options), std::move(*store), std::move(*run_dir));
  return front->run();
}

}  // namespace cove::server
