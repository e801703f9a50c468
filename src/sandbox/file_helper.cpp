#include "sandbox/file_helper.hpp"

#include <signal.h>

#include "sandbox/file_protocol.hpp"

namespace cove::sandbox {
namespace {

constexpr std::size_t kBatch = 256U << 10;
constexpr std::size_t kLineLimit = 64U << 10;
constexpr std::size_t kAnswerLimit = 16U << 20;
constexpr std::size_t kErrorLimit = 64U << 10;
constexpr std::chrono::milliseconds kRetryInterval{250};

}  // namespace

FileHelper::FileHelper(std::shared_ptr<Sandbox> sandbox, std::shared_ptr<Process> process,
                       std::function<bool()> abandoned)
    : sandbox_(std::move(sandbox)),
      process_(std::move(process)),
      reader_(process_, 1),
      abandoned_(std::move(abandoned)) {}

FileHelper::~FileHelper() {
  // The signal makes it undo its work; end of input wakes it in case it is about to wait for more.
  if (!process_->end()) [[maybe_unused]]
    const auto told = process_->signal(SIGTERM);
  end_input();
  sandbox_->release(process_);
}

async::Task<Result<std::unique_ptr<FileHelper>>> FileHelper::start(std::shared_ptr<Sandbox> sandbox,
                                                                   std::vector<std::string> arguments,
                                                                   std::function<bool()> abandoned) {
  arguments.insert(arguments.begin(), std::string(wire::kFilesProgram));
  ProcessRequest request{.kind = ProcessKind::internal,
                         .argv = std::move(arguments),
                         .directory = "/",
                         .input = InputMode::open,
                         .delivery = Delivery::everything,
                         .abandoned = abandoned};
  auto started = co_await sandbox->start(std::move(request));
  if (!started) co_return tl::unexpected<Error>(started.error());
  const auto& end = (*started)->end();
  if (end && (end->reason == Reason::timeout || end->reason == Reason::cancelled))
    co_return fail(Errc::unavailable, "the sandbox did not start its file helper in time");
  if (end && end->reason == Reason::pids)
    co_return fail(Errc::conflict, "the sandbox's process limit is reached: nothing can be started in it");
  if (end && end->reason == Reason::not_started)
    co_return fail(Errc::io, "the sandbox's file helper could not be started");
  co_return std::make_unique<FileHelper>(std::move(sandbox), std::move(*started), std::move(abandoned));
}

void FileHelper::end_input() {
  [[maybe_unused]] const auto ended = process_->end_input();  // none needed after its end
}

// Takes the events that have arrived. False when there were none.
bool FileHelper::take() {
  auto batch = reader_.take(kBatch);
  for (auto& event : batch.events) {
    if (event.kind == Event::Kind::out) rest_ += event.bytes;
    if (event.kind == Event::Kind::err && errors_.size() < kErrorLimit) errors_ += event.bytes;
  }
  over_ = batch.over;
  return !batch.events.empty();
}

async::Task<> FileHelper::wait_for_more() {
  co_await process_->changed().wait_until(std::chrono::steady_clock::now() + kRetryInterval);
  if (abandoned_()) over_ = true;
}

async::Task<std::string> FileHelper::read() {
  while (rest_.empty() && !over_) {
    if (!take() && !over_) co_await wait_for_more();
  }
  co_return std::exchange(rest_, {});
}

async::Task<Result<std::string>> FileHelper::read_some(std::size_t most) {
  auto bytes = co_await read();
  if (bytes.empty()) {
    const auto judged = verdict();
    if (!judged) co_return tl::unexpected<Error>(judged.error());
    co_return fail(Errc::io, "the sandbox's file helper ended early");
  }
  if (bytes.size() > most) {
    rest_ = bytes.substr(most);
    bytes.resize(most);
  }
  co_return bytes;
}

std::optional<std::string> FileHelper::line_now() {
  auto end = rest_.find('\n');
  if (end == std::string::npos && take()) end = rest_.find('\n');
  if (end == std::string::npos) return std::nullopt;
  auto line = rest_.substr(0, end);
  rest_.erase(0, end + 1);
  return line;
}

async::Task<Result<std::string>> FileHelper::read_line() {
  while (true) {
    if (auto line = line_now()) co_return std::move(*line);
    if (rest_.size() > kLineLimit) co_return file_protocol::broken();
    if (over_) {
      const auto judged = verdict();
      if (!judged) co_return tl::unexpected<Error>(judged.error());
      co_return fail(Errc::io, "the sandbox's file helper ended early");
    }
    if (!take() && !over_) co_await wait_for_more();
  }
}

async::Task<Result<std::string>> FileHelper::finish() {
  std::string answer;
  while (true) {
    auto bytes = co_await read();
    if (bytes.empty()) break;
    if (answer.size() + bytes.size() > kAnswerLimit)
      co_return fail(Errc::io, "the answer of the sandbox's file helper is over its size limit");
    answer += bytes;
  }
  const auto judged = verdict();
  if (!judged) co_return tl::unexpected<Error>(judged.error());
  co_return answer;
}

Result<> FileHelper::verdict() const {
  if (!process_->end()) return fail(Errc::unavailable, "the request was abandoned");
  const auto& end = *process_->end();
  if (end.reason == Reason::sandbox_gone) return fail(Errc::not_found, "the sandbox ended");
  if (end.exit_status == 0) return {};
  if (auto error = file_protocol::decode_error(errors_)) return tl::unexpected<Error>(std::move(*error));
  if (end.signal == SIGKILL)
    return fail(Errc::conflict, "the sandbox's file helper was killed: by the memory limit, or by a program in it");
  return fail(Errc::io, "the sandbox's file helper failed for an unknown reason");
}

}  // namespace cove::sandbox
