#include "server/front.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/signal_set.hpp>

#include "async/deadline.hpp"
#include "base/io.hpp"
#include "base/log_fields.hpp"
#include "server/drain.hpp"
#include "server/file_directory.hpp"
#include "server/reload.hpp"
#include "server/restore.hpp"
#include "server/service_metrics.hpp"
#include "server/services.hpp"
#include "sys/process.hpp"

namespace cove::server {
namespace {

namespace asio = boost::asio;
using async::Task;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kAskAgain{200};  // for a keeper, when the descriptor of one was lost
constexpr std::chrono::milliseconds kPollAlone{100};

// The life of the front: restore, serve, drain.
class Front {
 public:
  Front(FrontOptions options, std::unique_ptr<store::Store> store, UniqueFd run_dir)
      : services_(std::move(options), std::move(store), std::move(run_dir)),
        drain_(services_),
        signals_(services_.loop, SIGTERM) {
    describe_metrics(services_);
    // The supervisor started us with signals blocked: those that came meanwhile arrive now.
    sigset_t none;
    ::sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
  }

  int run() {
    services_.tasks.spawn("receive signals", receive_signals());
    services_.tasks.spawn("receive from the supervisor", receive_from_supervisor());
    services_.tasks.spawn("serve", serve());
    services_.loop.run();
    // Tasks that are left end while what they work with still exists.
    services_.tasks.cancel();
    services_.loop.restart();
    services_.loop.poll();
    return status_;
  }

 private:
  Task<> serve();
  asio::ip::tcp::acceptor acceptor_of(const config::Endpoint& endpoint, UniqueFd listener);
  void start_housekeeping();
  Task<> receive_signals();
  Task<> receive_from_supervisor();
  Task<> leave_when_alone();
  void begin_drain();
  Task<> finish();

  Services services_;
  Drain drain_;
  asio::signal_set signals_;
  int status_ = 0;
};

Task<> Front::serve() {
  co_await restore(services_, keeper::KeeperLink(std::move(services_.options.keeper)));
  const auto config = services_.config();
  auto acceptor = acceptor_of(config->listen, std::move(services_.options.listener));
  config::Endpoint bound = config->listen;
  bound.port = acceptor.local_endpoint().port();
  services_.log.info(fmt::format("serving on http://{} sandboxes={} keys=\"{}\"", bound.text(),
                                 services_.registry.size(),
                                 services_.options.needs_keys ? "required" : "not required"));
  if (const auto missing = keeper::not_enforced(services_.registry.enforcement()); !missing.empty())
    services_.log.warn(fmt::format("this host does not enforce every limit of a sandbox missing={} reason={}",
                                   fmt::join(missing, ","),
                                   log_value(services_.registry.enforcement().cgroup_shortcoming, 1024)));
  start_housekeeping();
  for (auto& [socket, endpoint, name] : services_.options.sandbox_listeners) {
    services_.log.info(
        fmt::format("serving one sandbox on http://{} sandbox={}", endpoint.text(), log_value(name, 255)));
    auto binding = std::make_shared<const http::Binding>(http::Binding{.scope = name, .tenant = ""});
    auto serving = services_.server.serve(acceptor_of(endpoint, std::move(socket)), std::move(binding));
    services_.tasks.spawn("serve one sandbox", std::move(serving));
  }
  co_await services_.server.serve(std::move(acceptor));
}

asio::ip::tcp::acceptor Front::acceptor_of(const config::Endpoint& endpoint, UniqueFd listener) {
  asio::ip::tcp::acceptor acceptor(services_.loop);
  acceptor.assign(endpoint.host.find(':') == std::string::npos ? asio::ip::tcp::v4() : asio::ip::tcp::v6(),
                  listener.release());
  return acceptor;
}

void Front::start_housekeeping() {
  auto& tasks = services_.tasks;
  tasks.spawn("expire sandboxes", services_.registry.keep_time());
  tasks.spawn("deliver callbacks", services_.callbacks.deliver());
  tasks.spawn("tidy callbacks", services_.callbacks.tidy());
  tasks.spawn("expire MCP sessions", services_.mcp_endpoint.end_idle_sessions());
  tasks.spawn("tidy up after Jupyter's clients", services_.jupyter_door.directory.tidy());
  tasks.spawn("expire files", doors::execute::expire_files(services_.execute_door));
  if (services_.options.leave_after.count() > 0) tasks.spawn("leave when alone", leave_when_alone());
}

Task<> Front::receive_from_supervisor() {
  while (auto message = co_await services_.supervisor.receive()) {
    if (message->word == wire::SupervisorWord::configuration) {
      reload(services_, std::move(message->fd));
      continue;
    }
    if (message->word == wire::SupervisorWord::egress) {
      services_.log.warn("egress process died: a new one takes over");
      if (message->fd) services_.networks.connect(std::move(message->fd));
      continue;
    }
    if (!message->fd) {
      co_await async::sleep_for(kAskAgain);
      services_.supervisor.replace_keeper();
      continue;
    }
    services_.log.warn("keeper died: a new one takes over");
    const auto ready = co_await services_.registry.replace_keeper(keeper::KeeperLink(std::move(message->fd)));
    if (!ready) services_.log.error(fmt::format("keeper failed reason=\"{}\"", ready.error().message));
  }
}

Task<> Front::receive_signals() {
  while (true) {
    const auto [failed, number] = co_await signals_.async_wait(asio::as_tuple(asio::use_awaitable));
    if (failed) co_return;
    if (services_.gate.closed()) {
      drain_.hurry();
    } else {
      begin_drain();
    }
  }
}

Task<> Front::leave_when_alone() {
  auto alone_since = Clock::now();
  while (!services_.gate.closed()) {
    co_await async::sleep_for(kPollAlone);
    if (services_.server.connections() > 0 || services_.registry.size() > 0) alone_since = Clock::now();
    if (!services_.gate.closed() && Clock::now() > alone_since + services_.options.leave_after) begin_drain();
  }
}

void Front::begin_drain() {
  drain_.begin();
  services_.tasks.spawn("finish", finish());
}

Task<> Front::finish() {
  if (!co_await drain_.run()) status_ = 1;
  services_.loop.stop();
}

}  // namespace

int run_front(FrontOptions options) {
  const Log log(options.config.log,
                std::make_shared<LogSink>(UniqueFd(::fcntl(options.log.get(), F_DUPFD_CLOEXEC, 3))));
  sys::raise_descriptor_limit();
  const auto failed = [&](const std::string& what) {
    log.error(what);
    return 1;
  };
  auto store = store::Store::open(options.directory, store::OnBroken::move_aside);
  if (!store) return failed(fmt::format("cannot open the store: {}", store.error().message));
  if (!(*store)->warning().empty()) log.error((*store)->warning());
  // A database that was lost with its keys does not open the server.
  options.needs_keys = options.needs_keys || (*store)->keys_may_be_lost();
  if (!options.files) {
    auto files = open_file_directory(options.directory + "/files", ::geteuid());
    if (!files) return failed(files.error().message);
    options.files = std::move(*files);
  }
  const auto sockets = options.directory + "/run";
  if (::mkdir(sockets.c_str(), 0700) != 0 && errno != EEXIST)
    return failed(fmt::format("cannot create {}: {}", sockets, std::strerror(errno)));
  auto run_dir = open_at(AT_FDCWD, sockets, O_RDONLY | O_DIRECTORY);
  if (!run_dir) return failed(run_dir.error().message);
  const auto front = std::make_unique<Front>(std::move(options), std::move(*store), std::move(*run_dir));
  return front->run();
}

}  // namespace cove::server
