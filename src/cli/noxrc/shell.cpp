#include "cli/noxrc/shell.hpp"

#include <poll.h>
#include <unistd.h>

#include <array>
#include <optional>
#include <utility>

#include "base/io.hpp"
#include "cli/noxrc/rules.hpp"

namespace cove::cli::noxrc {
namespace {

// A line at a time from standard input, unless a signal comes first.
class LineReader {
 public:
  explicit LineReader(int interrupt_fd) : interrupt_fd_(interrupt_fd) {}
  std::optional<std::string> next() {
    while (true) {
      if (const auto end = held_.find('\n'); end != std::string::npos) {
        auto line = held_.substr(0, end);
        held_.erase(0, end + 1);
        return line;
      }
      std::array<pollfd, 2> polls{{{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0},
                                   {.fd = interrupt_fd_, .events = POLLIN, .revents = 0}}};
      if (::poll(polls.data(), polls.size(), -1) < 0 && errno != EINTR) return std::nullopt;
      if (polls[1].revents != 0) return std::nullopt;
      std::array<char, 4096> chunk;
      const auto n = polls[0].revents == 0 ? -1 : ::read(STDIN_FILENO, chunk.data(), chunk.size());
      if (n == 0) {
        if (held_.empty()) return std::nullopt;
        return std::exchange(held_, {});
      }
      if (n > 0) held_.append(chunk.data(), static_cast<std::size_t>(n));
    }
  }

 private:
  int interrupt_fd_;
  std::string held_;
};

}  // namespace

std::string trimmed(const std::string& text) {
  const auto first = text.find_first_not_of(" \t\r");
  return first == std::string::npos ? "" : text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

Result<int> Shell::run() {
  directory_ = line_.value("--workdir");
  voice_.info("NoxRunner shell: " + line_.session);
  voice_.info("Type 'help' for help, 'exit' or 'quit' to leave");
  voice_.info("Each line runs in its own shell: files and cd persist, variables do not");
  COVE_CHECK(write_all(STDOUT_FILENO, "\n"));
  LineReader lines(interrupt_fd_);
  while (true) {
    COVE_CHECK(
        write_all(STDOUT_FILENO, voice_.coloured("36", fmt::format("noxrunner:{}:{}$ ", line_.session, directory_))));
    const auto line = lines.next();
    if (!line) {
      COVE_CHECK(write_all(STDOUT_FILENO, "\n"));
      return 0;
    }
    const auto text = trimmed(*line);
    if (text == "exit" || text == "quit") return 0;
    COVE_CHECK(one_line(text));
  }
}

Result<> Shell::one_line(const std::string& text) {
  if (text.empty()) return {};
  if (text == "help") {
    return write_all(STDOUT_FILENO,
                     "  cd [DIR]      change the directory (cd and cd ~: /workspace)\n"
                     "  pwd           show the directory\n"
                     "  touch         extend the time to live of the sandbox\n"
                     "  help          show this help\n"
                     "  exit, quit    leave\n"
                     "  anything else is run by sh in the sandbox\n");
  }
  if (text == "touch") {
    const auto done = backend_.touch(line_.session);
    if (!done && client::interrupted(done.error())) return tl::unexpected<Error>(done.error());
    COVE_CHECK(report(voice_, done, "TTL extended", "Failed to extend TTL"));
    return {};
  }
  if (text == "pwd") return write_all(STDOUT_FILENO, directory_ + "\n");
  const bool plain = text.find("&&") == std::string::npos && text.find_first_of(";|") == std::string::npos;
  if (plain && (text == "cd" || text.starts_with("cd "))) return change_directory(trimmed(text.substr(2)));
  const auto result = backend_.exec(
      line_.session,
      {.command = {"sh", "-c", text}, .workdir = directory_, .timeout_seconds = line_.number("--timeout-seconds")});
  if (!result) {
    COVE_CHECK(report_failure(voice_, "Execution failed", result.error()));
    return {};
  }
  COVE_CHECK(print(*result));
  if (result->exit_code != 0) voice_.warn(fmt::format("Command exited with code {}", result->exit_code));
  return {};
}

Result<> Shell::change_directory(const std::string& target) {
  if (target.empty() || target == "~") {
    directory_ = "/workspace";
    return {};
  }
  if (target == "-") {
    voice_.warn("cd - is not supported");
    return {};
  }
  const auto wanted = changed_directory(directory_, target);
  const auto there = backend_.exec(
      line_.session, {.command = {"sh", "-c", fmt::format("test -d {} && echo EXISTS", shell_word(wanted))},
                      .workdir = "/",
                      .timeout_seconds = 5});
  if (!there && client::interrupted(there.error())) return tl::unexpected<Error>(there.error());
  if (there && there->out.find("EXISTS") != std::string::npos)
    directory_ = wanted;
  else
    voice_.bad(fmt::format("cd: {}: No such directory", target));
  return {};
}

}  // namespace cove::cli::noxrc
