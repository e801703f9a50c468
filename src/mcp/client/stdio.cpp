#include "mcp/client/stdio.hpp"

#include <algorithm>
#include <deque>

#include "async/signal.hpp"
#include "async/task_group.hpp"
#include "mcp/client/lines.hpp"

namespace cove::mcp::client {
namespace {

namespace json = boost::json;
using async::Task;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kPatience{2};          // with each way to end it
constexpr std::chrono::milliseconds kLastWords{500};  // until its end is known, once its output has ended
constexpr std::size_t kShownErrors = 1000;

}  // namespace

// Shared with the tasks, which may come to their end after the transport.
struct Stdio::State {
  State(boost::asio::any_io_executor executor, std::unique_ptr<Pipes> own, const Limits& allowed, Listener& to)
      : pipes(std::move(own)),
        limits(allowed),
        listener(&to),
        lines(allowed.message_bytes),
        more(executor),
        group(executor, [](std::string_view, const std::exception_ptr&) {}) {}

  std::unique_ptr<Pipes> pipes;
  Limits limits;
  Listener* listener;  // null once nobody listens
  Lines lines;
  std::deque<std::string> out;
  std::uint64_t waiting = 0;  // bytes of them
  async::Signal more;
  async::TaskGroup group;

  void take(const std::string& line) {
    if (line.find_first_not_of(" \t") == std::string::npos) return;
    auto value = parse_text(line, limits.json_depth);
    if (value && (value->is_object() || value->is_array())) return listener->receive(std::move(*value), line.size());
    if (!value && value.error().code == Errc::over_limit)
      return listener->complain(fmt::format("a message was passed over: {}", value.error().message));
    listener->complain(fmt::format("a line of its output is no message: {}", shown(line, 200)));
  }

  void over(Error why) {
    if (listener == nullptr) return;
    const auto all = pipes->errors();
    auto words = shown(std::string_view(all).substr(all.size() - std::min(all.size(), kShownErrors)), kShownErrors);
    if (!words.empty()) why.message += "; it wrote to standard error: " + words;
    listener->lost(std::move(why));
  }
};

namespace {

template <class State>
Task<> write_out(std::shared_ptr<State> state) {
  while (true) {
    while (state->out.empty()) co_await state->more.wait();
    auto text = std::move(state->out.front());
    state->out.pop_front();
    const auto size = text.size();
    const auto written = co_await state->pipes->write(std::move(text));
    state->waiting -= size;
    // The reader sees its end, and says why.
    if (!written) co_return;
  }
}

template <class State>
Task<> read_in(std::shared_ptr<State> state) {
  while (true) {
    const auto bytes = co_await state->pipes->read();
    if (state->listener == nullptr) co_return;
    if (!bytes || bytes->empty()) break;
    for (const auto& line : state->lines.feed(*bytes)) {
      state->take(line);
      if (state->listener == nullptr) co_return;
    }
    if (state->lines.overlong() == 0) continue;
    state->over(Error{.code = Errc::over_limit,
                      .message = fmt::format("the server was ended: a line of its output is longer than {} bytes",
                                             state->limits.message_bytes)});
    state->pipes->kill();
    co_return;
  }
  const auto rest = state->lines.rest();
  if (!rest.empty()) state->take(rest);
  const bool ended = co_await state->pipes->wait_end(Clock::now() + kLastWords);
  if (state->listener == nullptr) co_return;
  const auto how = state->pipes->end();
  if (!ended)
    state->over(Error{.code = Errc::unavailable, .message = "the server closed its output"});
  else
    state->over(Error{
        .code = Errc::unavailable,
        .message = fmt::format("the server has ended{}{}{}", how.empty() ? "" : " (", how, how.empty() ? "" : ")")});
  state->pipes->kill();
}

}  // namespace

Stdio::Stdio(boost::asio::any_io_executor executor, std::unique_ptr<Pipes> pipes, const Limits& limits,
             Listener& listener)
    : state_(std::make_shared<State>(std::move(executor), std::move(pipes), limits, listener)) {
  state_->group.spawn("write", write_out(state_));
  state_->group.spawn("read", read_in(state_));
}

Stdio::~Stdio() {
  state_->listener = nullptr;
  state_->pipes->kill();
  state_->group.cancel();
}

Result<> Stdio::send(Outgoing message) {
  auto text = json::serialize(message.message) + "\n";
  if (text.size() > state_->limits.message_bytes)
    return fail(Errc::over_limit, fmt::format("the message is larger than {} bytes", state_->limits.message_bytes));
  if (state_->waiting > 0 && state_->waiting + text.size() > state_->limits.message_bytes)
    return fail(Errc::over_limit, "the server does not read what was sent before; try again later");
  state_->waiting += text.size();
  state_->out.push_back(std::move(text));
  state_->more.notify_all();
  return {};
}

Task<Result<>> Stdio::deliver(Outgoing message) {
  co_return send(std::move(message));  // lines keep their order
}

Task<> Stdio::close() {
  const auto state = state_;
  state->listener = nullptr;
  state->pipes->close_input();
  bool ended = co_await state->pipes->wait_end(Clock::now() + kPatience);
  if (!ended) {
    state->pipes->terminate();
    ended = co_await state->pipes->wait_end(Clock::now() + kPatience);
  }
  state->pipes->kill();
  state->group.cancel();
  co_await state->group.join();
}

}  // namespace cove::mcp::client
