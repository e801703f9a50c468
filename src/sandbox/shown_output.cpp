#include "sandbox/shown_output.hpp"

#include "base/text.hpp"

namespace cove::sandbox {
namespace {

std::string on_its_own_line(std::string text, std::string_view line) {
  if (!text.empty() && !text.ends_with('\n')) text += '\n';
  return text.append(line).append("\n");
}

}  // namespace

std::string shown_output(const Process& process, Event::Kind stream) {
  auto bytes = process.text_of(stream);
  const auto written = stream == Event::Kind::out ? process.end()->out_bytes : process.end()->err_bytes;
  if (written > process.request().output_limit) bytes.resize(bytes.size() - unfinished_utf8(bytes));
  return replace_invalid_utf8(bytes);
}

std::string with_last_words(const Process& process, std::string err) {
  switch (process.end()->reason) {
    case Reason::timeout: {
      const auto seconds =
          std::chrono::duration<double>(process.request().timeout.value_or(process.end()->wall)).count();
      return on_its_own_line(std::move(err), fmt::format("Command timed out after {:g} seconds", seconds));
    }
    case Reason::oom:
      return on_its_own_line(std::move(err),
                             process.end()->note.empty() ? "killed: memory limit reached" : process.end()->note);
    case Reason::sandbox_gone:
      return on_its_own_line(std::move(err), "Killed: the sandbox ended");
    case Reason::shutdown:
      return on_its_own_line(std::move(err), "Killed: the server is shutting down");
    default:
      return err;
  }
}

}  // namespace cove::sandbox
