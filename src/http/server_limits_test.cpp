#include <sys/resource.h>

#include "http/test_server.hpp"

namespace cove::http {
namespace {

using namespace testing_support;
using std::chrono::steady_clock;

Task<> health(Exchange& exchange) {
  auto sent = co_await exchange.send(text_response(200, "OK"));
  if (!sent) co_return;
}

Task<> body_size(Exchange& exchange) {
  auto body = co_await exchange.read_body(16 << 20);
  if (!body) co_return;
  auto sent = co_await exchange.send(text_response(200, std::to_string(body->size())));
  if (!sent) co_return;
}

class HttpLimits : public ServerTest {
 protected:
  HttpLimits() {
    router_.add(verb::get, "/healthz", health, {.access = Access::open});
    router_.add(verb::post, "/body", body_size);
    router_.add(verb::get, "/flood", [this](Exchange& exchange) { return flood(exchange); });
    router_.add(verb::get, "/trickle", [this](Exchange& exchange) { return flood(exchange); });
    router_.add(verb::get, "/wait", [this](Exchange& exchange) { return wait(exchange); });
    options_.linger_timeout = 200ms;
  }
  Task<> flood(Exchange& exchange) {
    auto ok = co_await exchange.start(text_response(200, ""));
    const std::string block(64 << 10, 'x');
    while (ok && exchange.bytes_out() < (std::uint64_t{1} << 30)) {
      ok = co_await exchange.write(block);
      flooded_ = exchange.bytes_out();
    }
    dropped_ = !ok && ok.error().code == Errc::unavailable && exchange.client_gone();
  }
  Task<> wait(Exchange& exchange) {
    waiting_ = true;
    co_await exchange.changed().wait();
  }
  // One whose request lasts.
  std::unique_ptr<Client> waiting_client() {
    waiting_ = false;
    auto client = std::make_unique<Client>(port_);
    client->send("GET /wait HTTP/1.1\r\nHost: localhost\r\n\r\n");
    EXPECT_TRUE(eventually([&] { return waiting_.load(); }));
    return client;
  }
  // How long until the server closes.
  std::chrono::milliseconds closes_after(Client& client) {
    const auto begin = steady_clock::now();
    EXPECT_TRUE(client.at_end());
    return std::chrono::duration_cast<std::chrono::milliseconds>(steady_clock::now() - begin);
  }
  std::atomic<bool> dropped_ = false;
  std::atomic<bool> waiting_ = false;
  std::atomic<std::uint64_t> flooded_ = 0;
};

TEST_F(HttpLimits, ClosesSilentConnections) {
  options_.head_timeout = 150ms;
  options_.idle_timeout = 400ms;
  start();
  Client silent(port_);
  EXPECT_LT(closes_after(silent), 2s);
  Client kept(port_);
  kept.send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
  kept.read();
  const auto idle = closes_after(kept);
  EXPECT_GE(idle, 300ms);
  EXPECT_LT(idle, 3s);
}

TEST_F(HttpLimits, ADribbledHeadHasADeadlineOfItsOwn) {
  options_.head_timeout = 300ms;
  start();
  Client client(port_);
  const std::string text = "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-A: " + std::string(100, 'a');
  const auto begin = steady_clock::now();
  bool taken = true;
  for (const char c : text) {
    taken = client.send(std::string(1, c));
    if (!taken) break;
    std::this_thread::sleep_for(30ms);
  }
  EXPECT_FALSE(taken);
  EXPECT_LT(steady_clock::now() - begin, 3s);
}

TEST_F(HttpLimits, ABodyMayNotStallNorDribble) {
  options_.body_idle_timeout = 300ms;
  options_.body_min_rate = 100'000;
  start();
  Client stalls(port_);
  stalls.send("POST /body HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nabc");
  EXPECT_LT(closes_after(stalls), 2s);
  Client dribbles(port_);
  dribbles.send("POST /body HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n");
  bool taken = true;
  int sent = 0;
  for (; taken && sent < 100; ++sent) {
    taken = dribbles.send("x");
    std::this_thread::sleep_for(30ms);
  }
  EXPECT_FALSE(taken) << "the minimal rate is not kept up";
  EXPECT_TRUE(eventually([&] { return connections() == 0; }));
}

TEST_F(HttpLimits, DropsAClientThatTakesNothing) {
  options_.write_timeout = 300ms;
  start();
  Client client(port_, 4096);
  client.send("GET /flood HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_TRUE(eventually([&] { return dropped_.load(); }, 10s));
  EXPECT_LT(flooded_, 64U << 20);
  EXPECT_EQ(ask("GET", "/healthz").status, 200);
  EXPECT_TRUE(eventually([&] { return connections() == 0; }));
}

TEST_F(HttpLimits, KeepsAClientThatIsSlow) {
  options_.write_timeout = 300ms;
  start();
  Client client(port_, 4096);
  client.send("GET /trickle HTTP/1.1\r\nHost: localhost\r\n\r\n");
  for (int i = 0; i < 15; ++i) {
    EXPECT_EQ(client.read_bytes(16 << 10).size(), 16U << 10) << i;
    std::this_thread::sleep_for(100ms);
  }
  EXPECT_FALSE(dropped_);
}

TEST_F(HttpLimits, TakesOnlySoManyConnections) {
  options_.max_connections = 3;
  start();
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 3; ++i) clients.push_back(waiting_client());
  Client further(port_);
  const auto reply = further.read();
  EXPECT_EQ(reply.status, 503);
  EXPECT_TRUE(reply.complete);
  EXPECT_EQ(reply.headers.at("retry-after"), "1");
  clients.clear();
  ASSERT_TRUE(eventually([&] { return connections() == 0; }));
  EXPECT_EQ(ask("GET", "/healthz").status, 200);
}

TEST_F(HttpLimits, TakesOnlySoManyOfOnePeer) {
  options_.max_per_peer = 2;
  start();
  const auto one = waiting_client();
  const auto two = waiting_client();
  Client three(port_);
  EXPECT_EQ(three.read().status, 503);
}

TEST_F(HttpLimits, ClosesTheOneThatIsNeededLeastForANewcomer) {
  options_.max_connections = 3;
  start();
  const auto busy = waiting_client();
  Client known(port_);
  known.send("POST /body HTTP/1.1\r\nHost: localhost\r\nX-API-Key: cove_right\r\nContent-Length: 0\r\n\r\n");
  EXPECT_EQ(known.read().status, 200);
  Client silent(port_);
  ASSERT_TRUE(eventually([&] { return connections() == 3; }));
  Client newcomer(port_);
  newcomer.send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_EQ(newcomer.read().status, 200);
  EXPECT_TRUE(silent.at_end()) << "has asked for nothing";
  EXPECT_TRUE(eventually([&] { return connections() == 3; }));
  known.send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_EQ(known.read().status, 200);
}

TEST_F(HttpLimits, ManySlowClientsDoNotHurtTheOthers) {
  options_.head_timeout = 500ms;
  start();
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 500; ++i) {
    clients.push_back(std::make_unique<Client>(port_));
    clients.back()->send("GET /healthz HT");
  }
  const auto begin = steady_clock::now();
  EXPECT_EQ(ask("GET", "/healthz").status, 200);
  EXPECT_LT(steady_clock::now() - begin, 300ms);
  EXPECT_TRUE(eventually([&] { return connections() == 0; }));
}

TEST_F(HttpLimits, GoesOnWhenDescriptorsRunOut) {
  start();
  ASSERT_EQ(ask("GET", "/healthz").status, 200);
  ASSERT_TRUE(eventually([&] { return connections() == 0; }));
  // The client's socket is made while there is still room; the server then finds none for its side.
  Client waits(port_);
  waits.send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
  ASSERT_EQ(waits.read().status, 200);
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  std::vector<UniqueFd> hoard;
  std::vector<UniqueFd> sockets;
  for (int i = 0; i < 3; ++i) sockets.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  rlimit small = limit;
  small.rlim_cur = 256;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &small), 0);
  for (;;) {
    UniqueFd fd(::dup(0));
    if (!fd) break;
    hoard.push_back(std::move(fd));
  }
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port_);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  for (auto& socket : sockets) {
    ASSERT_EQ(::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    const timeval patience{.tv_sec = 5, .tv_usec = 0};
    ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    char byte = 0;
    EXPECT_LE(::recv(socket.get(), &byte, 1, 0), 0) << "refused, not left hanging";
    EXPECT_NE(errno, EAGAIN);
    errno = 0;
  }
  waits.send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_EQ(waits.read().status, 200);
  hoard.clear();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_EQ(ask("GET", "/healthz").status, 200);
}

TEST_F(HttpLimits, DrainingClosesWhatIsIdleAndAnswersTheRest) {
  start();
  Client idle(port_);
  idle.send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_FALSE(idle.read().headers.contains("connection"));
  on_loop([this] {
    server_->drain();
    return true;
  });
  EXPECT_TRUE(idle.at_end());
  Client late(port_);
  late.send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
  const auto reply = late.read();
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.headers.at("connection"), "close");
  EXPECT_TRUE(late.at_end());
}

TEST_F(HttpLimits, StopsWithHandlersAtWork) {
  start();
  Client waits(port_);
  waits.send("GET /wait HTTP/1.1\r\nHost: localhost\r\n\r\n");
  Client idle(port_);
  Client uploads(port_);
  uploads.send("POST /body HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nabc");
  ASSERT_TRUE(eventually([&] { return waiting_.load() && connections() == 3; }));
  stop();
  EXPECT_TRUE(waits.at_end());
  EXPECT_TRUE(idle.at_end());
  EXPECT_EQ(escapes_, 0);
}

TEST_F(HttpLimits, ReloadTakesEffectOnTheNextRequest) {
  start();
  Client client(port_);
  client.send("GET /healthz HTTP/1.1\r\nHost: cove.example\r\n\r\n");
  EXPECT_EQ(client.read().status, 403);
  on_loop([this] {
    auto options = options_;
    options.allowed_hosts = {"cove.example"};
    server_->reload(options);
    return true;
  });
  Client next(port_);
  next.send("GET /healthz HTTP/1.1\r\nHost: cove.example\r\n\r\n");
  EXPECT_EQ(next.read().status, 200);
}

}  // namespace
}  // namespace cove::http
