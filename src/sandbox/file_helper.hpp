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

// One run of the file helper inside a sandbox, under its user and its limits. Private to files.cpp and
// file_streams.cpp: everyone else uses SandboxFiles. Its output is untrusted; its size is bounded here.
class FileHelper {
 public:
  // Errc::conflict when the sandbox's process limit is reached. Once `abandoned` says true, output counts as ended.
  static async::Task<Result<std::unique_ptr<FileHelper>>> start(std::shared_ptr<Sandbox> sandbox,
                                                                std::vector<std::string> arguments,
                                                                std::function<bool()> abandoned);
  FileHelper(std::shared_ptr<Sandbox> sandbox, std::shared_ptr<Process> process, std::function<bool()> abandoned);
  FileHelper(const FileHelper&) = delete;
  FileHelper& operator=(const FileHelper&) = delete;
  // Tells a running helper to clean up and exit.
  ~FileHelper();

  // Errc::conflict when it reads no more: finish() says why.
  async::Task<Result<>> write(std::string bytes) { return process_->write_input(std::move(bytes), abandoned_); }
  void end_input();

  // The next bytes of its output; empty at its end.
  async::Task<std::string> read();
  // Between 1 and `most` bytes. Fails at the end of output.
  async::Task<Result<std::string>> read_some(std::size_t most);
  // Up to the next newline, without it; at most 64 KiB.
  async::Task<Result<std::string>> read_line();
  // A whole line that has already arrived.
  std::optional<std::string> line_now();
  [[nodiscard]] bool over() const { return over_; }
  // Discards the rest of its output and waits for its end. Returns its last line, or its error.
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
