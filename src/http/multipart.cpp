#include "http/multipart.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "http/encoding.hpp"

namespace cove::http {
namespace {

constexpr std::size_t kBoundaryLimit = 256;

tl::unexpected<Error> malformed(std::string_view why) {
  return fail(Errc::invalid, std::string(why));
}

// Old clients send names in Latin-1, each byte of which is the character of that number.
std::string as_utf8(std::string_view bytes) {
  if (valid_utf8(bytes)) return std::string(bytes);
  std::string out;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80) {
      out += c;
    } else {
      out += static_cast<char>(0xc0 | (byte >> 6));
      out += static_cast<char>(0x80 | (byte & 0x3f));
    }
  }
  return out;
}

// One parameter, "; name=value" with the value quoted or not, off the front of `rest`. Nothing at the end. In a quoted
// value a backslash hides a quote and another backslash; before anything else it is one, as in C:\file.
struct Parameter {
  std::string name;  // lower case
  std::string value;
};
std::optional<Parameter> take_parameter(std::string_view& rest) {
  const auto skip = [&] {
    const auto at = rest.find_first_not_of(" \t;");
    rest.remove_prefix(std::min(at, rest.size()));
  };
  skip();
  if (rest.empty()) return std::nullopt;
  Parameter out;
  const auto end = std::min(rest.find_first_of("=;"), rest.size());
  out.name = to_lower(trim(rest.substr(0, end)));
  rest.remove_prefix(end);
  if (!rest.starts_with('=')) return out;
  rest.remove_prefix(1);
  while (rest.starts_with(' ') || rest.starts_with('\t')) rest.remove_prefix(1);
  if (!rest.starts_with('"')) {
    const auto stop = std::min(rest.find(';'), rest.size());
    out.value = trim(rest.substr(0, stop));
    rest.remove_prefix(stop);
    return out;
  }
  std::size_t at = 1;
  for (; at < rest.size() && rest[at] != '"'; ++at) {
    if (rest[at] == '\\' && at + 1 < rest.size() && (rest[at + 1] == '"' || rest[at + 1] == '\\')) ++at;
    out.value += rest[at];
  }
  rest.remove_prefix(std::min(at + 1, rest.size()));
  const auto next = std::min(rest.find(';'), rest.size());
  rest.remove_prefix(next);
  return out;
}

// charset'language'percent-encoded (RFC 5987). Nothing for what is not.
std::optional<std::string> extended_value(std::string_view text) {
  const auto charset = to_lower(take_until(text, '\''));
  const auto quote = text.find('\'');
  if (quote == std::string_view::npos) return std::nullopt;
  auto decoded = percent_decode(text.substr(quote + 1));
  if (!decoded || (charset != "utf-8" && charset != "iso-8859-1" && charset != "us-ascii")) return std::nullopt;
  if (charset == "utf-8" && !valid_utf8(*decoded)) return std::nullopt;
  return as_utf8(*decoded);
}

}  // namespace

std::optional<std::string> boundary_of(std::string_view content_type) {
  const auto kind = trim(take_until(content_type, ';'));
  if (!equals_ignoring_case(kind, "multipart/form-data")) return std::nullopt;
  while (const auto parameter = take_parameter(content_type)) {
    if (parameter->name != "boundary") continue;
    const auto& value = parameter->value;
    const bool usable =
        value.size() <= kBoundaryLimit && std::ranges::all_of(value, [](char c) { return c >= ' ' && c < '\x7f'; });
    return usable ? value : "";
  }
  return "";
}

PartHead parse_disposition(std::string_view value) {
  PartHead head;
  std::optional<std::string> extended;
  [[maybe_unused]] const auto kind = take_until(value, ';');
  while (const auto parameter = take_parameter(value)) {
    if (parameter->name == "name") head.name = as_utf8(parameter->value);
    if (parameter->name == "filename") head.filename = as_utf8(parameter->value);
    if (parameter->name == "filename*") extended = extended_value(parameter->value);
  }
  if (extended) head.filename = std::move(extended);
  return head;
}

MultipartReader::MultipartReader(std::string_view boundary, PartSink& sink)
    : sink_(sink), delimiter_("\r\n--" + std::string(boundary)) {
  // The first delimiter may stand at the very beginning, where no line ends before it.
  pending_ = "\r\n";
}

Result<> MultipartReader::feed(std::string_view bytes) {
  pending_ += bytes;
  bool more = true;
  while (more) COVE_CHECK(step(more));
  return {};
}

Result<> MultipartReader::finish() const {
  if (state_ != State::epilogue) return malformed("the form is cut short");
  return {};
}

// Hands on, or drops, the first `count` bytes that wait.
Result<> MultipartReader::pass_on(std::size_t count) {
  Result<> done;
  if (state_ == State::content && count > 0) done = sink_.add_bytes(std::string_view(pending_).substr(0, count));
  pending_.erase(0, count);
  return done;
}

Result<> MultipartReader::step(bool& more) {
  more = false;
  switch (state_) {
    case State::preamble:
    case State::content: {
      const auto at = pending_.find(delimiter_);
      if (at == std::string::npos) {
        // The end may be the beginning of a delimiter.
        const auto kept = std::min(pending_.size(), delimiter_.size() - 1);
        return pass_on(pending_.size() - kept);
      }
      COVE_CHECK(pass_on(at));
      if (state_ == State::content) COVE_CHECK(sink_.end_part());
      pending_.erase(0, delimiter_.size());
      state_ = State::after_delimiter;
      more = true;
      return {};
    }
    case State::after_delimiter: {
      // "--" ends the form; else blanks, and the end of the line.
      if (pending_.starts_with("--")) {
        pending_.clear();
        state_ = State::epilogue;
        return {};
      }
      const auto end = pending_.find('\n');
      if (end == std::string::npos) {
        if (pending_.size() > kBoundaryLimit) return malformed("a boundary is followed by too much");
        return {};
      }
      if (end == 0 || pending_[end - 1] != '\r' || pending_.find_first_not_of(" \t") != end - 1)
        return malformed("a boundary is followed by something else than the end of its line");
      // The line's end stays: with it the headers end in an empty line also when there are none.
      pending_.erase(0, end - 1);
      state_ = State::headers;
      more = true;
      return {};
    }
    case State::headers: {
      const auto end = pending_.find("\r\n\r\n");
      if (end == std::string::npos || end > kHeaderLimit) {
        if (pending_.size() > kHeaderLimit) return malformed("the headers of a part are too long");
        return {};
      }
      if (++parts_ > kMaxParts) return malformed("the form has too many parts");
      COVE_CHECK(begin_part(std::string_view(pending_).substr(0, end)));
      pending_.erase(0, end + 4);
      state_ = State::content;
      more = true;
      return {};
    }
    case State::epilogue:
      pending_.clear();
      return {};
  }
  return {};
}

Result<> MultipartReader::begin_part(std::string_view headers) {
  PartHead head;
  bool described = false;
  while (!headers.empty()) {
    auto line = headers.substr(0, headers.find("\r\n"));
    headers.remove_prefix(std::min(headers.size(), line.size() + 2));
    if (line.empty()) continue;
    const auto colon = line.find(':');
    if (colon == std::string_view::npos) return malformed("a header of a part has no colon");
    if (!equals_ignoring_case(trim(line.substr(0, colon)), "content-disposition")) continue;
    head = parse_disposition(trim(line.substr(colon + 1)));
    described = true;
  }
  if (!described || head.name.empty()) return malformed("a part has no name");
  return sink_.begin_part(std::move(head));
}

}  // namespace cove::http
