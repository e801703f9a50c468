// Any bytes as lines of an MCP client: however they are cut, the same messages come out, and each is read or named as
// what is wrong with it. The same bytes as a token open nothing.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "mcp/envelope.hpp"
#include "mcp/input.hpp"
#include "mcp/mirrored.hpp"
#include "oauth/token.hpp"

namespace {

using namespace cove;

[[noreturn]] void give_up(const char* why) {
  std::fprintf(stderr, "%s\n", why);
  std::abort();
}

std::vector<std::string> texts_of(mcp::Input& input) {
  std::vector<std::string> out;
  while (!input.empty()) {
    const auto item = input.take();
    const auto* value = std::get_if<boost::json::value>(&item);
    out.push_back(value != nullptr ? boost::json::serialize(*value) : "!" + std::to_string(item.index()));
  }
  return out;
}

std::vector<std::string> read_in_pieces(std::string_view bytes, std::size_t piece) {
  mcp::Input input;
  for (std::size_t at = 0; at < bytes.size(); at += piece) input.feed(bytes.substr(at, piece));
  input.give_up();
  return texts_of(input);
}

void read_as_message(const boost::json::value& value) {
  for (const auto strictness : {mcp::Strictness::strict, mcp::Strictness::lenient}) {
    const auto message = mcp::read_message(value, strictness);
    if (!message) {
      if (message.error().fault.message.empty()) give_up("nobody is told what is wrong");
      continue;
    }
    if (message->kind == mcp::Message::Kind::request && message->id.is_null()) give_up("a request without an id");
    if (mcp::has_envelope(message->params)) static_cast<void>(mcp::read_envelope(message->params).has_value());
    static_cast<void>(mcp::mirrored_arguments(message->params));
  }
}

const oauth::TokenCheck& token_check() {
  static const auto* check = new oauth::TokenCheck(
      oauth::read_key_set(
          R"({"keys":[{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]})")
          .value(),
      {.issuers = {"i"}, .audience = "a", .scopes = {}});
  return *check;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto whole = read_in_pieces(bytes, bytes.size() + 1);
  if (read_in_pieces(bytes, data[0] % 32U + 1) != whole) give_up("it matters how the bytes are cut");
  for (const auto& text : whole) {
    boost::system::error_code failed;
    const auto value = boost::json::parse(text, failed);
    if (!failed) read_as_message(value);
  }
  if (token_check().check(bytes, std::chrono::system_clock::time_point())) give_up("a token that nobody signed");
  return 0;
}
