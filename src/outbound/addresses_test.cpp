#include "outbound/addresses.hpp"

#include <gtest/gtest.h>

namespace cove::outbound {
namespace {

namespace ip = boost::asio::ip;

TEST(Addresses, WhatIsNotThePublicsIsNotPublic) {
  for (const char* text :
       {"0.0.0.0",          "10.1.2.3",        "100.64.0.1",  "100.100.100.200", "127.0.0.1",    "127.255.255.1",
        "168.63.129.16",    "169.254.169.254", "172.16.0.1",  "172.31.255.255",  "192.0.0.192",  "192.0.2.1",
        "192.88.99.1",      "192.168.1.1",     "198.18.0.1",  "198.19.255.255",  "198.51.100.7", "203.0.113.9",
        "224.0.0.1",        "239.1.1.1",       "240.0.0.1",   "255.255.255.255", "::",           "::1",
        "::ffff:127.0.0.1", "::ffff:8.8.8.8",  "::127.0.0.1", "64:ff9b::7f00:1", "64:ff9b:1::1", "100::1",
        "fe80::1",          "fec0::1",         "fc00::1",     "fd00:ec2::254",   "ff02::1",      "2001::1",
        "2001:db8::1",      "2002:7f00:1::1",  "3fff::1",     "4000::1"}) {
    EXPECT_FALSE(is_public(ip::make_address(text))) << text;
  }
}

TEST(Addresses, WhatIsThePublicsIs) {
  for (const char* text :
       {"1.1.1.1", "8.8.8.8", "100.63.255.255", "100.128.0.1", "172.15.0.1", "172.32.0.1", "192.0.1.1", "198.17.0.1",
        "223.255.255.255", "2606:4700::1111", "2a00:1450::1", "2001:4860:4860::8888"}) {
    EXPECT_TRUE(is_public(ip::make_address(text))) << text;
  }
}

TEST(Addresses, ANetworkHasThisMachineInIt) {
  EXPECT_TRUE(has_own(*parse_network("127.0.0.0/30")));
  EXPECT_TRUE(has_own(*parse_network("127.0.0.1")));
  EXPECT_FALSE(has_own(*parse_network("127.0.0.2/31")));
  EXPECT_FALSE(has_own(*parse_network("8.8.8.0/24")));
}

TEST(Addresses, APlaceIsAHostAndAPort) {
  EXPECT_EQ(parse_host_port("Index.Internal:8080").value(), (HostPort{.host = "index.internal", .port = 8080}));
  EXPECT_EQ(parse_host_port("[fd00::5]:443").value(), (HostPort{.host = "fd00::5", .port = 443}));
  EXPECT_EQ(parse_host_port("example.org:80").value(), (HostPort{.host = "example.org", .port = 80}));
  for (const char* text : {"", "example.org", "example.org:", "example.org:0", "example.org:80/x", "u@h:80",
                           "[fd00::5]", "http://h:80", "*:80"})
    EXPECT_FALSE(parse_host_port(text)) << text;
}

TEST(Addresses, OnlyThePublicOnesOfAMixedAnswerAreDialled) {
  const auto url = parse_url("http://mixed.test/").value();
  const std::vector<ip::address> found{ip::make_address("10.0.0.1"), ip::make_address("93.184.216.34"),
                                       ip::make_address("169.254.169.254")};
  EXPECT_EQ(dialable(url, {}, found), std::vector{found[1]});
  EXPECT_EQ(dialable(url, {.allowed = {{"mixed.test", 80}}}, found), found);
  EXPECT_EQ(dialable(url, {.allowed = {{"mixed.test", 81}}}, found), std::vector{found[1]});
}

}  // namespace
}  // namespace cove::outbound
