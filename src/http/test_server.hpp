#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <atomic>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <chrono>
#include <future>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/unique_fd.hpp"
#include "http/encoding.hpp"
#include "http/server.hpp"

// For tests: a real server on a loopback port, its loop on a thread of its own, and a client that blocks.
namespace cove::http::testing_support {

using namespace std::chrono_literals;

class TestKeys : public Authenticator {
 public:
  std::optional<Principal> check(std::string_view key) override {
    if (key != "cove_right") return std::nullopt;
    return Principal{.tenant = "acme", .key_id = "k1"};
  }
  bool open() override { return is_open; }
  bool still_valid(const Principal& principal) override {
    return principal.key_id.empty() ? is_open.load() : valid.load();
  }
  std::atomic<bool> is_open = true;
  std::atomic<bool> valid = true;
};

struct Reply {
  int status = 0;
  std::string reason;
  std::map<std::string, std::string> headers;  // lower-case names
  std::string body;
  bool complete = false;
};

class Client {
 public:
  explicit Client(std::uint16_t port, int receive_buffer = 0) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const timeval patience{.tv_sec = 20, .tv_usec = 0};
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    if (receive_buffer > 0) ::setsockopt(fd_.get(), SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(fd_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }

  [[nodiscard]] bool connected() const { return connected_; }
  // False: the other side does not take it.
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const auto count = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (count <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(count));
    }
    return true;
  }
  void half_close() { ::shutdown(fd_.get(), SHUT_WR); }
  void close() { fd_.reset(); }
  void reset() {
    const linger now{.l_onoff = 1, .l_linger = 0};
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_LINGER, &now, sizeof now);
    fd_.reset();
  }

  // Reads one answer; of a HEAD or 204 only the head.
  Reply read(bool expect_body = true) {
    Reply reply;
    std::size_t end = 0;
    while ((end = input_.find("\r\n\r\n")) == std::string::npos) {
      if (!more()) return reply;
    }
    std::string_view head(input_.data(), end);
    const auto line = head.substr(0, head.find("\r\n"));
    reply.status = std::stoi(std::string(line.substr(9, 3)));
    reply.reason = line.size() > 13 ? line.substr(13) : "";
    while (head.find("\r\n") != std::string_view::npos) {
      head.remove_prefix(head.find("\r\n") + 2);
      const auto field = head.substr(0, head.find("\r\n"));
      const auto colon = field.find(": ");
      reply.headers[to_lower(field.substr(0, colon))] = field.substr(colon + 2);
    }
    input_.erase(0, end + 4);
    if (!expect_body || reply.status == 204 || reply.status < 200) {
      reply.complete = true;
    } else if (reply.headers.contains("content-length")) {
      const auto size = std::stoul(reply.headers["content-length"]);
      while (input_.size() < size && more()) {
      }
      reply.complete = input_.size() >= size;
      reply.body = input_.substr(0, size);
      input_.erase(0, size);
    } else if (reply.headers.contains("transfer-encoding")) {
      for (;;) {
        while (input_.find("\r\n") == std::string::npos) {
          if (!more()) return reply;
        }
        const auto size = std::stoul(input_, nullptr, 16);
        input_.erase(0, input_.find("\r\n") + 2);
        while (input_.size() < size + 2) {
          if (!more()) return reply;
        }
        reply.body += input_.substr(0, size);
        input_.erase(0, size + 2);
        if (size == 0) break;
      }
      reply.complete = true;
    } else {
      while (more()) {
      }
      reply.body = std::exchange(input_, {});
      reply.complete = !broken_;
    }
    return reply;
  }

  // The next bytes, exactly so many (fewer at the end).
  std::string read_bytes(std::size_t count) {
    while (input_.size() < count && more()) {
    }
    auto bytes = input_.substr(0, count);
    input_.erase(0, bytes.size());
    return bytes;
  }
  // True: nothing more comes. An error counts too.
  bool at_end() { return input_.empty() && !more(); }
  [[nodiscard]] bool was_reset() const { return broken_; }

 private:
  bool more() {
    char buffer[65536];
    const auto count = ::recv(fd_.get(), buffer, sizeof buffer, 0);
    if (count <= 0) {
      broken_ = count < 0;
      return false;
    }
    input_.append(buffer, static_cast<std::size_t>(count));
    return true;
  }
  UniqueFd fd_;
  bool connected_ = false;
  bool broken_ = false;
  std::string input_;
};

class ServerTest : public testing::Test {
 protected:
  // Not in the destructor: handlers use members of the derived test.
  void TearDown() override { stop(); }

  // Routes are added, and options set, before.
  void start() {
    namespace asio = boost::asio;
    asio::ip::tcp::acceptor acceptor(io_, {asio::ip::address_v4::loopback(), 0});
    port_ = acceptor.local_endpoint().port();
    server_.emplace(io_.get_executor(), options_, router_, keys_,
                    Server::Hooks{.access_log =
                                      [this](const AccessRecord& record) {
                                        const std::scoped_lock lock(mutex_);
                                        records_.push_back(record);
                                      },
                                  .on_escape = [this](std::string_view, std::exception_ptr) { ++escapes_; },
                                  .warn = [this](std::string_view) { ++warnings_; }});
    asio::co_spawn(io_, server_->serve(std::move(acceptor)), asio::detached);
    thread_ = std::thread([this] { io_.run(); });
  }
  void stop() {
    if (!thread_.joinable()) return;
    auto stopped = boost::asio::co_spawn(io_, server_->stop(), boost::asio::use_future);
    EXPECT_EQ(stopped.wait_for(5s), std::future_status::ready);
    work_.reset();
    thread_.join();
    server_.reset();
  }
  template <class Function>
  auto on_loop(Function function) {
    std::promise<decltype(function())> result;
    auto future = result.get_future();
    boost::asio::post(io_, [&] { result.set_value(function()); });
    return future.get();
  }
  // Polls; for what happens on the loop after an answer.
  template <class Predicate>
  bool eventually(Predicate predicate, std::chrono::milliseconds patience = 5s) {
    const auto until = std::chrono::steady_clock::now() + patience;
    while (std::chrono::steady_clock::now() < until) {
      if (predicate()) return true;
      std::this_thread::sleep_for(2ms);
    }
    return predicate();
  }
  std::size_t connections() {
    return on_loop([this] { return server_->connections(); });
  }
  std::vector<AccessRecord> records() {
    const std::scoped_lock lock(mutex_);
    return records_;
  }

  Reply ask(std::string_view method, std::string_view target, std::string_view lines = "", std::string_view body = "") {
    Client client(port_);
    std::string text =
        std::string(method) + " " + std::string(target) + " HTTP/1.1\r\nHost: localhost\r\n" + std::string(lines);
    if (!body.empty()) text += "Content-Length: " + std::to_string(body.size()) + "\r\n";
    text += "\r\n";
    client.send(text);
    client.send(body);
    return client.read(method != "HEAD");
  }

  boost::asio::io_context io_{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_{io_.get_executor()};
  Router router_;
  TestKeys keys_;
  ServerOptions options_;
  std::optional<Server> server_;
  std::thread thread_;
  std::uint16_t port_ = 0;
  std::atomic<int> escapes_ = 0;
  std::atomic<int> warnings_ = 0;

 private:
  std::mutex mutex_;
  std::vector<AccessRecord> records_;
};

}  // namespace cove::http::testing_support
