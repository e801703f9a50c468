#include "cli/client/terminal_session.hpp"

#include <poll.h>

#include <array>

#include "cli/console.hpp"
#include "cli/interrupt.hpp"
#include "client/websocket.hpp"

namespace cove::cli {
namespace {

namespace json = boost::json;
using client::Opcode;

constexpr std::size_t kUnsentLimit = 64U << 10;  // of keys that the server has not taken yet

json::object window_size() {
  winsize size{};
  if (::ioctl(STDIN_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row == 0 || size.ws_col == 0)
    return {{"rows", 24}, {"cols", 80}};
  return {{"rows", size.ws_row}, {"cols", size.ws_col}};
}

class Session {
 public:
  Session(client::WebSocket socket, Interrupt& signals) : socket_(std::move(socket)), signals_(signals) {}

  // Until the program has ended, the connection broke, or a signal told us to go.
  Result<int> run() {
    while (!status_) {
      COVE_CHECK(socket_.flush());
      std::array<pollfd, 3> polls{
          {{.fd = socket_.fd(),
            .events = static_cast<short>(POLLIN | (socket_.wants_write() ? POLLOUT : 0)),
            .revents = 0},
           {.fd = signals_.fd(), .events = POLLIN, .revents = 0},
           {.fd = input_open_ && socket_.unsent() < kUnsentLimit ? STDIN_FILENO : -1, .events = POLLIN, .revents = 0}}};
      // The handshake may have brought the first messages along.
      const int wait = std::exchange(first_, false) ? 0 : -1;
      if (::poll(polls.data(), polls.size(), wait) < 0 && errno != EINTR) return fail_errno(errno, "poll");
      COVE_CHECK(take_messages());
      if (polls[1].revents != 0) COVE_CHECK(take_signals());
      if (polls[2].revents != 0) take_keys();
    }
    return *status_;
  }

  // What the server said ended it; empty when it did not say.
  [[nodiscard]] const std::string& reason() const { return reason_; }
  [[nodiscard]] const json::object& end() const { return end_; }

 private:
  Result<> take_messages() {
    COVE_TRY(const auto messages, socket_.receive());
    for (const auto& message : messages) {
      if (!message.text) {
        COVE_CHECK(write_all(STDOUT_FILENO, message.data));
        continue;
      }
      COVE_TRY(const auto object, object_of(message.data));
      if (text_of(object, "type") != "end") continue;
      status_ = static_cast<int>(number_of(object, "exitCode")) & 0xff;
      reason_ = text_of(object, "reason");
      end_ = object;
    }
    if (socket_.closed() && !status_) return fail(Errc::unavailable, "the server closed the terminal");
    return {};
  }

  Result<> take_signals() {
    while (const int number = signals_.take()) {
      if (number != SIGWINCH) {
        status_ = 128 + number;
        continue;
      }
      auto size = window_size();
      size["type"] = "resize";
      socket_.send(Opcode::text, json::serialize(size));
    }
    return {};
  }

  void take_keys() {
    std::array<char, 4096> keys;
    const auto n = ::read(STDIN_FILENO, keys.data(), keys.size());
    if (n > 0) {
      socket_.send(Opcode::binary, {keys.data(), static_cast<std::size_t>(n)});
    } else if (n == 0 || (errno != EINTR && errno != EAGAIN)) {
      input_open_ = false;
      socket_.send(Opcode::text, R"({"type":"eof"})");
    }
  }

  client::WebSocket socket_;
  Interrupt& signals_;
  bool first_ = true;
  bool input_open_ = true;
  std::optional<int> status_;
  std::string reason_;
  json::object end_;
};

}  // namespace

int status_of_refusal(const Error& error) {
  if (error.message.starts_with("Command not found")) return 127;
  return error.message.starts_with("Cannot execute") ? 126 : 125;
}

Result<int> terminal_session(client::Client& client, TerminalRequest request) {
  if (::isatty(STDIN_FILENO) == 0)
    return fail(Errc::invalid, "standard input is not a terminal: use cove exec -i instead");
  Interrupt signals({SIGINT, SIGTERM, SIGHUP, SIGWINCH});
  request.body["pty"] = window_size();
  const auto processes = client::sandbox_target(request.sandbox, "/processes").text();
  COVE_TRY(const auto started, client.ask(json_request("POST", processes, request.body)));
  COVE_TRY(const auto process, object_of(started.body));
  const auto one = processes + "/" + client::encoded(text_of(process, "id"));
  std::string reason;
  json::object end;
  const auto status = [&]() -> Result<int> {
    const RawTerminal raw;
    COVE_TRY(auto socket, client::WebSocket::open(client.options(), one + "/terminal"));
    Session session(std::move(socket), signals);
    auto ended = session.run();
    reason = session.reason();
    end = session.end();
    return ended;
  }();
  if (reason == "sandbox_gone") tell("the sandbox ended");
  tell_note(end);
  if (reason == "shutdown") tell("the server is shutting down");
  // Ends it, if we were told to go before it did; and the server need not remember it.
  [[maybe_unused]] const auto forgotten = client.send({.method = "DELETE", .target = one});
  return status;
}

}  // namespace cove::cli
