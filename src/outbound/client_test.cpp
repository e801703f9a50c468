#include "outbound/client.hpp"

#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/asio/write.hpp>
#include <cstdio>
#include <functional>
#include <future>
#include <mutex>
#include <thread>

namespace cove::outbound {
namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;
using Tcp = asio::ip::tcp;

// A real server of one thread: each connection is given the next of the replies, and what was asked is kept.
class Server {
 public:
  using Reply = std::function<std::string(const std::string& asked)>;

  explicit Server(Reply reply, asio::ssl::context* tls = nullptr)
      : acceptor_(io_, {asio::ip::address_v4::loopback(), 0}), reply_(std::move(reply)), tls_(tls) {
    thread_ = std::thread([this] { serve(); });
  }
  ~Server() {
    closing_ = true;
    boost::system::error_code ignored;
    Tcp::socket wake(io_);
    wake.connect(acceptor_.local_endpoint(), ignored);
    thread_.join();
  }
  std::atomic<bool> goodbye = true;  // whether TLS is told that the connection ends

  [[nodiscard]] std::uint16_t port() const { return acceptor_.local_endpoint().port(); }
  [[nodiscard]] HostPort host_port(std::string host = "127.0.0.1") const {
    return {.host = std::move(host), .port = port()};
  }
  [[nodiscard]] Url url(std::string_view target, std::string_view scheme = "http") const {
    return parse_url(fmt::format("{}://127.0.0.1:{}{}", scheme, port(), target)).value();
  }
  std::vector<std::string> asked() {
    const std::scoped_lock lock(mutex_);
    return asked_;
  }

 private:
  template <class Stream>
  void answer(Stream& stream) {
    boost::system::error_code failed;
    std::string input;
    const auto size = asio::read_until(stream, asio::dynamic_buffer(input, 1 << 20), "\r\n\r\n", failed);
    if (failed) return;
    if (const auto at = input.find("Content-Length: "); at != input.npos && at < size) {
      const auto length = std::stoul(input.substr(at + 16));
      while (input.size() < size + length && !failed) {
        std::array<char, 4096> more{};
        const auto count = stream.read_some(asio::buffer(more), failed);
        input.append(more.data(), count);
      }
    }
    {
      const std::scoped_lock lock(mutex_);
      asked_.push_back(input);
    }
    const auto reply = reply_(input);
    asio::write(stream, asio::buffer(reply), failed);
  }
  void serve() {
    while (true) {
      boost::system::error_code failed;
      Tcp::socket socket(io_);
      acceptor_.accept(socket, failed);
      if (closing_ || failed) return;
      if (tls_ == nullptr) {
        answer(socket);
        continue;
      }
      asio::ssl::stream<Tcp::socket> stream(std::move(socket), *tls_);
      stream.handshake(asio::ssl::stream_base::server, failed);
      if (failed) continue;
      answer(stream);
      if (goodbye) stream.shutdown(failed);
    }
  }

  asio::io_context io_;
  Tcp::acceptor acceptor_;
  Reply reply_;
  asio::ssl::context* tls_;
  std::atomic<bool> closing_ = false;
  std::mutex mutex_;
  std::vector<std::string> asked_;
  std::thread thread_;
};

std::string with_length(std::string_view body, std::string_view status = "200 OK", std::string_view lines = "") {
  return fmt::format("HTTP/1.1 {}\r\nContent-Length: {}\r\n{}\r\n{}", status, body.size(), lines, body);
}

class OutboundClient : public testing::Test {
 protected:
  Result<Response> ask(Request request, const std::string& ca_file = "") {
    asio::io_context loop(1);
    Client client(loop.get_executor(), {.ca_file = ca_file});
    if (request.until == std::chrono::steady_clock::time_point{})
      request.until = std::chrono::steady_clock::now() + 20s;
    auto answer = asio::co_spawn(loop, client.send(std::move(request)), asio::use_future);
    loop.run();
    return answer.get();
  }
};

TEST_F(OutboundClient, SendsARequestAndReadsTheAnswer) {
  Server server([](const auto&) { return with_length("hello", "201 Created", "X-Thing: yes\r\n"); });
  Request request{.method = "POST", .url = server.url("/path?q=1"), .headers = {{"X-Mine", "1"}}, .body = "content"};
  request.reach.allowed = {server.host_port()};
  const auto answer = ask(std::move(request));
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(answer->head.status, 201U);
  EXPECT_EQ(answer->head.header("x-thing"), "yes");
  EXPECT_EQ(answer->body, "hello");
  const auto asked = server.asked().at(0);
  EXPECT_TRUE(asked.starts_with("POST /path?q=1 HTTP/1.1\r\n")) << asked;
  EXPECT_NE(asked.find(fmt::format("Host: 127.0.0.1:{}\r\n", server.port())), asked.npos);
  EXPECT_NE(asked.find("X-Mine: 1\r\n"), asked.npos);
  EXPECT_TRUE(asked.ends_with("\r\n\r\ncontent"));
}

TEST_F(OutboundClient, ReadsChunksAndBodiesThatEndWithTheConnection) {
  int count = 0;
  Server server([&count](const auto&) {
    return ++count == 1 ? "HTTP/1.1 103 Early\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: "
                          "chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
                        : "HTTP/1.1 200 OK\r\n\r\nto the end";
  });
  EXPECT_EQ(ask({.url = server.url("/"), .reach = {.allowed = {server.host_port()}}, .until = {}}).value().body,
            "abcde");
  EXPECT_EQ(ask({.url = server.url("/"), .reach = {.allowed = {server.host_port()}}, .until = {}}).value().body,
            "to the end");
}

TEST_F(OutboundClient, DialsNoPrivateAddressThatIsNotListedByNameAndPort) {
  Server server([](const auto&) { return with_length("secret"); });
  const auto refused = [&](Url url, std::vector<HostPort> allowed) {
    const auto answer = ask({.url = std::move(url), .reach = {.allowed = std::move(allowed)}, .until = {}});
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().code, Errc::denied) << answer.error().message;
  };
  refused(server.url("/"), {});
  refused(parse_url(fmt::format("http://localhost:{}/", server.port())).value(), {server.host_port()});
  refused(parse_url(fmt::format("http://[::ffff:127.0.0.1]:{}/", server.port())).value(), {server.host_port()});
  refused(server.url("/"), {{"127.0.0.1", static_cast<std::uint16_t>(server.port() + 1)}});
  EXPECT_TRUE(server.asked().empty());
  EXPECT_TRUE(ask({.url = parse_url(fmt::format("http://localhost:{}/", server.port())).value(),
                   .reach = {.allowed = {server.host_port("localhost")}},
                   .until = {}}));
}

TEST_F(OutboundClient, FollowsRedirectsOnlyWhenAskedAndJudgesEach) {
  Server inner([](const auto&) { return with_length("inner"); });
  Server server([&inner](const auto& asked) {
    return asked.starts_with("GET /there") ? with_length("there")
           : asked.find("GET /in") == 0
               ? with_length("", "302 Found", fmt::format("Location: http://127.0.0.1:{}/\r\n", inner.port()))
               : with_length("", "303 See Other", "Location: /there\r\n");
  });
  const Reach reach{.allowed = {server.host_port()}};
  EXPECT_EQ(ask({.url = server.url("/"), .reach = reach, .until = {}}).value().head.status, 303U);
  const auto followed =
      ask({.method = "POST", .url = server.url("/"), .body = "x", .reach = reach, .until = {}, .redirects = 2});
  ASSERT_TRUE(followed) << followed.error().message;
  EXPECT_EQ(followed->body, "there");
  EXPECT_EQ(followed->head.url.target, "/there");
  const auto inside = ask({.url = server.url("/in"), .reach = reach, .until = {}, .redirects = 2});
  ASSERT_FALSE(inside);
  EXPECT_EQ(inside.error().code, Errc::denied);
  EXPECT_TRUE(inner.asked().empty());
}

TEST_F(OutboundClient, ForgetsCredentialsOnTheWayToAnotherPlace) {
  Server other([](const auto&) { return with_length("other"); });
  Server server([&other](const auto&) {
    return with_length("", "307 Temporary", fmt::format("Location: http://127.0.0.1:{}/\r\n", other.port()));
  });
  Request request{.url = server.url("/"), .headers = {{"Authorization", "Bearer x"}, {"X-Kept", "1"}}};
  request.reach.allowed = {server.host_port(), other.host_port()};
  request.redirects = 1;
  EXPECT_EQ(ask(std::move(request)).value().body, "other");
  EXPECT_NE(server.asked().at(0).find("Bearer x"), std::string::npos);
  EXPECT_EQ(other.asked().at(0).find("Bearer x"), std::string::npos);
  EXPECT_NE(other.asked().at(0).find("X-Kept"), std::string::npos);
}

TEST_F(OutboundClient, StopsAtTheLimitWhateverTheAnswerAnnounces) {
  int count = 0;
  Server server([&count](const auto&) {
    return ++count == 1 ? with_length(std::string(1000, 'x')) : "HTTP/1.1 200 OK\r\n\r\n" + std::string(1 << 20, 'x');
  });
  for (int i = 0; i < 2; ++i) {
    const auto answer =
        ask({.url = server.url("/"), .reach = {.allowed = {server.host_port()}}, .until = {}, .max_body_bytes = 999});
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().code, Errc::over_limit) << answer.error().message;
  }
}

TEST_F(OutboundClient, GivesUpWhenTheTimeIsOver) {
  std::promise<void> enough;
  Server server([&enough](const auto&) {
    enough.get_future().wait();
    return std::string();
  });
  const auto answer = ask({.url = server.url("/"),
                           .reach = {.allowed = {server.host_port()}},
                           .until = std::chrono::steady_clock::now() + 200ms});
  enough.set_value();
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, Errc::unavailable);
  EXPECT_EQ(answer.error().sys_errno, ETIMEDOUT) << answer.error().message;
}

TEST_F(OutboundClient, StopsWhenNobodyWaitsAnyMore) {
  std::promise<void> enough;
  Server server([&enough](const auto&) {
    enough.get_future().wait();
    return std::string();
  });
  Request request{.url = server.url("/"), .reach = {.allowed = {server.host_port()}}, .until = {}};
  request.abandoned = [&server] { return !server.asked().empty(); };
  const auto answer = ask(std::move(request));
  enough.set_value();
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, Errc::unavailable);
  EXPECT_EQ(answer.error().sys_errno, 0) << answer.error().message;
}

TEST_F(OutboundClient, TellsWhatWentWrong) {
  Server server([](const auto&) { return "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort"; });
  const auto cut = ask({.url = server.url("/"), .reach = {.allowed = {server.host_port()}}, .until = {}});
  ASSERT_FALSE(cut);
  EXPECT_EQ(cut.error().code, Errc::unavailable);
  Server nonsense([](const auto&) { return "SSH-2.0-OpenSSH\r\n\r\n"; });
  EXPECT_FALSE(ask({.url = nonsense.url("/"), .reach = {.allowed = {nonsense.host_port()}}, .until = {}}));
  const auto nobody = ask({.url = parse_url("http://nobody.invalid/").value(), .until = {}});
  ASSERT_FALSE(nobody);
  EXPECT_EQ(nobody.error().code, Errc::unavailable);
  Request injected{.url = server.url("/"), .headers = {{"X-A", "1\r\nX-B: 2"}}};
  injected.reach.allowed = {server.host_port()};
  EXPECT_EQ(ask(std::move(injected)).error().code, Errc::invalid);
}

// A certificate for 127.0.0.1 that nobody else has signed.
class Certificate {
 public:
  Certificate() {
    key_ = EVP_RSA_gen(2048);
    certificate_ = X509_new();
    X509_set_version(certificate_, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate_), 1);
    X509_gmtime_adj(X509_getm_notBefore(certificate_), -60);
    X509_gmtime_adj(X509_getm_notAfter(certificate_), 3600);
    X509_set_pubkey(certificate_, key_);
    auto* name = X509_get_subject_name(certificate_);
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>("test"), -1, -1, 0);
    X509_set_issuer_name(certificate_, name);
    auto* names = X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, "IP:127.0.0.1");
    X509_add_ext(certificate_, names, -1);
    X509_EXTENSION_free(names);
    X509_sign(certificate_, key_, EVP_sha256());
    file_ = testing::TempDir() + fmt::format("cove-outbound-{}.pem", ::getpid());
    auto* out = std::fopen(file_.c_str(), "w");
    PEM_write_X509(out, certificate_);
    std::fclose(out);
    SSL_CTX_use_certificate(context_.native_handle(), certificate_);
    SSL_CTX_use_PrivateKey(context_.native_handle(), key_);
  }
  ~Certificate() {
    std::remove(file_.c_str());
    X509_free(certificate_);
    EVP_PKEY_free(key_);
  }
  asio::ssl::context& server() { return context_; }
  [[nodiscard]] const std::string& file() const { return file_; }

 private:
  asio::ssl::context context_{asio::ssl::context::tls_server};
  EVP_PKEY* key_ = nullptr;
  X509* certificate_ = nullptr;
  std::string file_;
};

TEST_F(OutboundClient, VerifiesCertificatesAndTheirNames) {
  Certificate certificate;
  Server server([](const auto&) { return with_length("kept from others"); }, &certificate.server());
  const Reach reach{.allowed = {server.host_port(), server.host_port("localhost")}};
  const auto good = ask({.url = server.url("/", "https"), .reach = reach, .until = {}}, certificate.file());
  ASSERT_TRUE(good) << good.error().message;
  EXPECT_EQ(good->body, "kept from others");

  const auto unknown = ask({.url = server.url("/", "https"), .reach = reach, .until = {}});
  ASSERT_FALSE(unknown);
  EXPECT_NE(unknown.error().message.find("certificate"), std::string::npos) << unknown.error().message;

  const auto other_name = parse_url(fmt::format("https://localhost:{}/", server.port())).value();
  const auto named = ask({.url = other_name, .reach = reach, .until = {}}, certificate.file());
  ASSERT_FALSE(named);
  EXPECT_NE(named.error().message.find("certificate"), std::string::npos) << named.error().message;

  const auto no_store = ask({.url = server.url("/", "https"), .reach = reach, .until = {}}, "/nonexistent.pem");
  ASSERT_FALSE(no_store);
  EXPECT_NE(no_store.error().message.find("/nonexistent.pem"), std::string::npos) << no_store.error().message;
  EXPECT_EQ(server.asked().size(), 1U);
}

TEST_F(OutboundClient, CarriesManyRecordsOverTls) {
  Certificate certificate;
  Server server([](const auto& asked) { return with_length(asked.substr(asked.find("\r\n\r\n") + 4)); },
                &certificate.server());
  std::string body;
  for (int i = 0; body.size() < 300'000; ++i) body += fmt::format("line {}\n", i);
  const auto answer = ask({.method = "POST",
                           .url = server.url("/", "https"),
                           .body = body,
                           .reach = {.allowed = {server.host_port()}},
                           .until = {}},
                          certificate.file());
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_TRUE(answer->body == body);
}

TEST_F(OutboundClient, TellsAnEndFromACutOverTls) {
  Certificate certificate;
  Server server([](const auto&) { return "HTTP/1.1 200 OK\r\n\r\nto the end"; }, &certificate.server());
  const auto once = [&] {
    return ask({.url = server.url("/", "https"), .reach = {.allowed = {server.host_port()}}, .until = {}},
               certificate.file());
  };
  EXPECT_EQ(once().value().body, "to the end");
  server.goodbye = false;
  const auto cut = once();
  ASSERT_FALSE(cut);
  EXPECT_NE(cut.error().message.find("stream truncated"), std::string::npos) << cut.error().message;
}

}  // namespace
}  // namespace cove::outbound
