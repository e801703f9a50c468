#include "http/head.hpp"

#include <algorithm>
#include <array>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <charconv>
#include <cstring>

#include "base/random.hpp"
#include "base/text.hpp"
#include "http/encoding.hpp"

namespace cove::http {

namespace beast_http = boost::beast::http;

namespace {

constexpr std::size_t kLongestMethod = 64;
constexpr std::size_t kTrailerLimit = 8 << 10;

Refusal invalid(std::string sentence) {
  return Refusal{.status = 400, .code = "invalid", .sentence = std::move(sentence)};
}

Refusal refusal(unsigned status, std::string code, std::string sentence) {
  return Refusal{.status = status, .code = std::move(code), .sentence = std::move(sentence)};
}

// host[:port] as a Host header or an authority may have it; no user information, no percent-encoding.
bool well_formed_host(std::string_view host) {
  const auto port_ok = [](std::string_view port) {
    return port.size() <= 5 && std::ranges::all_of(port, [](char c) { return c >= '0' && c <= '9'; });
  };
  std::string_view name = host;
  if (host.starts_with('[')) {
    const auto end = host.find(']');
    if (end == std::string_view::npos) return false;
    name = host.substr(1, end - 1);
    const auto rest = host.substr(end + 1);
    if (!rest.empty() && (rest.front() != ':' || !port_ok(rest.substr(1)))) return false;
    return !name.empty() && name.find_first_not_of("0123456789abcdefABCDEF:.") == std::string_view::npos;
  }
  if (const auto colon = host.find(':'); colon != std::string_view::npos) {
    name = host.substr(0, colon);
    if (!port_ok(host.substr(colon + 1))) return false;
  }
  return !name.empty() && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.' ||
           c == '_';
  });
}

std::optional<Refusal> parse_queries(std::string_view text, NameValues& queries) {
  while (!text.empty()) {
    auto pair = take_until(text, '&');
    if (pair.empty()) continue;
    auto name = form_decode(take_until(pair, '='));
    auto value = form_decode(pair);
    if (!name || !value) return invalid("the query has a '%' that is not followed by two hex digits");
    for (const auto* part : {&*name, &*value}) {
      if (part->find('\0') != std::string::npos) return invalid("the query has a NUL byte");
      if (!valid_utf8(*part)) return invalid("the query is not UTF-8");
    }
    queries.emplace_back(std::move(*name), std::move(*value));
  }
  return std::nullopt;
}

// Fills target, path, queries, key and target_host.
std::optional<Refusal> parse_target(std::string_view target, Head& head) {
  const auto plain = [](char c) { return c > ' ' && c < '\x7f' && c != '#'; };
  if (!std::ranges::all_of(target, plain)) return invalid("the request target has a byte that must be percent-encoded");

  for (const std::string_view scheme : {"http://", "https://"}) {
    if (target.size() < scheme.size() || !equals_ignoring_case(target.substr(0, scheme.size()), scheme)) continue;
    target.remove_prefix(scheme.size());
    const auto end = std::min(target.find_first_of("/?"), target.size());
    head.target_host = to_lower(target.substr(0, end));
    if (!well_formed_host(head.target_host)) return invalid("the host of the request target is malformed");
    target.remove_prefix(end);
    break;
  }
  const bool absolute = !head.target_host.empty();
  std::string origin(target);
  if (absolute && !origin.starts_with('/')) origin.insert(origin.begin(), '/');
  if (!origin.starts_with('/')) {
    if (origin == "*" && head.request.method == verb::options) {
      head.request.target = head.request.path = std::move(origin);
      return std::nullopt;
    }
    return invalid("the request target must begin with '/'");
  }

  if (origin.starts_with("/cove_")) {
    const auto end = std::min(origin.find_first_of("/?", 1), origin.size());
    head.key = origin.substr(1, end - 1);
    origin.erase(0, end);
    if (!origin.starts_with('/')) origin.insert(origin.begin(), '/');
  }
  const auto question = origin.find('?');
  head.request.path = origin.substr(0, question);
  head.request.target = origin;
  if (question == std::string::npos) return std::nullopt;
  return parse_queries(std::string_view(head.request.target).substr(question + 1), head.request.queries);
}

// Fills chunked and content_length. Beast has its own opinions (a list of equal lengths, other codings before
// "chunked"); here there is one way to write each.
std::optional<Refusal> parse_framing(Head& head) {
  const auto lengths = head.request.header_all("Content-Length");
  const auto codings = head.request.header_all("Transfer-Encoding");
  if (!lengths.empty() && !codings.empty()) return invalid("Content-Length and Transfer-Encoding exclude each other");
  if (lengths.size() > 1) return invalid("there is more than one Content-Length");
  if (codings.size() > 1) return invalid("there is more than one Transfer-Encoding");
  if (!codings.empty()) {
    if (head.request.version < 11) return invalid("HTTP/1.0 has no Transfer-Encoding");
    if (!equals_ignoring_case(codings.front(), "chunked"))
      return invalid("the only supported Transfer-Encoding is chunked");
    head.chunked = true;
  }
  if (!lengths.empty()) {
    const auto text = lengths.front();
    const bool digits =
        !text.empty() && text.size() <= 19 && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
    if (!digits) return invalid("Content-Length is not a number");
    std::from_chars(text.data(), text.data() + text.size(), head.content_length);
  }
  return std::nullopt;
}

}  // namespace

std::variant<std::optional<std::size_t>, Refusal> HeadScanner::scan(std::string_view buffer) {
  for (; at_ < buffer.size(); ++at_) {
    const auto c = static_cast<unsigned char>(buffer[at_]);
    if (at_ >= limits_.head) return refusal(431, "too_large", "the head of the request is too large");
    const bool after_cr = at_ > 0 && buffer[at_ - 1] == '\r';
    if (after_cr != (c == '\n')) return invalid("lines of the head must end with CR LF");
    if ((c < 0x20 && c != '\t' && c != '\r' && c != '\n') || c == 0x7f) return invalid("the head has a control byte");
    if (line_ > 0 && at_ == line_begin_ && (c == ' ' || c == '\t')) return invalid("header lines must not be folded");
    if (line_ == 0 && at_ > limits_.target + kLongestMethod) return refusal(414, "too_large", "the URL is too long");
    if (c != '\n') continue;

    const auto line = buffer.substr(line_begin_, at_ - 1 - line_begin_);
    if (line.empty() && line_ > 0) return at_ + 1;
    if (line_ == 0 && line.find(" HTTP/1.") == std::string_view::npos) return invalid("this is not HTTP/1.1");
    if (line_ > limits_.lines) return refusal(431, "too_large", "there are too many header lines");
    ++line_;
    line_begin_ = at_ + 1;
  }
  return std::nullopt;
}

std::variant<Head, Refusal> parse_head(std::string_view text, HeadLimits limits) {
  beast_http::request_parser<beast_http::empty_body> parser;
  parser.header_limit(static_cast<std::uint32_t>(limits.head + 1024));
  parser.body_limit(boost::none);
  parser.eager(false);
  parser.skip(true);
  boost::system::error_code ec;
  parser.put(boost::asio::buffer(text.data(), text.size()), ec);
  if (ec || !parser.is_header_done()) return invalid("the head of the request is malformed");

  const auto& message = parser.get();
  Head head;
  auto& request = head.request;
  request.method = message.method();
  request.method_text = std::string(message.method_string());
  request.version = message.version();
  for (const auto& field : message) {
    request.headers.emplace_back(std::string(field.name_string()), std::string(field.value()));
    if (!valid_utf8(request.headers.back().second)) return invalid("a header is not UTF-8");
  }
  if (message.target().size() > limits.target) return refusal(414, "too_large", "the URL is too long");
  // From here on there is a request to speak of; methods first, since CONNECT has a target of its own form.
  if (request.method == verb::unknown) return refusal(501, "unsupported", "this method is not supported");
  if (request.method == verb::trace || request.method == verb::connect) {
    return refusal(405, "method_not_allowed", "this method is not allowed here");
  }
  if (auto refused = parse_framing(head)) return *refused;
  if (auto refused = parse_target({message.target().data(), message.target().size()}, head)) return *refused;

  const auto hosts = request.header_all("Host");
  if (hosts.size() > 1) return invalid("there is more than one Host");
  if (hosts.empty() && request.version >= 11) return invalid("Host is missing");
  if (!hosts.empty()) {
    if (!well_formed_host(hosts.front())) return invalid("Host is malformed");
    head.host = to_lower(hosts.front());
  }

  bool close = false;
  bool keep = false;
  for (const auto& connection : request.header_all("Connection")) {
    close = close || list_has(connection, "close");
    keep = keep || list_has(connection, "keep-alive");
  }
  head.keep_alive = !close && (request.version >= 11 || keep);
  for (const auto& expect : request.header_all("Expect")) {
    if (!equals_ignoring_case(expect, "100-continue"))
      return refusal(417, "invalid", "the only supported Expect is 100-continue");
    head.expect_continue = request.version >= 11;
  }
  return head;
}

std::string random_request_id() {
  constexpr std::string_view kAlphabet = "abcdefghijklmnopqrstuvwxyz234567";
  std::array<std::uint8_t, 26> bytes{};
  fill_random(std::as_writable_bytes(std::span(bytes)));
  std::string id = "req_";
  for (const auto byte : bytes) id += kAlphabet[byte % 32];
  return id;
}

std::string request_id(const Request& request) {
  const auto given = request.header("X-Request-Id");
  const bool harmless = !given.empty() && given.size() <= 64 && std::ranges::all_of(given, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == '-';
  });
  // One that holds a key would carry it into the log, and back.
  return harmless && redact_keys(given) == given ? std::string(given) : random_request_id();
}

BodyDecoder BodyDecoder::of_length(std::uint64_t length) {
  BodyDecoder decoder;
  decoder.left_ = length;
  decoder.state_ = length == 0 ? State::done : State::raw;
  return decoder;
}

BodyDecoder BodyDecoder::of_chunks() {
  BodyDecoder decoder;
  decoder.state_ = State::size_begin;
  return decoder;
}

void BodyDecoder::skip(std::uint64_t count) {
  left_ -= count;
  if (left_ == 0) state_ = State::done;
}

// One byte of framing.
std::optional<BodyDecoder::State> BodyDecoder::next(char c) {
  switch (state_) {
    case State::size_begin:
    case State::size: {
      if (c == '\r' && state_ == State::size) return State::size_lf;
      std::uint64_t digit = 0;
      const auto [end, ec] = std::from_chars(&c, &c + 1, digit, 16);
      if (ec != std::errc{} || ++digits_ > 15) return std::nullopt;
      left_ = left_ * 16 + digit;
      return State::size;
    }
    case State::size_lf:
      if (c != '\n') return std::nullopt;
      digits_ = 0;
      return left_ == 0 ? State::trailer_begin : State::data;
    case State::data_cr:
      return c == '\r' ? std::optional(State::data_lf) : std::nullopt;
    case State::data_lf:
      return c == '\n' ? std::optional(State::size_begin) : std::nullopt;
    case State::trailer_begin:
    case State::trailer:
      if (++trailer_bytes_ > kTrailerLimit || c == '\n' || c == '\0') return std::nullopt;
      if (c == '\r') return state_ == State::trailer_begin ? State::last_lf : State::trailer_lf;
      return State::trailer;
    case State::trailer_lf:
      return c == '\n' ? std::optional(State::trailer_begin) : std::nullopt;
    case State::last_lf:
      return c == '\n' ? std::optional(State::done) : std::nullopt;
    case State::done:
    case State::raw:
    case State::data:
      break;
  }
  return std::nullopt;
}

std::optional<BodyDecoder::Step> BodyDecoder::decode(std::string_view input, char* output, std::size_t size) {
  Step step;
  while (state_ != State::done && step.used < input.size()) {
    if (state_ != State::raw && state_ != State::data) {
      const auto to = next(input[step.used]);
      if (!to) return std::nullopt;
      state_ = *to;
      ++step.used;
      continue;
    }
    const auto count = static_cast<std::size_t>(
        std::min<std::uint64_t>(left_, std::min(size - step.produced, input.size() - step.used)));
    if (count == 0) break;
    std::memcpy(output + step.produced, input.data() + step.used, count);
    step.used += count;
    step.produced += count;
    left_ -= count;
    if (left_ == 0) state_ = state_ == State::raw ? State::done : State::data_cr;
  }
  return step;
}

}  // namespace cove::http
