#include "base/text.hpp"
#include "http/test_server.hpp"

namespace cove::http {
namespace {

using namespace testing_support;

class Scope : public ServerTest {
 protected:
  void SetUp() override {
    options_.scope_header = "X-Room";
    options_.unknown_scope = [](std::string_view scope) { return "room not found: " + std::string(scope); };
    const auto tell = [](Exchange& exchange) -> async::Task<> {
      auto answer = text_response(200, "[" + exchange.request().scope + "]");
      [[maybe_unused]] const auto sent = co_await exchange.send(std::move(answer));
    };
    router_.add(verb::get, "/scoped", tell, {.scoped = true});
    router_.add(verb::get, "/token", tell, {.scoped = true, .query_token = true});
    router_.add(verb::get, "/open", tell, {.access = Access::open, .scoped = true});
    router_.add(verb::get, "/plain", tell);
    start();
  }
  void TearDown() override {
    stop();
    for (auto& served : serving_) EXPECT_EQ(served.wait_for(5s), std::future_status::ready);
  }

  // A listener of its own; the requests that follow go there.
  std::shared_ptr<const Binding> bind(Binding binding) {
    namespace asio = boost::asio;
    const auto bound = std::make_shared<const Binding>(std::move(binding));
    port_ = on_loop([&] {
      asio::ip::tcp::acceptor acceptor(io_, {asio::ip::address_v4::loopback(), 0});
      const auto port = acceptor.local_endpoint().port();
      serving_.push_back(asio::co_spawn(io_, server_->serve(std::move(acceptor), bound), asio::use_future));
      return port;
    });
    return bound;
  }
  static std::string basic(std::string_view pair) { return "Authorization: Basic " + base64(pair) + "\r\n"; }

  std::vector<std::future<void>> serving_;
};

TEST_F(Scope, IsNamedByAHeaderOrByTheUser) {
  EXPECT_EQ(ask("GET", "/scoped").body, "[]");
  EXPECT_EQ(ask("GET", "/scoped", "X-Room: red\r\n").body, "[red]");
  EXPECT_EQ(ask("GET", "/scoped", basic("red:")).body, "[red]");
  EXPECT_EQ(ask("GET", "/scoped", basic("red:cove_right")).body, "[red]");
  EXPECT_EQ(ask("GET", "/scoped", basic("cove_right:")).body, "[]");
  EXPECT_EQ(ask("GET", "/open", basic("red:anything")).body, "[red]");
  // The header is for us alone; the user may be meant for a proxy.
  EXPECT_EQ(ask("GET", "/scoped", "X-Room: red\r\n" + basic("blue:")).body, "[red]");
  EXPECT_EQ(ask("GET", "/plain", "X-Room: red\r\n" + basic("red:")).body, "[]");
}

TEST_F(Scope, NeedsTheKeyWhereKeysAreNeeded) {
  keys_.is_open = false;
  EXPECT_EQ(ask("GET", "/scoped", basic("red:cove_right")).body, "[red]");
  EXPECT_EQ(ask("GET", "/scoped", "X-Room: red\r\nAuthorization: token cove_right\r\n").body, "[red]");
  EXPECT_EQ(ask("GET", "/scoped", basic("red:cove_wrong")).status, 401);
  EXPECT_EQ(ask("GET", "/scoped", basic("red:")).status, 401);
  EXPECT_EQ(ask("GET", "/scoped", "X-Room: red\r\nAuthorization: token \r\n").status, 401);
}

TEST_F(Scope, MustBeOneNameAsText) {
  EXPECT_EQ(ask("GET", "/scoped", "X-Room: red\r\nX-Room: blue\r\n").status, 400);
  EXPECT_EQ(ask("GET", "/scoped", basic("\xff:")).status, 400);
  EXPECT_EQ(ask("GET", "/scoped", basic("r\ned:")).status, 400);
}

TEST_F(Scope, OfTheListenerWins) {
  bind({.scope = "red", .tenant = ""});
  EXPECT_EQ(ask("GET", "/scoped").body, "[red]");
  EXPECT_EQ(ask("GET", "/scoped", "X-Room: red\r\n").body, "[red]");
  EXPECT_EQ(ask("GET", "/scoped", basic("red:x")).body, "[red]");
  for (const auto& line : {std::string("X-Room: blue\r\n"), basic("blue:x")}) {
    const auto reply = ask("GET", "/scoped", line);
    EXPECT_EQ(reply.status, 404);
    EXPECT_NE(reply.body.find("room not found: blue"), std::string::npos) << reply.body;
  }
  EXPECT_EQ(ask("GET", "/plain").status, 404);
  EXPECT_EQ(ask("POST", "/plain").status, 404);
}

TEST_F(Scope, OfTheListenerIsItsOwners) {
  bind({.scope = "red", .tenant = "acme"});
  EXPECT_EQ(ask("GET", "/scoped", "X-API-Key: cove_right\r\n").body, "[red]");
  const auto reply = ask("GET", "/scoped");  // by another tenant
  EXPECT_EQ(reply.status, 404);
  EXPECT_NE(reply.body.find("room not found: red"), std::string::npos) << reply.body;
}

TEST_F(Scope, EndsWithItsListener) {
  const auto main = port_;
  const auto binding = bind({.scope = "red", .tenant = ""});
  Client kept(port_);
  kept.send("GET /scoped HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_EQ(kept.read().body, "[red]");
  on_loop([&] {
    server_->end(binding);
    return true;
  });
  EXPECT_TRUE(kept.at_end());
  EXPECT_EQ(serving_.back().wait_for(5s), std::future_status::ready);
  EXPECT_FALSE(Client(port_).connected());
  port_ = main;
  EXPECT_EQ(ask("GET", "/scoped").body, "[]");
}

TEST_F(Scope, TokensOfTheQueryAreKeysWhereTheRouteTakesThem) {
  keys_.is_open = false;
  EXPECT_EQ(ask("GET", "/token?token=cove_right").status, 200);
  EXPECT_EQ(ask("GET", "/token?token=wrong").status, 401);
  EXPECT_EQ(ask("GET", "/token?token=").status, 401);
  EXPECT_EQ(ask("GET", "/scoped?token=cove_right").status, 401);
  EXPECT_TRUE(eventually([this] { return records().size() == 4; }));
  for (const auto& record : records()) EXPECT_NE(record.target.find("token=***"), std::string::npos) << record.target;
}

}  // namespace
}  // namespace cove::http
