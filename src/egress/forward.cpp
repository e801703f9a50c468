#include "egress/forward.hpp"

#include <algorithm>
#include <array>

#include "egress/carry.hpp"
#include "egress/expiry.hpp"
#include "egress/sandbox_egress.hpp"
#include "egress/scrubber.hpp"
#include "http/head.hpp"

namespace cove::egress {
namespace {

using async::Task;
using Clock = std::chrono::steady_clock;

constexpr http::HeadLimits kRequestLimits{.head = 64 << 10, .target = 16 << 10, .lines = 200};
constexpr std::size_t kLongestAnswerHead = 128 << 10;
constexpr std::size_t kPiece = 32 << 10;
constexpr unsigned kPartialContent = 206;
constexpr std::uint16_t kTlsPort = 443;
constexpr std::size_t kMostIgnored = 256 << 10;
constexpr std::chrono::seconds kHeadPatience{15};
constexpr std::chrono::seconds kFarewell{3};

// One request and its answer, while they pass.
struct Passing {
  std::shared_ptr<SandboxEgress> egress;
  std::shared_ptr<Flow> flow;
  Sides sides;
  ProxyRequest request;
  std::vector<std::string> secrets;  // every form in which they may come back
  bool sent = false;                 // the request, as a whole
};
using Held = std::shared_ptr<Passing>;

Task<bool> send_out(Held passing, std::string text) {
  if (!co_await spend(passing->egress, passing->flow, text.size())) co_return false;
  passing->flow->bytes_out += text.size();
  co_return co_await passing->sides.server->write(text);
}

Task<bool> send_in(Held passing, std::string text) {
  if (text.empty()) co_return true;
  if (!co_await spend(passing->egress, passing->flow, text.size())) co_return false;
  passing->flow->bytes_in += text.size();
  co_return co_await passing->sides.client->write(text);
}

std::string chunk(std::string_view bytes) {
  return fmt::format("{:x}\r\n{}\r\n", bytes.size(), bytes);
}

Task<> send_body(Held passing, std::string rest) {
  auto& flow = *passing->flow;
  const auto& request = passing->request;
  auto decoder =
      request.chunked ? http::BodyDecoder::of_chunks() : http::BodyDecoder::of_length(request.content_length);
  std::vector<char> in(kPiece);
  std::vector<char> out(kPiece);
  while (!decoder.done()) {
    if (rest.empty()) {
      const auto size = co_await passing->sides.client->read_some(in);
      if (size == 0) co_return flow.cut("the request ended early");
      rest.assign(in.data(), size);
    }
    const auto step = decoder.decode(rest, out.data(), out.size());
    if (!step) {
      flow.recorded = false;
      co_return passing->egress->refuse(flow, {.verdict = Verdict::denied, .rule = "http: the body is malformed"});
    }
    rest.erase(0, step->used);
    if (step->produced == 0) continue;
    const std::string_view bytes(out.data(), step->produced);
    auto piece = request.chunked ? chunk(bytes) : std::string(bytes);
    if (!co_await send_out(passing, std::move(piece))) co_return;
  }
  if (request.chunked) co_await send_out(passing, "0\r\n\r\n");
}

Task<> send_request(Held passing, std::string head, std::string rest) {
  struct Done {
    Passing& passing;
    ~Done() {
      passing.sent = true;
      passing.flow->changed.notify_all();
    }
  } const done{*passing};
  if (!co_await send_out(passing, std::move(head))) co_return;
  if (passing->request.has_body()) co_await send_body(passing, std::move(rest));
}

// Reads into `buffer` until it has a whole head, whose size this is. Nothing: there is none.
Task<std::size_t> read_answer_head(Held passing, std::string& buffer) {
  std::vector<char> piece(kPiece);
  while (true) {
    if (const auto end = buffer.find("\r\n\r\n"); end != std::string::npos) co_return end + 4;
    if (buffer.size() > kLongestAnswerHead) co_return 0;
    const auto size = co_await passing->sides.server->read_some(piece);
    if (size == 0) co_return 0;
    buffer.append(piece.data(), size);
  }
}

enum class BodyEnd : std::uint8_t { framed, with_the_connection };

Task<> pass_body(Held passing, ProxyResponse response, std::string buffer) {
  const auto ends = response.chunked || response.has_length ? BodyEnd::framed : BodyEnd::with_the_connection;
  auto decoder =
      response.chunked ? http::BodyDecoder::of_chunks() : http::BodyDecoder::of_length(response.content_length);
  Scrubber scrubber(passing->secrets);
  std::vector<char> in(kPiece);
  std::vector<char> out(kPiece);
  const auto told = [&](std::string bytes) { return response.chunked && !bytes.empty() ? chunk(bytes) : bytes; };
  while (ends == BodyEnd::with_the_connection || !decoder.done()) {
    if (buffer.empty()) {
      const auto size = co_await passing->sides.server->read_some(in);
      if (size == 0 && ends == BodyEnd::framed) co_return passing->flow->cut("the answer ended early");
      if (size == 0) break;
      buffer.assign(in.data(), size);
    }
    std::string bytes;
    if (ends == BodyEnd::with_the_connection) {
      bytes = std::exchange(buffer, {});
    } else {
      const auto step = decoder.decode(buffer, out.data(), out.size());
      if (!step) co_return passing->flow->cut("the answer is malformed");
      buffer.erase(0, step->used);
      bytes.assign(out.data(), step->produced);
    }
    auto piece = told(scrubber.pass(bytes, false));
    if (!co_await send_in(passing, std::move(piece))) co_return;
  }
  auto tail = told(scrubber.pass({}, true));
  if (response.chunked) tail += "0\r\n\r\n";
  co_await send_in(passing, std::move(tail));
}

// False: the client was told something else than an answer of the server's.
Task<bool> pass_answer(Held passing) {
  std::string buffer;
  ProxyResponse response;
  while (true) {
    const auto size = co_await read_answer_head(passing, buffer);
    if (passing->flow->is_cut()) co_return false;
    auto parsed = size == 0 ? ProxyRefusal{.status = 502, .sentence = "the server closed the connection"}
                            : parse_response(std::string_view(buffer).substr(0, size));
    if (const auto* refused = std::get_if<ProxyRefusal>(&parsed)) {
      auto text = own_answer(502, "Bad Gateway", refused->sentence);
      co_await last_words(passing->flow, passing->sides.client, std::move(text));
      co_return false;
    }
    buffer.erase(0, size);
    response = std::move(std::get<ProxyResponse>(parsed));
    if (response.status >= 200) break;
    auto interim = Scrubber::scrub(encode_response(response), passing->secrets);
    if (!co_await send_in(passing, std::move(interim))) co_return false;
  }
  const bool has_body = passing->request.method != "HEAD" && response.status != 204 && response.status != 304;
  if (!passing->secrets.empty() && has_body && (response.encoded || response.status == kPartialContent)) {
    auto text = own_answer(502, "Bad Gateway",
                           fmt::format("the server {} its answer although it was asked not to, so it cannot be "
                                       "searched for the header that was added",
                                       response.encoded ? "compressed" : "sent in parts"));
    co_await last_words(passing->flow, passing->sides.client, std::move(text));
    co_return false;
  }
  auto head = Scrubber::scrub(encode_response(response), passing->secrets);
  if (!co_await send_in(passing, std::move(head))) co_return false;
  if (has_body) co_await pass_body(passing, std::move(response), std::move(buffer));
  co_return true;
}

// The headers that the policy adds to a request, and those that must not come from the client beside them.
std::vector<HttpField> added_fields(const Policy& policy, const AuditSubject& subject,
                                    std::vector<std::string>& secrets) {
  std::vector<HttpField> added;
  for (const auto& rule : policy.headers) {
    if (subject.name.empty() || !rule.matches(subject.name, subject.port)) continue;
    added.push_back({.name = rule.header, .value = rule.value});
    std::ranges::copy(forms_of_secret(rule.value), std::back_inserter(secrets));
  }
  if (added.empty()) return added;
  // A compressed answer, or one in parts, could repeat the value unseen.
  added.push_back({.name = "Accept-Encoding", .value = "identity"});
  added.push_back({.name = "Range", .value = ""});
  added.push_back({.name = "Request-Range", .value = ""});  // some servers know it by its first name
  added.push_back({.name = "If-Range", .value = ""});
  return added;
}

}  // namespace

Task<ReadHead> read_request_head(std::shared_ptr<Flow> flow, std::shared_ptr<ByteStream> client, std::string begun) {
  ReadHead read;
  read.refusal.status = 0;
  http::HeadScanner scanner(kRequestLimits);
  const Expiry expiry(flow->client.get_executor(), Clock::now() + kHeadPatience,
                      [flow] { flow->cut("http: no request in time"); });
  std::vector<char> piece(8 << 10);
  while (true) {
    const auto found = scanner.scan(begun);
    if (const auto* refused = std::get_if<http::Refusal>(&found)) {
      read.refusal = {.status = refused->status, .sentence = refused->sentence};
      co_return read;
    }
    if (const auto size = std::get<std::optional<std::size_t>>(found)) {
      read.head = begun.substr(0, *size);
      read.rest = begun.substr(*size);
      co_return read;
    }
    const auto size = co_await client->read_some(piece);
    if (size == 0) co_return read;
    begun.append(piece.data(), size);
  }
}

Task<> forward(std::shared_ptr<SandboxEgress> egress, std::shared_ptr<Flow> flow, Sides sides, ProxyRequest request,
               std::string rest) {
  const auto passing = std::make_shared<Passing>(
      Passing{.egress = egress, .flow = flow, .sides = std::move(sides), .request = std::move(request)});
  const auto policy = egress->policy();
  const auto added = added_fields(*policy, flow->subject, passing->secrets);
  if (!added.empty() && passing->request.method == "TRACE") {
    auto text = own_answer(405, "Method Not Allowed", "TRACE would repeat the header that is added to it");
    co_await last_words(flow, passing->sides.client, std::move(text));
    co_return;
  }
  // Whoever is between would read it.
  if (!added.empty() && flow->subject.port == kTlsPort && passing->request.default_port != kTlsPort) {
    flow->decision = {.verdict = Verdict::denied, .rule = "headers: port 443 without TLS"};
    flow->recorded = false;
    egress->record(*flow);
    auto text =
        own_answer(403, "Forbidden", "a header with a secret is added to port 443 within TLS alone: use https://");
    co_await last_words(flow, passing->sides.client, std::move(text));
    co_return;
  }
  auto head = encode_request(passing->request, added);
  auto sending = send_request(passing, std::move(head), std::move(rest));
  egress->tasks.spawn("request", std::move(sending));
  const bool answered = co_await pass_answer(passing);
  if (answered) co_await last_words(flow, passing->sides.client, {});
  if (!passing->sent) flow->cut(answered ? "" : "the request was not answered");
  while (!passing->sent) co_await flow->changed.wait();
}

std::string own_answer(unsigned status, std::string_view reason, std::string_view sentence) {
  return fmt::format(
      "HTTP/1.1 {} {}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\nConnection: "
      "close\r\n\r\n{}\n",
      status, reason, sentence.size() + 1, sentence);
}

Task<> last_words(std::shared_ptr<Flow> flow, std::shared_ptr<ByteStream> client, std::string text) {
  const Expiry expiry(flow->client.get_executor(), Clock::now() + kFarewell, [flow] { flow->cut(""); });
  if (!text.empty() && !co_await client->write(text)) co_return;
  co_await client->end();
  // Closing while something is unread would take the words back.
  std::vector<char> ignored(8 << 10);
  std::size_t bytes = 0;
  while (bytes < kMostIgnored) {
    const auto size = co_await client->read_some(ignored);
    if (size == 0) co_return;
    bytes += size;
  }
}

}  // namespace cove::egress
