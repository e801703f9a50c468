#include "http/gate.hpp"

#include <gtest/gtest.h>

#include <array>

namespace cove::http {
namespace {

struct Row {
  const char* name;
  std::string_view headers;  // after "GET /x HTTP/1.1\r\n"
  bool pass;
  Navigation navigation = Navigation::refused;
  std::string_view target = "/x";
};
class GateTable : public testing::TestWithParam<Row> {};

TEST_P(GateTable, LetsOwnPagesAndToolsIn) {
  const auto text =
      "GET " + std::string(GetParam().target) + " HTTP/1.1\r\n" + std::string(GetParam().headers) + "\r\n";
  const auto head = parse_head(text, {});
  ASSERT_TRUE(std::holds_alternative<Head>(head)) << std::get<Refusal>(head).sentence;
  const std::vector<std::string> hosts = {"cove.example", "proxy.example:8443", "[2001:db8::1]:80"};
  const std::vector<std::string> origins = {"https://console.example"};
  const Gate gate{.allowed_hosts = hosts, .allowed_origins = origins, .local_address = "10.0.0.5", .local_port = 8000};
  EXPECT_EQ(!check_gate(gate, std::get<Head>(head), GetParam().navigation), GetParam().pass);
}
INSTANTIATE_TEST_SUITE_P(
    , GateTable,
    testing::ValuesIn(std::to_array<Row>({
        {"Loopback", "Host: 127.0.0.1:8000\r\n", true},
        {"LoopbackWithoutPort", "Host: 127.0.0.1\r\n", true},
        {"LoopbackOtherPort", "Host: 127.0.0.1:9000\r\n", false},
        {"Localhost", "Host: LocalHost:8000\r\n", true},
        {"LocalhostTrailingDot", "Host: localhost.:8000\r\n", false},
        {"LoopbackV6", "Host: [::1]:8000\r\n", true},
        {"BoundAddress", "Host: 10.0.0.5:8000\r\n", true},
        {"OtherAddress", "Host: 10.0.0.6:8000\r\n", false},
        {"Foreign", "Host: evil.test\r\n", false},
        {"ForeignThatBeginsWell", "Host: 127.0.0.1.evil.test\r\n", false},
        {"Allowed", "Host: cove.example\r\n", true},
        {"AllowedAnyPort", "Host: cove.example:1234\r\n", true},
        {"AllowedWithPort", "Host: proxy.example:8443\r\n", true},
        {"AllowedWithOtherPort", "Host: proxy.example:80\r\n", false},
        {"AllowedV6", "Host: [2001:db8::1]:80\r\n", true},
        {"AbsoluteFormOurs", "Host: localhost\r\n", true, Navigation::refused, "http://localhost:8000/x"},
        {"AbsoluteFormForeign", "Host: localhost\r\n", false, Navigation::refused, "http://evil.test/x"},
        {"AbsoluteFormForeignHost", "Host: evil.test\r\n", false, Navigation::refused, "http://localhost/x"},
        {"OwnOrigin", "Host: localhost:8000\r\nOrigin: http://localhost:8000\r\n", true},
        {"OwnOriginByTls", "Host: cove.example\r\nOrigin: https://cove.example\r\n", true},
        {"OtherPortOrigin", "Host: localhost:8000\r\nOrigin: http://localhost:3000\r\n", false},
        {"OtherNameOrigin", "Host: localhost:8000\r\nOrigin: http://127.0.0.1:8000\r\n", false},
        {"ForeignOrigin", "Host: localhost:8000\r\nOrigin: http://evil.test\r\n", false},
        {"NullOrigin", "Host: localhost:8000\r\nOrigin: null\r\n", false},
        {"EmptyOrigin", "Host: localhost:8000\r\nOrigin:\r\n", false},
        {"TwoOrigins", "Host: localhost:8000\r\nOrigin: http://localhost:8000\r\nOrigin: http://localhost:8000\r\n",
         false},
        {"AllowedOrigin", "Host: localhost:8000\r\nOrigin: https://console.example\r\nSec-Fetch-Site: cross-site\r\n",
         true},
        {"CrossSite", "Host: localhost:8000\r\nSec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: no-cors\r\n", false},
        {"SameSiteOtherPort", "Host: localhost:8000\r\nSec-Fetch-Site: same-site\r\n", false},
        {"SameOrigin", "Host: localhost:8000\r\nSec-Fetch-Site: same-origin\r\n", true},
        {"TypedByHand", "Host: localhost:8000\r\nSec-Fetch-Site: none\r\n", true},
        {"LinkToAnApiRoute",
         "Host: localhost:8000\r\nSec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: "
         "document\r\n",
         false},
        {"LinkToAPage",
         "Host: localhost:8000\r\nSec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: "
         "document\r\n",
         true, Navigation::allowed},
        {"FrameOfAPage",
         "Host: localhost:8000\r\nSec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: iframe\r\n",
         false, Navigation::allowed},
        {"ForwardedHostIsIgnored", "Host: evil.test\r\nX-Forwarded-Host: localhost\r\nForwarded: host=localhost\r\n",
         false},
    })),
    [](const auto& row) { return std::string(row.param.name); });

TEST(Gate, CanBeToldNotToLookAtHosts) {
  const std::vector<std::string> none;
  const Gate gate{.check_host = false, .allowed_hosts = none, .allowed_origins = none};
  EXPECT_TRUE(gate.host_allowed("evil.test"));
  EXPECT_FALSE(gate.origin_allowed("http://evil.test", "cove.example"));
}

}  // namespace
}  // namespace cove::http
