#include "http/head.hpp"

#include <gtest/gtest.h>

#include <array>

#include "http/encoding.hpp"

namespace cove::http {
namespace {

// What the server does with the first bytes of a connection: a status, or 0 when it would serve, -1 when it waits for
// more.
int outcome(std::string_view bytes, HeadLimits limits = {}) {
  HeadScanner scanner(limits);
  auto scanned = scanner.scan(bytes);
  if (const auto* refusal = std::get_if<Refusal>(&scanned)) return static_cast<int>(refusal->status);
  const auto size = std::get<std::optional<std::size_t>>(scanned);
  if (!size) return -1;
  const auto parsed = parse_head(bytes.substr(0, *size), limits);
  if (const auto* refusal = std::get_if<Refusal>(&parsed)) return static_cast<int>(refusal->status);
  return 0;
}

struct Row {
  const char* name;
  std::string given;
  int want;
};
class Heads : public testing::TestWithParam<Row> {};

TEST_P(Heads, AreServedOrRefused) {
  EXPECT_EQ(outcome(GetParam().given), GetParam().want);
}

std::string post(std::string_view lines) {
  return "POST / HTTP/1.1\r\nHost: localhost\r\n" + std::string(lines) + "\r\n";
}

INSTANTIATE_TEST_SUITE_P(
    , Heads,
    testing::ValuesIn(std::to_array<Row>({
        {"Plain", "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", 0},
        {"Http10", "GET / HTTP/1.0\r\n\r\n", 0},
        {"Unfinished", "GET / HTTP/1.1\r\nHost: localhost\r\n", -1},
        // framing
        {"Length", post("Content-Length: 5\r\n"), 0},
        {"Chunked", post("Transfer-Encoding: chunked\r\n"), 0},
        {"ChunkedInCapitals", post("Transfer-Encoding: Chunked\r\n"), 0},
        {"LengthAndChunked", post("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"), 400},
        {"ChunkedAndLength", post("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n"), 400},
        {"ChunkedTwice", post("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"), 400},
        {"ChunkedAndIdentity", post("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n"), 400},
        {"ChunkedTwiceInOne", post("Transfer-Encoding: chunked, chunked\r\n"), 400},
        {"GzipChunked", post("Transfer-Encoding: gzip, chunked\r\n"), 400},
        {"Xchunked", post("Transfer-Encoding: xchunked\r\n"), 400},
        {"ChunkedQuoted", post("Transfer-Encoding: \"chunked\"\r\n"), 400},
        {"ChunkedVerticalTab", post("Transfer-Encoding: \vchunked\r\n"), 400},
        {"EmptyCoding", post("Transfer-Encoding:\r\n"), 400},
        {"ChunkedIn10", "POST / HTTP/1.0\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
        {"SameLengthTwice", post("Content-Length: 5\r\nContent-Length: 5\r\n"), 400},
        {"TwoLengths", post("Content-Length: 5\r\nContent-Length: 6\r\n"), 400},
        {"LengthList", post("Content-Length: 5, 5\r\n"), 400},
        {"LengthPlus", post("Content-Length: +5\r\n"), 400},
        {"LengthMinus", post("Content-Length: -5\r\n"), 400},
        {"LengthHex", post("Content-Length: 0x5\r\n"), 400},
        {"LengthWithBlank", post("Content-Length: 5 5\r\n"), 400},
        {"LengthEmpty", post("Content-Length:\r\n"), 400},
        {"LengthTooLong", post("Content-Length: 99999999999999999999\r\n"), 400},
        {"BlankBeforeColon", post("Content-Length : 5\r\n"), 400},
        {"TabBeforeColon", post("Transfer-Encoding\t: chunked\r\n"), 400},
        {"Folded", post("X-A: 1\r\n Content-Length: 5\r\n"), 400},
        {"FoldedByTab", post("X-A: 1\r\n\tb\r\n"), 400},
        {"FirstLineFolded", "GET / HTTP/1.1\r\n Host: localhost\r\n\r\n", 400},
        {"LineFeedsOnly", "GET / HTTP/1.1\nHost: localhost\n\n", 400},
        {"OneLineFeed", post("X-A: 1\nContent-Length: 5\r\n"), 400},
        {"CarriageReturnInside", post("X-A: 1\rContent-Length: 5\r\n"), 400},
        {"NoColon", post("Just text\r\n"), 400},
        {"EmptyName", post(": value\r\n"), 400},
        {"NulInValue", post(std::string("X-A: a\0b\r\n", 10)), 400},
        {"ControlInValue", post("X-A: a\x01z\r\n"), 400},
        {"DeleteInValue", post("X-A: a\x7f\r\n"), 400},
        {"InvalidUtf8InValue", post("X-A: a\xff\r\n"), 400},
        {"Utf8InValue", post("X-A: \xc3\xa4\r\n"), 0},
        {"HighByteInName", post("X-\xc3\xa4: 1\r\n"), 400},
        {"Expect", post("Expect: 100-continue\r\nContent-Length: 1\r\n"), 0},
        {"ExpectElse", post("Expect: the-unexpected\r\n"), 417},
        // hosts
        {"NoHost", "GET / HTTP/1.1\r\n\r\n", 400},
        {"TwoHosts", "GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n", 400},
        {"EmptyHost", "GET / HTTP/1.1\r\nHost:\r\n\r\n", 400},
        {"HostWithUser", "GET / HTTP/1.1\r\nHost: a@localhost\r\n\r\n", 400},
        {"HostWithPath", "GET / HTTP/1.1\r\nHost: localhost/x\r\n\r\n", 400},
        {"HostWithBlank", "GET / HTTP/1.1\r\nHost: a b\r\n\r\n", 400},
        {"HostList", "GET / HTTP/1.1\r\nHost: localhost, evil\r\n\r\n", 400},
        {"HostPortText", "GET / HTTP/1.1\r\nHost: localhost:abc\r\n\r\n", 400},
        {"HostOpenBracket", "GET / HTTP/1.1\r\nHost: [::1\r\n\r\n", 400},
        // request lines
        {"Http09", "GET /\r\n", 400},
        {"Http2Preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400},
        {"Http12", "GET / HTTP/1.2\r\nHost: localhost\r\n\r\n", 400},
        {"LowerCaseVersion", "GET / http/1.1\r\nHost: localhost\r\n\r\n", 400},
        {"TwoBlanks", "GET  / HTTP/1.1\r\nHost: localhost\r\n\r\n", 400},
        {"BlankInTarget", "GET /a b HTTP/1.1\r\nHost: localhost\r\n\r\n", 400},
        {"TrailingBlank", "GET / HTTP/1.1 \r\nHost: localhost\r\n\r\n", 400},
        {"HighByteInTarget", "GET /\xc3\xa4 HTTP/1.1\r\nHost: localhost\r\n\r\n", 400},
        {"Fragment", "GET /a#b HTTP/1.1\r\nHost: localhost\r\n\r\n", 400},
        {"NoSlash", "GET a HTTP/1.1\r\nHost: localhost\r\n\r\n", 400},
        {"StarGet", "GET * HTTP/1.1\r\nHost: localhost\r\n\r\n", 400},
        {"StarOptions", "OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n", 0},
        {"AbsoluteForm", "GET http://localhost/a HTTP/1.1\r\nHost: localhost\r\n\r\n", 0},
        {"AbsoluteFormWithUser", "GET http://a@localhost/a HTTP/1.1\r\nHost: localhost\r\n\r\n", 400},
        {"OtherScheme", "GET ftp://localhost/a HTTP/1.1\r\nHost: localhost\r\n\r\n", 400},
        {"Trace", "TRACE / HTTP/1.1\r\nHost: localhost\r\n\r\n", 405},
        {"Connect", "CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n\r\n", 405},
        {"UnknownMethod", "BREW / HTTP/1.1\r\nHost: localhost\r\n\r\n", 501},
        {"LowerCaseMethod", "get / HTTP/1.1\r\nHost: localhost\r\n\r\n", 501},
        {"QueryBadPercent", "GET /?a=%zz HTTP/1.1\r\nHost: localhost\r\n\r\n", 400},
        {"QueryNul", "GET /?a=%00 HTTP/1.1\r\nHost: localhost\r\n\r\n", 400},
        {"QueryInvalidUtf8", "GET /?a=%ff HTTP/1.1\r\nHost: localhost\r\n\r\n", 400},
        {"Tls", std::string("\x16\x03\x01\x02\x00\x01\x00", 7), 400},
        {"Nuls", std::string(16, '\0'), 400},
        // limits
        {"LongTarget", "GET /" + std::string(9000, 'a') + " HTTP/1.1\r\nHost: localhost\r\n\r\n", 414},
        {"EndlessTarget", "GET /" + std::string(64 << 10, 'a'), 414},
        {"EndlessMethod", std::string(64 << 10, 'A'), 414},
        {"LongLine", post("X-A: " + std::string(100'000, 'a') + "\r\n"), 431},
    })),
    [](const auto& row) { return std::string(row.param.name); });

TEST(HeadScanner, TakesSoManyLinesAndNoMore) {
  const auto with_lines = [](int count) {
    std::string lines;
    for (int i = 1; i < count; ++i) lines += "A: b\r\n";
    return outcome(post(lines));
  };
  EXPECT_EQ(with_lines(100), 0);
  EXPECT_EQ(with_lines(101), 431);
  EXPECT_EQ(with_lines(5000), 431);
}

TEST(HeadScanner, MayBeFedByteByByte) {
  const std::string text = "GET /a?b=c HTTP/1.1\r\nHost: localhost\r\nX-A: b\r\n\r\nrest";
  HeadScanner scanner({});
  for (std::size_t size = 0; size < text.size() - 4; ++size) {
    const auto scanned = scanner.scan(std::string_view(text).substr(0, size));
    ASSERT_EQ(std::get<0>(scanned), std::nullopt) << size;
  }
  EXPECT_EQ(std::get<0>(scanner.scan(text)), text.size() - 4);
}

Head parsed(const std::string& target) {
  return std::get<Head>(parse_head("GET " + target + " HTTP/1.1\r\nHost: LOCALHOST:1\r\n\r\n", {}));
}

TEST(Target, IsTakenApart) {
  const auto head = parsed("/a%2Fb/c?x=1&y=a+b%2Bc&x=2&z&=w&&dest=%2Fworkspace");
  EXPECT_EQ(head.request.path, "/a%2Fb/c");
  EXPECT_EQ(head.request.query("x"), "1");
  EXPECT_EQ(head.request.query_all("x"), (std::vector<std::string>{"1", "2"}));
  EXPECT_EQ(head.request.query("y"), "a b+c");
  EXPECT_EQ(head.request.query("z"), "");
  EXPECT_EQ(head.request.query("dest"), "/workspace");
  EXPECT_EQ(head.request.query("nothing"), std::nullopt);
  EXPECT_EQ(head.host, "localhost:1");
  EXPECT_EQ(head.key, "");
}

TEST(Target, LosesItsKey) {
  for (const auto& [target, path, want] : std::to_array<std::array<std::string, 3>>({
           {"/cove_abc/v1/sandboxes?x=1", "/v1/sandboxes", "/v1/sandboxes?x=1"},
           {"/cove_abc/", "/", "/"},
           {"/cove_abc", "/", "/"},
           {"/cove_abc?x=1", "/", "/?x=1"},
           {"http://localhost:1/cove_abc/v1", "/v1", "/v1"},
       })) {
    const auto head = parsed(target);
    EXPECT_EQ(head.key, "cove_abc") << target;
    EXPECT_EQ(head.request.path, path) << target;
    EXPECT_EQ(head.request.target, want) << target;
  }
  EXPECT_EQ(parsed("/v1/cove_abc").key, "");
  EXPECT_EQ(parsed("/covered/x").key, "");
}

TEST(RequestId, IsTheClientsIfHarmless) {
  Request request;
  request.headers = {{"x-request-id", "My.Id_1-2"}};
  EXPECT_EQ(request_id(request), "My.Id_1-2");
  for (const std::string bad : {"", "a b", "a\"b", "<x>", "a/b"}) {
    request.headers = {{"X-Request-Id", bad}};
    EXPECT_TRUE(request_id(request).starts_with("req_")) << bad;
  }
  request.headers = {{"X-Request-Id", std::string(65, 'a')}};
  EXPECT_EQ(request_id(request).size(), 30U);
  EXPECT_NE(random_request_id(), random_request_id());
}

// The decoded body, then "|" and what was left over; "bad", or "more" when it is not complete.
std::string decoded(std::string_view input, std::size_t piece, std::size_t room) {
  auto decoder = BodyDecoder::of_chunks();
  std::string body;
  std::string output(room, '\0');
  std::size_t available = 0;
  std::size_t used = 0;
  while (!decoder.done()) {
    const auto step = decoder.decode(input.substr(used, available - used), output.data(), room);
    if (!step) return "bad";
    used += step->used;
    body += output.substr(0, step->produced);
    if (step->used == 0 && step->produced == 0 && !decoder.done()) {
      if (available == input.size()) return "more";
      available = std::min(input.size(), available + piece);
    }
  }
  return body + "|" + std::string(input.substr(used));
}

struct ChunkRow {
  const char* name;
  std::string given;
  std::string want;
};
class Chunks : public testing::TestWithParam<ChunkRow> {};

TEST_P(Chunks, AreDecodedInPiecesOfAnySize) {
  for (const std::size_t piece : {1U, 2U, 3U, 7U, 1000U}) {
    for (const std::size_t room : {1U, 2U, 64U}) EXPECT_EQ(decoded(GetParam().given, piece, room), GetParam().want);
  }
}
INSTANTIATE_TEST_SUITE_P(, Chunks,
                         testing::ValuesIn(std::to_array<ChunkRow>({
                             {"Two", "5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n", "hello world|"},
                             {"Hex", "00a\r\n0123456789\r\n0\r\n\r\n", "0123456789|"},
                             {"Empty", "0\r\n\r\n", "|"},
                             {"NextRequest", "1\r\na\r\n0\r\n\r\nGET", "a|GET"},
                             {"Trailers", "1\r\na\r\n0\r\nX: y\r\nZ: w\r\n\r\nGET", "a|GET"},
                             {"Extension", "1;a=b\r\na\r\n0\r\n\r\n", "bad"},
                             {"ExtensionAtTheEnd", "1\r\na\r\n0;x\r\n\r\n", "bad"},
                             {"BlankAfterSize", "1 \r\na\r\n0\r\n\r\n", "bad"},
                             {"BlankBeforeSize", " 1\r\na\r\n0\r\n\r\n", "bad"},
                             {"Plus", "+1\r\na\r\n0\r\n\r\n", "bad"},
                             {"Minus", "-1\r\na\r\n0\r\n\r\n", "bad"},
                             {"Prefix", "0x1\r\na\r\n0\r\n\r\n", "bad"},
                             {"NoSize", "\r\na\r\n0\r\n\r\n", "bad"},
                             {"LineFeed", "1\na\r\n0\r\n\r\n", "bad"},
                             {"LineFeedAfterData", "1\r\na\n0\r\n\r\n", "bad"},
                             {"TooMuchData", "1\r\nab\r\n0\r\n\r\n", "bad"},
                             {"Huge", "ffffffffffffffff\r\na", "bad"},
                             {"Overflow", "10000000000000001\r\na", "bad"},
                             {"LineFeedInTrailer", "0\r\nX: y\n\r\n", "bad"},
                             {"EndlessTrailer", "0\r\n" + std::string(9000, 'a'), "bad"},
                             {"Cut", "5\r\nhel", "more"},
                         })),
                         [](const auto& row) { return std::string(row.param.name); });

}  // namespace
}  // namespace cove::http
