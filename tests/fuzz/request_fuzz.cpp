// What an HTTP client sends, through everything that looks at it before a handler does. Built with -DCOVE_FUZZ=ON:
//   build-fuzz/tests/fuzz/request_fuzz -max_len=20000 corpus/
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/text.hpp"
#include "http/access_log.hpp"
#include "http/auth.hpp"
#include "http/exchange.hpp"
#include "http/gate.hpp"
#include "http/head.hpp"
#include "http/router.hpp"

namespace {

using namespace cove::http;

void must(bool holds) {
  if (!holds) std::abort();
}

class NoKeys : public Authenticator {
 public:
  std::optional<Principal> check(std::string_view key) override {
    must(!key.empty() && key.size() <= 512);
    return std::nullopt;
  }
  [[nodiscard]] bool open() override { return false; }
  [[nodiscard]] bool still_valid(const Principal& /*principal*/) override { return true; }
};

const Router& router() {
  static const Router kRouter = [] {
    Router made;
    const auto nothing = [](Exchange&) -> Task<> { co_return; };
    made.add(verb::get, "/healthz", nothing);
    made.add(verb::put, "/v1/sandboxes/{id}", nothing);
    made.add(verb::get, "/v1/sandboxes/{id}/processes/{pid}", nothing);
    return made;
  }();
  return kRouter;
}

// The body must decode to the same whatever the pieces it comes in.
std::optional<std::string> decode(BodyDecoder decoder, std::string_view input, std::size_t piece) {
  std::string body;
  std::string room(piece, '\0');
  while (!decoder.done() && !input.empty()) {
    const auto step = decoder.decode(input.substr(0, piece), room.data(), room.size());
    if (!step) return std::nullopt;
    must(step->used > 0 || step->produced > 0);
    must(step->produced <= step->used);
    body += std::string_view(room).substr(0, step->produced);
    input.remove_prefix(step->used);
  }
  return body;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const HeadLimits limits;
  HeadScanner whole(limits);
  const auto scanned = whole.scan(input);
  // Fed in two parts it must say the same.
  HeadScanner parts(limits);
  auto in_parts = parts.scan(input.substr(0, size / 2));
  if (const auto* more = std::get_if<0>(&in_parts); more != nullptr && !*more) in_parts = parts.scan(input);
  must(in_parts.index() == scanned.index());

  const auto* found = std::get_if<0>(&scanned);
  if (found == nullptr || !*found) return 0;
  must(std::get<0>(in_parts) == *found && **found <= size);
  auto parsed = parse_head(input.substr(0, **found), limits);
  auto* head = std::get_if<Head>(&parsed);
  if (head == nullptr) return 0;

  auto& request = head->request;
  must(!head->chunked || head->content_length == 0);
  must(request.path.starts_with('/') || request.path == "*");
  must(!request.path.starts_with("/cove_") || !head->key.empty());
  for (const auto& [name, value] : request.queries)
    must(cove::valid_utf8(name) && value.find('\0') == std::string::npos);
  const auto route = router().find(request.method, request.path);
  if (const auto* match = std::get_if<Router::Found>(&route)) {
    for (const auto& [name, value] : match->params)
      must(cove::valid_utf8(value) && value.find('\0') == std::string::npos);
  }
  const std::vector<std::string> none;
  const Gate gate{.allowed_hosts = none, .allowed_origins = none, .local_address = "127.0.0.1", .local_port = 8000};
  (void)check_gate(gate, *head, Navigation::refused);
  NoKeys keys;
  const auto credentials = parse_credentials({.authorization = request.header_all("Authorization"),
                                              .api_key = request.header_all("X-API-Key"),
                                              .prefix = head->key,
                                              .query_tokens = request.query_all("token")});
  must(authenticate(keys, credentials).verdict != Verdict::allowed);

  AccessRecord record;
  record.id = request_id(request);
  record.target = redact_target(request.target);
  record.user_agent = request.header("User-Agent");
  const auto line = to_log_line(record);
  must(std::ranges::all_of(line, [](char c) { return c >= ' ' && c < '\x7f'; }));

  const auto rest = input.substr(**found);
  const auto body = head->chunked ? BodyDecoder::of_chunks() : BodyDecoder::of_length(head->content_length);
  must(decode(body, rest, 1) == decode(body, rest, 4096) || !decode(body, rest, 4096));
  return 0;
}
