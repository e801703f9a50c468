#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "async/task.hpp"
#include "base/result.hpp"
#include "sandbox/sandbox.hpp"

namespace cove::sandbox {

// One run of the file helper inside a sandbox, under its user and its limits. What it says is the sandbox's word: sizes
// are bounded here, and nothing it prints is trusted further than the sandbox itself.
class Helper {
 public:
  // `abandoned` says that nobody waits for it any more: it is then as if it had ended. What the helper refuses because
  // it is not `--within` where it should be, is Errc::denied with EXDEV.
  static async::Task<Result<std::unique_ptr<Helper>>> start(std::shared_ptr<Sandbox> sandbox,
                                                            std::vector<std::string> arguments,
                                                            std::function<bool()> abandoned);
  Helper(std::shared_ptr<Sandbox> sandbox, std::shared_ptr<Process> process, std::function<bool()> abandoned);
  Helper(const Helper&) = delete;
  Helper& operator=(const Helper&) = delete;
  // One that still runs is told to clean up and go.
  ~Helper();

  // Errc::conflict when it takes no more: finish() says why.
  async::Task<Result<>> write(std::string bytes) { return process_->write_input(std::move(bytes), abandoned_); }
  void end_input();

  // The next bytes of its output; empty at its end.
  async::Task<std::string> read();
  // 1..most of them. Fails at its end.
  async::Task<Result<std::string>> read_some(std::size_t most);
  // Up to the next newline, without it; at most 64 KiB.
  async::Task<Result<std::string>> read_line();
  // A whole line that has come already.
  std::optional<std::string> line_now();
  [[nodiscard]] bool over() const { return over_; }
  // Throws away the rest of its output and waits for its end: what it printed last, or its error.
  async::Task<Result<std::string>> finish();

  [[nodiscard]] Process& process() { return *process_; }

 private:
  [[nodiscard]] Result<> verdict() const;
  bool take();
  async::Task<> wait_for_more();

  std::shared_ptr<Sandbox> sandbox_;
  std::shared_ptr<Process> process_;
  Reader reader_;
  std::string rest_;
  std::string errors_;
  bool over_ = false;
  std::function<bool()> abandoned_;
};

}  // namespace cove::sandbox
