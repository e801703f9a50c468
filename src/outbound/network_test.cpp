#include "outbound/network.hpp"

#include <gtest/gtest.h>

#include "outbound/addresses.hpp"

namespace cove::outbound {
namespace {

namespace ip = boost::asio::ip;

TEST(Network, IsReadAsItIsWritten) {
  for (const char* text : {"10.0.0.0/8", "0.0.0.0/0", "192.0.2.7", "2001:db8::/32", "::/0", "fd00::1"})
    EXPECT_EQ(text_of(parse_network(text).value()), text);
}

TEST(Network, OtherSpellingsAndBitsBelowThePrefixAreRefused) {
  for (const char* text :
       {"", "10.0.0.1/8", "10/8", "127.1", "0x7f.0.0.1", "010.0.0.1", "10.0.0.0/33", "10.0.0.0/", "10.0.0.0/-1",
        "10.0.0.0/+8", "10.0.0.0/8/8", "fe80::1%eth0", "::ffff:10.0.0.1", "2001:db8::/129", "[::1]", " 10.0.0.0/8"})
    EXPECT_FALSE(parse_network(text)) << text;
  EXPECT_NE(parse_network("10.1.2.3/8").error().message.find("10.0.0.0/8"), std::string::npos);
}

TEST(Network, ContainsItsAddressesInEitherFormOfIPv4) {
  const auto network = parse_network("10.0.0.0/8").value();
  EXPECT_TRUE(network.contains(ip::make_address("10.255.0.1")));
  EXPECT_TRUE(network.contains(ip::make_address("::ffff:10.1.2.3")));
  EXPECT_FALSE(network.contains(ip::make_address("11.0.0.0")));
  EXPECT_FALSE(network.contains(ip::make_address("a00::1")));
}

TEST(Network, WithoutHolesKeepsEverythingElse) {
  const auto network = parse_network("10.0.0.0/30").value();
  const std::vector holes{parse_network("10.0.0.2").value()};
  const auto left = without(network, holes);
  ASSERT_EQ(left.size(), 2U);
  EXPECT_EQ(text_of(left[0]), "10.0.0.0/31");
  EXPECT_EQ(text_of(left[1]), "10.0.0.3");
  EXPECT_TRUE(without(parse_network("10.0.0.2").value(), holes).empty());
}

TEST(Network, ThePublicNetworksAreThePublicAddresses) {
  const auto networks = public_networks();
  EXPECT_LT(networks.size(), 200U);
  for (const char* text :
       {"0.0.0.0",      "1.1.1.1",        "8.8.8.8",       "10.0.0.1",      "100.64.0.1",      "100.128.0.0",
        "127.0.0.1",    "168.63.129.15",  "168.63.129.16", "168.63.129.17", "169.254.169.254", "172.15.255.255",
        "172.32.0.0",   "198.17.255.255", "198.18.0.0",    "198.20.0.0",    "223.255.255.255", "224.0.0.1",
        "::1",          "2000::",         "2001:1ff::1",   "2001:200::",    "2001:db8::1",     "2002::1",
        "2606:4700::1", "3ffe::1",        "3fff::1",       "4000::",        "fd00::1",         "fe80::1"}) {
    const auto address = ip::make_address(text);
    const bool found =
        std::ranges::any_of(networks, [&address](const Network& network) { return network.contains(address); });
    EXPECT_EQ(found, is_public(address)) << text;
  }
}

}  // namespace
}  // namespace cove::outbound
