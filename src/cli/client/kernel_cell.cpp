#include "cli/client/kernel_cell.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <optional>

#include "base/text.hpp"
#include "cli/client/client_options.hpp"
#include "cli/console.hpp"

namespace cove::cli {
namespace {

namespace json = boost::json;

constexpr int kMaxPictures = 10'000;  // in one directory

struct Picture {
  std::string_view type;
  std::string_view suffix;
};
constexpr auto kPictures = std::to_array<Picture>({{"image/png", "png"},
                                                   {"image/jpeg", "jpg"},
                                                   {"image/gif", "gif"},
                                                   {"image/webp", "webp"},
                                                   {"image/svg+xml", "svg"},
                                                   {"application/pdf", "pdf"}});

tl::unexpected<Error> interrupted_error() {
  return tl::unexpected<Error>(Error{.code = Errc::unavailable, .message = "interrupted", .sys_errno = EINTR});
}

// One line of standard input without its end; nothing at the end of the input. A signal is an error that
// client::interrupted() knows.
class LineReader {
 public:
  explicit LineReader(Interrupt& interrupt) : interrupt_(interrupt) {}
  Result<std::optional<std::string>> next() {
    while (true) {
      if (const auto end = kept_.find('\n'); end != std::string::npos) {
        auto line = kept_.substr(0, end);
        kept_.erase(0, end + 1);
        return std::optional(std::move(line));
      }
      std::array<pollfd, 2> polls{{{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0},
                                   {.fd = interrupt_.fd(), .events = POLLIN, .revents = 0}}};
      if (::poll(polls.data(), polls.size(), -1) < 0 && errno != EINTR) return fail_errno(errno, "poll");
      if (polls[1].revents != 0) return interrupted_error();
      if (polls[0].revents == 0) continue;
      std::array<char, 4096> bytes;
      const auto n = ::read(STDIN_FILENO, bytes.data(), bytes.size());
      if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
      if (n > 0) {
        kept_.append(bytes.data(), static_cast<std::size_t>(n));
        continue;
      }
      if (kept_.empty()) return std::optional<std::string>();
      return std::optional(std::exchange(kept_, {}));
    }
  }

 private:
  Interrupt& interrupt_;
  std::string kept_;
};

// The terminal shows nothing of what is typed, for as long as it lives.
class NoEcho {
 public:
  NoEcho() {
    if (::tcgetattr(STDIN_FILENO, &saved_) != 0) return;
    auto quiet = saved_;
    quiet.c_lflag &= ~static_cast<tcflag_t>(ECHO);
    active_ = ::tcsetattr(STDIN_FILENO, TCSANOW, &quiet) == 0;
  }
  ~NoEcho() {
    if (active_) ::tcsetattr(STDIN_FILENO, TCSANOW, &saved_);
  }
  NoEcho(const NoEcho&) = delete;
  NoEcho& operator=(const NoEcho&) = delete;

 private:
  termios saved_{};
  bool active_ = false;
};

class Cell {
 public:
  Cell(client::Client& client, const CellOptions& options, Interrupt& interrupt, LineReader& lines)
      : client_(client), options_(options), interrupt_(interrupt), lines_(lines) {}

  Result<json::object> run(json::object body) {
    if (options_.answers_input) body["allowStdin"] = true;
    COVE_TRY(auto events, client_.follow(json_request("POST", options_.kernel + "/execute", body)));
    while (true) {
      auto event = events.next();
      if (!event && options_.interrupt_goes_to_code && client::interrupted(event.error())) {
        COVE_CHECK(pass_interrupt());
        continue;
      }
      if (!event) return tl::unexpected<Error>(event.error());
      if (!*event) return fail(Errc::unavailable, "the server closed the stream before the code ended");
      COVE_TRY(auto object, object_of((*event)->data));
      const auto type = text_of(object, "type");
      if (type == "end") {
        COVE_CHECK(show_pages(object));
        return object;
      }
      if (type == "input_request")
        COVE_CHECK(answer(object));
      else
        COVE_CHECK(show(type, object));
    }
  }

 private:
  // The client's connections wake up at every signal: ours has been heard.
  Result<> pass_interrupt() {
    if (interrupt_.take() != SIGINT) return interrupted_error();
    client::Client other({.address = client_.options().address, .key = client_.options().key});
    [[maybe_unused]] const auto told = other.send({.method = "POST", .target = options_.kernel + "/interrupt"});
    return {};
  }

  Result<> answer(const json::object& question) {
    COVE_CHECK(write_all(STDOUT_FILENO, text_of(question, "prompt")));
    const auto* secret = question.if_contains("password");
    std::optional<NoEcho> hidden;
    if (secret != nullptr && secret->is_bool() && secret->as_bool()) hidden.emplace();
    auto line = lines_.next();
    if (hidden) COVE_CHECK(write_all(STDOUT_FILENO, "\n"));
    if (!line && options_.interrupt_goes_to_code && client::interrupted(line.error())) return pass_interrupt();
    if (!line) return tl::unexpected<Error>(line.error());
    const auto value = *line ? json::object{{"value", **line}} : json::object{{"eof", true}};
    COVE_TRY(const auto taken, client_.ask(json_request("POST", options_.kernel + "/input", value)));
    return {};
  }

  Result<> show(const std::string& type, const json::object& event) {
    if (type == "stdout" || type == "stderr")
      return write_all(type == "stdout" ? STDOUT_FILENO : STDERR_FILENO, text_of(event, "data"));
    if (type == "error") {
      const auto* traceback = event.if_contains("traceback");
      if (traceback == nullptr || !traceback->is_array()) return {};
      for (const auto& line : traceback->as_array()) {
        if (line.is_string()) COVE_CHECK(write_all(STDERR_FILENO, std::string(line.as_string()) + "\n"));
      }
      return {};
    }
    const auto* data = event.if_contains("data");
    const bool shown = type == "display" || type == "update_display" || type == "result";
    if (!shown || data == nullptr || !data->is_object()) return {};
    COVE_TRY(const bool saved, save(data->as_object()));
    if (saved && !data->as_object().contains("text/plain")) return {};
    return put_line(text_of(data->as_object(), "text/plain"));
  }

  // What an interpreter would show in a pager: "len?".
  static Result<> show_pages(const json::object& end) {
    const auto* pages = end.if_contains("payload");
    if (pages == nullptr || !pages->is_array()) return {};
    for (const auto& page : pages->as_array()) {
      if (!page.is_object() || text_of(page.as_object(), "source") != "page") continue;
      const auto* data = page.as_object().if_contains("data");
      if (data != nullptr && data->is_object()) COVE_CHECK(put_line(text_of(data->as_object(), "text/plain")));
    }
    return {};
  }

  Result<bool> save(const json::object& data) {
    if (options_.save_dir.empty()) return false;
    for (const auto& [type, content] : data) {
      const auto suffix = picture_suffix(type);
      if (suffix.empty() || !content.is_string()) continue;
      std::string text(content.as_string());
      if (suffix != "svg")
        std::erase_if(text, [](char c) { return c == '\n' || c == '\r'; });  // IPython ends its base64 so
      const auto bytes = suffix == "svg" ? std::optional(text) : from_base64(text, Padding::optional);
      if (!bytes) continue;
      COVE_TRY(const auto path, write_new(suffix, *bytes));
      tell("saved {}", path);
      return true;  // one picture comes in several forms
    }
    return false;
  }

  // Nothing that is there is overwritten.
  Result<std::string> write_new(const std::string& suffix, const std::string& bytes) {
    if (::mkdir(options_.save_dir.c_str(), 0777) != 0 && errno != EEXIST)
      return fail_errno(errno, "--save: make {}", options_.save_dir);
    for (int number = 1; number <= kMaxPictures; ++number) {
      const auto path = fmt::format("{}/figure-{}.{}", options_.save_dir, number, suffix);
      const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
      if (!file && errno == EEXIST) continue;
      if (!file) return fail_errno(errno, "--save: {}", path);
      COVE_CHECK(write_all(file.get(), bytes));
      return path;
    }
    return fail(Errc::over_limit, fmt::format("--save: {} has {} pictures already", options_.save_dir, kMaxPictures));
  }

  client::Client& client_;
  const CellOptions& options_;
  Interrupt& interrupt_;
  LineReader& lines_;
};

// Whether the kernel wants more lines. One that cannot tell takes what it gets.
bool incomplete(client::Client& client, const CellOptions& options, const std::string& code) {
  const auto answer = client.ask(json_request("POST", options.kernel + "/is_complete", {{"code", code}}));
  if (!answer) return false;
  const auto said = object_of(answer->body);
  return said && text_of(*said, "status") == "incomplete";
}

}  // namespace

std::string picture_suffix(std::string_view mime_type) {
  for (const auto& picture : kPictures) {
    if (picture.type == mime_type) return std::string(picture.suffix);
  }
  return "";
}

Result<json::object> run_cell(client::Client& client, const json::object& body, const CellOptions& options,
                              Interrupt& interrupt) {
  LineReader lines(interrupt);
  return Cell(client, options, interrupt, lines).run(body);
}

Result<> kernel_prompt(client::Client& client, const CellOptions& options, Interrupt& interrupt,
                       const std::function<void(const json::object& end)>& on_end) {
  const bool terminal = ::isatty(STDIN_FILENO) == 1 && ::isatty(STDOUT_FILENO) == 1;
  LineReader lines(interrupt);
  Cell cell(client, options, interrupt, lines);
  std::string code;
  while (true) {
    if (terminal) COVE_CHECK(write_all(STDOUT_FILENO, code.empty() ? ">>> " : "... "));
    const auto line = lines.next();
    if (!line && client::interrupted(line.error()) && interrupt.take() == SIGINT && terminal) {
      code.clear();  // begins anew, as every prompt does
      COVE_CHECK(write_all(STDOUT_FILENO, "\n"));
      continue;
    }
    if (!line) return tl::unexpected<Error>(line.error());
    if (!*line && code.empty()) return terminal ? write_all(STDOUT_FILENO, "\n") : Result<>();
    const bool ended = !*line || (*line)->empty();
    if (*line) code += (code.empty() ? "" : "\n") + **line;
    if (code.empty() || (!ended && incomplete(client, options, code))) continue;
    COVE_TRY(const auto end, cell.run({{"code", std::exchange(code, {})}, {"colour", ::isatty(STDERR_FILENO) == 1}}));
    on_end(end);
  }
}

}  // namespace cove::cli
