#include "http/server.hpp"

#include <boost/json.hpp>
#include <stdexcept>

#include "http/test_server.hpp"

namespace cove::http {
namespace {

using namespace testing_support;

Task<> health(Exchange& exchange) {
  auto sent = co_await exchange.send(text_response(200, "OK"));
  if (!sent) co_return;
}

Task<> echo(Exchange& exchange) {
  const auto& request = exchange.request();
  const boost::json::value value = {{"id", request.param("id")},
                                    {"tenant", request.principal.tenant},
                                    {"q", request.query("q").value_or("")},
                                    {"forwarded", request.peer}};
  auto sent = co_await exchange.send(json_response(200, value));
  if (!sent) co_return;
}

Task<> body_size(Exchange& exchange) {
  auto body = co_await exchange.read_body(64 << 20);
  Response response;
  if (body) {
    response = text_response(200, std::to_string(body->size()) + ":" + body->substr(0, 20));
  } else {
    const bool large = body.error().code == Errc::over_limit;
    response = error_response(large ? 413 : 400, large ? "too_large" : "invalid", body.error().message);
  }
  auto sent = co_await exchange.send(std::move(response));
  if (!sent) co_return;
}

Task<> stream(Exchange& exchange) {
  Response head;
  head.content_type = "text/plain";
  auto ok = co_await exchange.start(std::move(head));
  for (const std::string_view part : {"one ", "", "two ", "three"}) {
    if (ok) ok = co_await exchange.write(part);
  }
  if (ok) ok = co_await exchange.finish();
}

Task<> fixed(Exchange& exchange) {
  auto ok = co_await exchange.start(text_response(200, ""), 5);
  if (ok) ok = co_await exchange.write("hel");
  if (ok) ok = co_await exchange.write("lo");
  if (ok) ok = co_await exchange.finish();
}

Task<> bad(Exchange& exchange) {
  const auto how = exchange.request().query("how").value_or("");
  if (how == "throw") throw std::runtime_error("a secret detail");
  if (how == "nothing") co_return;
  auto ok = co_await exchange.start(text_response(200, ""));
  if (ok) ok = co_await exchange.write("partial");
  if (how == "throw-late") throw std::runtime_error("late");
  if (how == "abort") exchange.abort();
}

Task<> hostile_headers(Exchange& exchange) {
  auto response = text_response(200, "x");
  response.headers = {{"X-Name", "a\r\nX-Evil: 1"}, {"Bad Name", "1"}, {"Content-Length", "99"}, {"X-Good", "1"}};
  auto sent = co_await exchange.send(std::move(response));
  if (!sent) co_return;
}

Task<> no_content(Exchange& exchange) {
  Response response;
  response.status = 204;
  auto sent = co_await exchange.send(std::move(response));
  if (!sent) co_return;
}

class HttpServer : public ServerTest {
 protected:
  HttpServer() {
    router_.add(verb::get, "/healthz", health, {.access = Access::open});
    router_.add(verb::get, "/echo/{id}", echo);
    router_.add(verb::post, "/body", body_size, {.body_limit = 64 << 20});
    router_.add(verb::post, "/small", body_size, {.body_limit = 10});
    router_.add(verb::post, "/unread", health, {.body_limit = 64 << 20});
    router_.add(verb::get, "/stream", stream);
    router_.add(verb::get, "/fixed", fixed);
    router_.add(verb::get, "/bad", bad);
    router_.add(verb::get, "/hostile", hostile_headers);
    router_.add(verb::delete_, "/thing", no_content);
    router_.add(verb::get, "/wait", [this](Exchange& exchange) { return wait(exchange); });
    router_.add(verb::get, "/page", health, {.access = Access::open, .navigable = true});
  }
  Task<> wait(Exchange& exchange) {
    ++waiting_;
    while (!exchange.client_gone()) co_await exchange.changed().wait();
    ++left_;
  }
  std::atomic<int> waiting_ = 0;
  std::atomic<int> left_ = 0;
};

TEST_F(HttpServer, AnswersWithItsHeaders) {
  start();
  const auto reply = ask("GET", "/healthz");
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.reason, "OK");
  EXPECT_EQ(reply.body, "OK");
  EXPECT_EQ(reply.headers.at("x-content-type-options"), "nosniff");
  EXPECT_EQ(reply.headers.at("content-security-policy"), "frame-ancestors 'none'");
  EXPECT_TRUE(reply.headers.at("x-request-id").starts_with("req_"));
  EXPECT_FALSE(reply.headers.contains("server"));
  EXPECT_FALSE(reply.headers.contains("connection"));
  EXPECT_FALSE(reply.headers.contains("access-control-allow-origin"));
}

TEST_F(HttpServer, ErrorsNameTheirRequest) {
  start();
  const auto reply = ask("GET", "/nothing", "X-Request-Id: mine-1\r\n");
  EXPECT_EQ(reply.status, 404);
  EXPECT_EQ(reply.reason, "Not Found");
  const auto body = boost::json::parse(reply.body);
  EXPECT_EQ(body.at("code"), "not_found");
  EXPECT_EQ(body.at("requestId"), "mine-1");
  EXPECT_EQ(reply.headers.at("x-request-id"), "mine-1");
}

TEST_F(HttpServer, ParametersAndQueriesAreDecoded) {
  start();
  const auto body = boost::json::parse(ask("GET", "/echo/a%2Fb?q=x+y%2B", "X-Forwarded-For: 1.2.3.4\r\n").body);
  EXPECT_EQ(body.at("id"), "a/b");
  EXPECT_EQ(body.at("q"), "x y+");
  EXPECT_TRUE(std::string_view(body.at("forwarded").as_string()).starts_with("127.0.0.1:"));
  EXPECT_EQ(ask("GET", "/echo/a%00").status, 400);
  EXPECT_EQ(ask("GET", "/echo/%zz").status, 400);
}

TEST_F(HttpServer, MethodsItDoesNotServe) {
  start();
  auto reply = ask("POST", "/healthz");
  EXPECT_EQ(reply.status, 405);
  EXPECT_EQ(reply.headers.at("allow"), "GET, HEAD");
  reply = ask("OPTIONS", "/echo/a",
              "Access-Control-Request-Method: GET\r\nAccess-Control-Request-Private-Network: true\r\n");
  EXPECT_EQ(reply.status, 405);
  for (const auto& [name, value] : reply.headers) EXPECT_FALSE(name.starts_with("access-control")) << name;
  EXPECT_EQ(ask("TRACE", "/healthz").status, 405);
  EXPECT_EQ(ask("BREW", "/healthz").status, 501);
}

TEST_F(HttpServer, HeadHasNoBody) {
  start();
  Client client(port_);
  client.send(
      "HEAD /healthz HTTP/1.1\r\nHost: localhost\r\n\r\nHEAD /stream HTTP/1.1\r\nHost: localhost\r\n\r\n"
      "HEAD /nothing HTTP/1.1\r\nHost: localhost\r\n\r\nGET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
  const auto reply = client.read(false);
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.headers.at("content-length"), "2");
  EXPECT_EQ(client.read(false).status, 200);
  EXPECT_EQ(client.read(false).status, 404);
  EXPECT_EQ(client.read().body, "OK");
}

TEST_F(HttpServer, NoContentHasNoLength) {
  start();
  const auto reply = ask("DELETE", "/thing");
  EXPECT_EQ(reply.status, 204);
  EXPECT_FALSE(reply.headers.contains("content-length"));
  EXPECT_FALSE(reply.headers.contains("content-type"));
}

TEST_F(HttpServer, KeepsConnectionsAsAsked) {
  start();
  Client keeps(port_);
  for (int i = 0; i < 3; ++i) {
    keeps.send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
    EXPECT_EQ(keeps.read().body, "OK");
  }
  keeps.send("GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(keeps.read().headers.at("connection"), "close");
  EXPECT_TRUE(keeps.at_end());
  Client old(port_);
  old.send("GET /healthz HTTP/1.0\r\n\r\n");
  EXPECT_EQ(old.read().headers.at("connection"), "close");
  EXPECT_TRUE(old.at_end());
  Client old_keeps(port_);
  old_keeps.send("GET /healthz HTTP/1.0\r\nConnection: keep-alive\r\n\r\nGET /healthz HTTP/1.0\r\n\r\n");
  EXPECT_EQ(old_keeps.read().headers.at("connection"), "keep-alive");
  EXPECT_EQ(old_keeps.read().body, "OK");
}

TEST_F(HttpServer, AnswersPipelinedRequestsInOrder) {
  start();
  Client client(port_);
  std::string text;
  for (int i = 0; i < 1000; ++i) {
    text += i % 2 == 0
                ? "GET /echo/" + std::to_string(i) + " HTTP/1.1\r\nHost: localhost\r\n\r\n"
                : "POST /body HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\n" + std::to_string(1000 + i);
  }
  std::thread sender([&] { client.send(text); });
  for (int i = 0; i < 1000; ++i) {
    const auto reply = client.read();
    if (i % 2 == 0) {
      ASSERT_EQ(std::string_view(boost::json::parse(reply.body).at("id").as_string()), std::to_string(i));
    } else {
      ASSERT_EQ(reply.body, "4:" + std::to_string(1000 + i));
    }
  }
  sender.join();
}

TEST_F(HttpServer, StreamsInChunksOrToTheEnd) {
  start();
  auto reply = ask("GET", "/stream");
  EXPECT_TRUE(reply.complete);
  EXPECT_EQ(reply.headers.at("transfer-encoding"), "chunked");
  EXPECT_EQ(reply.body, "one two three");
  Client old(port_);
  old.send("GET /stream HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  reply = old.read();
  EXPECT_FALSE(reply.headers.contains("transfer-encoding"));
  EXPECT_EQ(reply.headers.at("connection"), "close");
  EXPECT_EQ(reply.body, "one two three");
  EXPECT_TRUE(reply.complete);
  EXPECT_EQ(ask("GET", "/fixed").body, "hello");
}

TEST_F(HttpServer, StaysUpWhenHandlersFail) {
  start();
  auto reply = ask("GET", "/bad?how=throw");
  EXPECT_EQ(reply.status, 500);
  EXPECT_EQ(reply.body.find("secret"), std::string::npos);
  EXPECT_EQ(escapes_, 1);
  EXPECT_EQ(ask("GET", "/bad?how=nothing").status, 500);
  for (const std::string how : {"throw-late", "abort", "unfinished"}) {
    EXPECT_FALSE(ask("GET", "/bad?how=" + how).complete) << how;
  }
  EXPECT_EQ(ask("GET", "/healthz").status, 200);
  EXPECT_TRUE(eventually([&] { return connections() == 0; }));
}

TEST_F(HttpServer, HandlersCannotBreakTheHead) {
  start();
  const auto reply = ask("GET", "/hostile");
  EXPECT_EQ(reply.headers.at("x-name"), "a  X-Evil: 1");
  EXPECT_FALSE(reply.headers.contains("x-evil"));
  EXPECT_FALSE(reply.headers.contains("bad name"));
  EXPECT_EQ(reply.headers.at("content-length"), "1");
  EXPECT_EQ(reply.headers.at("x-good"), "1");
}

// --- bodies

TEST_F(HttpServer, ReadsBodiesOfBothFramings) {
  start();
  EXPECT_EQ(ask("POST", "/body", "", "hello").body, "5:hello");
  EXPECT_EQ(ask("POST", "/body", "Content-Length: 0\r\n").body, "0:");
  EXPECT_EQ(ask("POST", "/body").body, "0:");
  const std::string large(5 << 20, 'x');
  EXPECT_EQ(ask("POST", "/body", "", large).body, std::to_string(large.size()) + ":" + std::string(20, 'x'));
  Client client(port_);
  client.send("POST /body HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n");
  std::this_thread::sleep_for(20ms);
  client.send("6\r\n world\r\n0\r\nX-Trailer: 1\r\n\r\nGET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_EQ(client.read().body, "11:hello world");
  EXPECT_EQ(client.read().body, "OK");
}

TEST_F(HttpServer, RefusesBodiesOverTheLimitOfTheRoute) {
  start();
  EXPECT_EQ(ask("POST", "/small", "", "0123456789").status, 200);
  EXPECT_EQ(ask("POST", "/small", "", "0123456789a").status, 413);
  Client client(port_);
  client.send(
      "POST /small HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: "
      "chunked\r\n\r\n6\r\nabcdef\r\n6\r\nabcdef\r\n0\r\n\r\n"
      "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_EQ(client.read().status, 413);
  EXPECT_EQ(client.read().body, "OK");
  const auto huge = ask("POST", "/small", "Content-Length: 10737418240\r\n");
  EXPECT_EQ(huge.status, 413);
  EXPECT_EQ(huge.headers.at("connection"), "close");
}

TEST_F(HttpServer, BadChunksEndTheConnection) {
  start();
  for (const std::string chunks :
       {"ffffffffffffffff\r\n", "5;ext=1\r\nhello\r\n0\r\n\r\n", "5\nhello\r\n0\r\n\r\n", "zz\r\n"}) {
    Client client(port_);
    client.send("POST /body HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks +
                "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
    const auto reply = client.read();
    EXPECT_EQ(reply.status, 400) << chunks;
    EXPECT_EQ(reply.headers.at("connection"), "close") << chunks;
    EXPECT_TRUE(client.at_end()) << chunks;
  }
}

TEST_F(HttpServer, DrainsABodyNobodyWantsBeforeTheNextRequest) {
  start();
  const std::string body(20 << 20, 'x');
  for (const std::string target : {"/small", "/nothing", "/unread", "/echo/%zz"}) {
    Client client(port_);
    // As Python's urllib does: everything is sent before anything is read.
    ASSERT_TRUE(client.send("POST " + target + " HTTP/1.1\r\nHost: localhost\r\nContent-Length: " +
                            std::to_string(body.size()) + "\r\n\r\n"));
    ASSERT_TRUE(client.send(body)) << target;
    const auto reply = client.read();
    EXPECT_TRUE(reply.complete) << target;
    EXPECT_EQ(reply.status, target == "/small" ? 413 : target == "/nothing" ? 404 : target == "/unread" ? 200 : 400);
    client.send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
    EXPECT_EQ(client.read().body, "OK") << target;
  }
}

TEST_F(HttpServer, RefusesAHundredMegabytesAndIsHeard) {
  start();
  Client client(port_);
  const std::string piece(1 << 20, 'x');
  client.send("POST /small HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: " +
              std::to_string(120 << 20) + "\r\n\r\n");
  for (int i = 0; i < 120; ++i) ASSERT_TRUE(client.send(piece)) << i;
  const auto reply = client.read();
  EXPECT_EQ(reply.status, 413);
  EXPECT_TRUE(reply.complete);
  EXPECT_TRUE(client.at_end());
  EXPECT_FALSE(client.was_reset());
}

TEST_F(HttpServer, SaysContinueOnlyWhenItWantsTheBody) {
  start();
  Client wanted(port_);
  wanted.send("POST /body HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(wanted.read().status, 100);
  wanted.send("hello");
  EXPECT_EQ(wanted.read().body, "5:hello");
  Client refused(port_);
  refused.send("POST /small HTTP/1.1\r\nHost: localhost\r\nContent-Length: 11\r\nExpect: 100-continue\r\n\r\n");
  const auto reply = refused.read();
  EXPECT_EQ(reply.status, 413);
  EXPECT_EQ(reply.headers.at("connection"), "close");
  EXPECT_TRUE(refused.at_end());
}

TEST_F(HttpServer, RefusesEncodedBodies) {
  start();
  for (const std::string coding : {"gzip", "br", "zstd", "identity, gzip"}) {
    EXPECT_EQ(ask("POST", "/body", "Content-Encoding: " + coding + "\r\n", "x").status, 415) << coding;
  }
  EXPECT_EQ(ask("POST", "/body", "Content-Encoding: identity\r\n", "x").status, 200);
}

// --- who may ask

TEST_F(HttpServer, WithoutAKeyEveryRouteLooksTheSame) {
  keys_.is_open = false;
  start();
  std::string first;
  for (const std::string target : {"/echo/a", "/nothing", "/v1/sandboxes", "/stream"}) {
    for (const std::string method : {"GET", "POST", "DELETE", "OPTIONS"}) {
      const auto reply = ask(method, target, "X-Request-Id: same\r\n");
      EXPECT_EQ(reply.status, 401) << method << target;
      EXPECT_EQ(reply.headers.at("www-authenticate"), "Bearer");
      if (first.empty()) first = reply.body;
      EXPECT_EQ(reply.body, first);
    }
  }
  EXPECT_EQ(ask("GET", "/healthz").status, 200);
  EXPECT_EQ(ask("GET", "/echo/a", "Cookie: key=cove_right\r\n").status, 401);
  EXPECT_EQ(ask("GET", "/echo/a", "Sec-WebSocket-Protocol: cove_right\r\n").status, 401);
  const auto tenant = [&](const std::string& target, const std::string& lines) {
    const auto reply = ask("GET", target, lines);
    return reply.status == 200 ? std::string(boost::json::parse(reply.body).at("tenant").as_string())
                               : std::to_string(reply.status);
  };
  EXPECT_EQ(tenant("/echo/a", "Authorization: Bearer cove_right\r\n"), "acme");
  EXPECT_EQ(tenant("/echo/a", "X-API-Key: cove_right\r\n"), "acme");
  EXPECT_EQ(tenant("/echo/a", "Authorization: Basic Y292ZV9yaWdodDo=\r\n"), "acme");
  EXPECT_EQ(tenant("/cove_right/echo/a", ""), "acme");
  EXPECT_EQ(tenant("/cove_wrong/echo/a", ""), "401");
  EXPECT_EQ(tenant("/echo/a", "Authorization: Bearer cove_right\r\nAuthorization: Bearer cove_right\r\n"), "401");
}

TEST_F(HttpServer, AnOpenServerStillRefusesAWrongKey) {
  start();
  EXPECT_EQ(ask("GET", "/echo/a").status, 200);
  EXPECT_EQ(ask("GET", "/echo/a", "Authorization: Bearer something\r\n").status, 200);
  EXPECT_EQ(ask("GET", "/echo/a", "Authorization: Bearer cove_wrong\r\n").status, 401);
  EXPECT_EQ(ask("GET", "/cove_wrong/echo/a").status, 401);
}

TEST_F(HttpServer, ThrottlesWrongKeysAndNobodyElse) {
  keys_.is_open = false;
  options_.throttle.burst = 5;
  options_.throttle.per_second = 0.001;
  start();
  std::map<int, int> statuses;
  for (int i = 0; i < 20; ++i) ++statuses[ask("GET", "/echo/a", "X-API-Key: cove_wrong\r\n").status];
  EXPECT_EQ(statuses, (std::map<int, int>{{401, 5}, {429, 15}}));
  EXPECT_EQ(ask("GET", "/echo/a", "X-API-Key: cove_wrong\r\n").headers.at("retry-after"), "1");
  EXPECT_EQ(ask("GET", "/echo/a", "X-API-Key: cove_right\r\n").status, 200);
  EXPECT_EQ(ask("GET", "/echo/a").status, 401);
}

TEST_F(HttpServer, LogsNoKeys) {
  start();
  ask("GET", "/cove_right/echo/a?k=cove_other", "User-Agent: x cove_third\r\n");
  ASSERT_TRUE(eventually([&] { return records().size() == 1; }));
  const auto record = records().front();
  EXPECT_EQ(record.target, "/cove_***/echo/a?k=cove_***");
  EXPECT_EQ(record.user_agent, "x cove_***");
  EXPECT_EQ(record.status, 200U);
  EXPECT_EQ(record.tenant, "acme");
  EXPECT_EQ(record.method, "GET");
}

TEST_F(HttpServer, ForeignHostsAndOriginsAreRefusedEverywhere) {
  start();
  const auto status = [&](const std::string& lines, const std::string& target = "/echo/a") {
    Client client(port_);
    client.send("GET " + target + " HTTP/1.1\r\n" + lines + "\r\n");
    return client.read().status;
  };
  const auto ours = "localhost:" + std::to_string(port_);
  for (const std::string target : {"/echo/a", "/healthz", "/nothing", "/wait"}) {
    EXPECT_EQ(status("Host: evil.test\r\n", target), 403) << target;
    EXPECT_EQ(status("Host: " + ours + "\r\nOrigin: http://evil.test\r\n", target), 403) << target;
    EXPECT_EQ(status("Host: " + ours + "\r\nSec-Fetch-Site: cross-site\r\n", target), 403) << target;
  }
  EXPECT_EQ(status("Host: " + ours + "\r\nOrigin: http://" + ours + "\r\n"), 200);
  EXPECT_EQ(status("Host: localhost:1\r\n"), 403);
  EXPECT_EQ(status("Host: localhost\r\n", "http://evil.test/echo/a"), 403);
  EXPECT_EQ(status("Host: localhost\r\n", "http://" + ours + "/echo/a"), 200);
  EXPECT_EQ(
      status("Host: localhost\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n"),
      200);
}

TEST_F(HttpServer, CrossSiteFormsChangeNothing) {
  start();
  for (const std::string type :
       {"text/plain", "multipart/form-data; boundary=x", "application/x-www-form-urlencoded"}) {
    EXPECT_EQ(ask("POST", "/body", "Origin: null\r\nContent-Type: " + type + "\r\n", "a=b").status, 403) << type;
    EXPECT_EQ(ask("POST", "/body", "Sec-Fetch-Site: cross-site\r\nContent-Type: " + type + "\r\n", "a=b").status, 403)
        << type;
  }
}

// --- clients that leave

TEST_F(HttpServer, HandlersHearThatTheClientIsGone) {
  start();
  for (const std::string how : {"close", "reset", "after-pipelining"}) {
    waiting_ = left_ = 0;
    Client client(port_);
    client.send("GET /wait HTTP/1.1\r\nHost: localhost\r\n\r\n");
    ASSERT_TRUE(eventually([&] { return waiting_ == 1; }));
    if (how == "after-pipelining") {
      client.send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
      std::this_thread::sleep_for(20ms);
      EXPECT_EQ(left_, 0);
    }
    how == "reset" ? client.reset() : client.close();
    EXPECT_TRUE(eventually([&] { return left_ == 1; })) << how;
  }
  EXPECT_TRUE(eventually([&] { return connections() == 0; }));
}

TEST_F(HttpServer, AHalfClosedClientStillGetsItsAnswer) {
  start();
  Client client(port_);
  client.send("POST /body HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello");
  client.half_close();
  EXPECT_EQ(client.read().body, "5:hello");
  EXPECT_TRUE(client.at_end());
}

TEST_F(HttpServer, AnyStateMayBeTheLast) {
  start();
  const std::string whole =
      "POST /body HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
  for (std::size_t size = 0; size < whole.size(); ++size) {
    Client client(port_);
    client.send(std::string_view(whole).substr(0, size));
    if (size % 3 == 0) client.reset();
    if (size % 3 == 1) client.half_close();
  }
  Client noise(port_);
  noise.send(std::string(1 << 20, '\x03'));
  noise.close();
  EXPECT_EQ(ask("GET", "/healthz").status, 200);
  EXPECT_TRUE(eventually([&] { return connections() == 0; }));
}

TEST_F(HttpServer, BytesAfterARefusedHeadAreNotARequest) {
  start();
  for (const std::string lines : {"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "Content-Length: +5\r\n",
                                  "Host: a\r\n", "Content-Length : 5\r\n", "X: y\r\n z\r\n"}) {
    Client client(port_);
    client.send("POST /body HTTP/1.1\r\nHost: localhost\r\n" + lines +
                "\r\n0\r\n\r\nGET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
    const auto reply = client.read();
    EXPECT_EQ(reply.status, 400) << lines;
    EXPECT_TRUE(reply.complete) << lines;
    EXPECT_TRUE(client.at_end()) << lines;
  }
}

}  // namespace
}  // namespace cove::http
