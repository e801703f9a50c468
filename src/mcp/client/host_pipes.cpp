#include "mcp/client/host_pipes.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <cstring>

#include "async/signal.hpp"
#include "async/task_group.hpp"

namespace cove::mcp::client {
namespace {

namespace asio = boost::asio;
using async::Task;

constexpr std::size_t kKeptErrors = 4 * 1024;
constexpr std::chrono::milliseconds kLastErrors{300};
constexpr std::size_t kReadPiece = 64 * 1024;
constexpr auto kAsTuple = asio::as_tuple(asio::use_awaitable);

std::string in_words(int word) {
  if (word < 0) return std::string("it could not be started: ") + std::strerror(-1 - word);
  if (WIFEXITED(word)) return fmt::format("exit status {}", WEXITSTATUS(word));
  if (const auto* name = ::sigabbrev_np(WTERMSIG(word)); name != nullptr) return fmt::format("killed by SIG{}", name);
  return fmt::format("killed by signal {}", WTERMSIG(word));
}

// Shared with the tasks that read standard error and wait for the end.
struct HostState {
  HostState(const asio::any_io_executor& executor, HostEnds ends)
      : input(executor, ends.input.release()),
        output(executor, ends.output.release()),
        errors(executor, ends.errors.release()),
        control(executor, ends.control.release()),
        changed(executor),
        group(executor, [](std::string_view, const std::exception_ptr&) {}) {}

  asio::posix::stream_descriptor input;
  asio::posix::stream_descriptor output;
  asio::posix::stream_descriptor errors;
  asio::posix::stream_descriptor control;
  std::string kept;
  bool errors_over = false;
  bool ended = false;
  std::string how;
  async::Signal changed;
  async::TaskGroup group;

  void order(char word) {
    if (!ended && control.is_open()) [[maybe_unused]]
      const auto sent = ::send(control.native_handle(), &word, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
  }
};

Task<> keep_errors(std::shared_ptr<HostState> state) {
  std::string piece(kKeptErrors, '\0');
  while (true) {
    const auto [failed, size] = co_await state->errors.async_read_some(asio::buffer(piece), kAsTuple);
    if (failed) break;
    state->kept.append(piece, 0, size);
    if (state->kept.size() > kKeptErrors) state->kept.erase(0, state->kept.size() - kKeptErrors);
  }
  state->errors_over = true;
  state->changed.notify_all();
}

Task<> await_end(std::shared_ptr<HostState> state) {
  int word = 0;
  const auto [failed, size] = co_await state->control.async_read_some(asio::buffer(&word, sizeof word), kAsTuple);
  // Its last words first, unless something it has left behind holds on to them.
  const auto until = std::chrono::steady_clock::now() + kLastErrors;
  while (!state->errors_over) {
    if (!co_await state->changed.wait_until(until)) break;
  }
  state->ended = true;
  if (!failed && size == sizeof word) state->how = in_words(word);
  state->changed.notify_all();
}

class HostPipes final : public Pipes {
 public:
  HostPipes(const asio::any_io_executor& executor, HostEnds ends)
      : state_(std::make_shared<HostState>(executor, std::move(ends))) {
    state_->group.spawn("standard error", keep_errors(state_));
    state_->group.spawn("end", await_end(state_));
  }
  ~HostPipes() override {
    boost::system::error_code ignored;
    state_->order('K');
    state_->control.close(ignored);
    state_->input.close(ignored);
    state_->output.close(ignored);
    state_->errors.close(ignored);
    state_->group.cancel();
  }

  Task<Result<>> write(std::string bytes) override {
    const auto state = state_;
    const auto [failed, size] = co_await asio::async_write(state->input, asio::buffer(bytes), kAsTuple);
    if (failed) co_return fail(Errc::unavailable, "the server takes no more input");
    co_return Result<>();
  }

  Task<Result<std::string>> read() override {
    const auto state = state_;
    std::string piece(kReadPiece, '\0');
    const auto [failed, size] = co_await state->output.async_read_some(asio::buffer(piece), kAsTuple);
    if (failed) co_return std::string();  // a pipe has no other end than its end
    piece.resize(size);
    co_return piece;
  }

  void close_input() override {
    boost::system::error_code ignored;
    state_->input.close(ignored);
  }
  void terminate() override { state_->order('T'); }
  void kill() override { state_->order('K'); }

  Task<bool> wait_end(std::chrono::steady_clock::time_point until) override {
    const auto state = state_;
    while (!state->ended) {
      if (!co_await state->changed.wait_until(until)) break;
    }
    co_return state->ended;
  }

  [[nodiscard]] std::string errors() const override { return state_->kept; }
  [[nodiscard]] std::string end() const override { return state_->how; }

 private:
  std::shared_ptr<HostState> state_;
};

}  // namespace

std::unique_ptr<Pipes> make_host_pipes(asio::any_io_executor executor, HostEnds ends) {
  return std::make_unique<HostPipes>(executor, std::move(ends));
}

}  // namespace cove::mcp::client
