#include "egress/port_groups.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>

namespace cove::egress {
namespace {

namespace ip = boost::asio::ip;

Policy policy(std::string_view text) {
  return parse_policy(boost::json::parse(text), "network").value();
}

// "198.18.0.0/20 443"
std::vector<std::string> lines(const NetworkPlan& plan) {
  std::vector<std::string> texts;
  for (const auto& opening : plan.openings)
    texts.push_back(
        fmt::format("{} {}-{}", outbound::text_of(opening.network), opening.ports.first, opening.ports.last));
  return texts;
}

bool opens(const NetworkPlan& plan, const char* address, std::uint16_t port) {
  const auto holds = [&](const Network& network) { return network.contains(ip::make_address(address)); };
  return std::ranges::any_of(
             plan.openings,
             [&](const Opening& opening) { return holds(opening.network) && opening.ports.contains(port); }) &&
         std::ranges::none_of(plan.closed, holds);
}

TEST(PortGroups, NamesWithTheSamePortsShareABlock) {
  const auto rules = policy(R"({"allow":["a.test:443","b.test:80","c.test:443","*.d.test"]})");
  EXPECT_EQ(block_of(rules, "a.test"), 0U);
  EXPECT_EQ(block_of(rules, "b.test"), 1U);
  EXPECT_EQ(block_of(rules, "c.test"), 0U);
  EXPECT_EQ(block_of(rules, "x.d.test"), 2U);
  EXPECT_THAT(lines(plan_network(rules)), testing::ElementsAre("198.18.0.0/20 443-443", "198.18.16.0/20 80-80",
                                                               "198.18.32.0/20 1-65535", "198.18.240.0/20 1-65535"));
}

TEST(PortGroups, ANameThatSeveralRulesMatchIsInTheMixedBlock) {
  const auto rules = policy(R"({"allow":["*.d.test:443","x.d.test:80,8000-8010"]})");
  EXPECT_EQ(block_of(rules, "x.d.test"), kMixedBlock);
  EXPECT_EQ(block_of(rules, "y.d.test"), 0U);
  const auto plan = plan_network(rules);
  EXPECT_TRUE(opens(plan, "198.18.240.1", 80));
  EXPECT_TRUE(opens(plan, "198.18.240.1", 443));
  EXPECT_FALSE(opens(plan, "198.18.240.1", 22));
}

TEST(PortGroups, MoreGroupsThanBlocksShareTheMixedOne) {
  std::string text = R"({"allow":[)";
  for (int i = 0; i < 20; ++i) text += fmt::format("{}\"h{}.test:{}\"", i == 0 ? "" : ",", i, 1000 + i);
  const auto rules = policy(text + "]}");
  EXPECT_EQ(block_of(rules, "h14.test"), 14U);
  EXPECT_EQ(block_of(rules, "h15.test"), kMixedBlock);
  EXPECT_EQ(block_of(rules, "h19.test"), kMixedBlock);
  EXPECT_TRUE(opens(plan_network(rules), "198.18.240.1", 1019));
}

TEST(PortGroups, NothingIsOpenWithoutARule) {
  EXPECT_TRUE(plan_network(policy(R"("none")")).openings.empty());
  EXPECT_TRUE(plan_network(policy(R"("allow")")).openings.empty());
  EXPECT_FALSE(plan_network(policy(R"({"allow":["a.test"]})")).redirect_dns);
}

TEST(PortGroups, ThePublicModeOpensThePublicAddressesAndWhatIsListed) {
  for (const char* text :
       {R"({"mode":"public","allow":["10.1.0.0/16:80"],"deny":["9.9.9.0/24","8.8.8.8:53"]})",
        R"({"mode":"allow","learn":true,"allow":["10.1.0.0/16:80"],"deny":["9.9.9.0/24","8.8.8.8:53"]})"}) {
    const auto plan = plan_network(policy(text));
    EXPECT_TRUE(plan.redirect_dns);
    for (const char* address : {"1.1.1.1", "8.8.8.8", "198.18.0.5", "198.18.255.255", "2606:4700::1"})
      EXPECT_TRUE(opens(plan, address, 53)) << address;
    for (const char* address : {"127.0.0.1", "10.0.0.1", "169.254.169.254", "192.168.1.1", "198.19.0.1", "9.9.9.9",
                                "::1", "fe80::1", "fd00::1", "224.0.0.1", "0.0.0.0"})
      EXPECT_FALSE(opens(plan, address, 80)) << address;
    EXPECT_TRUE(opens(plan, "10.1.2.3", 80));
    EXPECT_FALSE(opens(plan, "10.1.2.3", 81));
    EXPECT_EQ(block_of(policy(text), "whatever.test"), 0U);
  }
}

TEST(PortGroups, ListedNetworksNeverOpenTheSandboxesOwnAddresses) {
  const auto plan = plan_network(policy(R"({"allow":["0.0.0.0/0","::/0","127.0.0.1"]})"));
  for (const char* address : {"127.0.0.1", "127.9.9.9", "198.18.0.1", "198.19.0.1", "0.0.0.0", "224.0.0.1",
                              "255.255.255.255", "::", "::1", "fe80::1", "ff02::1"})
    EXPECT_FALSE(opens(plan, address, 80)) << address;
  for (const char* address : {"10.0.0.1", "8.8.8.8", "2001:db8::1", "fd00::1"})
    EXPECT_TRUE(opens(plan, address, 80)) << address;
  EXPECT_LT(plan.openings.size(), 400U);
}

}  // namespace
}  // namespace cove::egress
