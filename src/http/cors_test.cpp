#include "http/cors.hpp"

#include <gtest/gtest.h>

#include <map>

namespace cove::http {
namespace {

const std::vector<std::string> kListed = {"https://console.example"};

Request of_page(std::string origin, verb method = verb::get) {
  Request request;
  request.method = method;
  request.headers = {{"Origin", std::move(origin)}};
  return request;
}

TEST(Cors, OnlyAListedOriginIsAPage) {
  EXPECT_EQ(page_origin(of_page("https://console.example"), kListed), "https://console.example");
  for (const std::string other : {"https://console.example.evil", "http://console.example", "null", "*", ""})
    EXPECT_EQ(page_origin(of_page(other), kListed), "") << other;
  auto two = of_page("https://console.example");
  two.headers.emplace_back("Origin", "https://console.example");
  EXPECT_EQ(page_origin(two, kListed), "");
  EXPECT_EQ(page_origin(Request{}, kListed), "");
}

TEST(Cors, APreflightIsAnsweredForAPageAndForNobodyElse) {
  auto request = of_page("https://console.example", verb::options);
  EXPECT_FALSE(preflight_answer(request, "https://console.example"));
  request.headers.emplace_back("Access-Control-Request-Method", "PATCH");
  request.headers.emplace_back("Access-Control-Request-Headers", "x-cove-sandbox, b\"d, authorization");
  EXPECT_FALSE(preflight_answer(request, ""));
  const auto answer = preflight_answer(request, "https://console.example");
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 204U);
  const std::map<std::string, std::string> headers(answer->headers.begin(), answer->headers.end());
  EXPECT_EQ(headers.at("Access-Control-Allow-Methods"), "GET, HEAD, POST, PUT, PATCH, DELETE");
  EXPECT_EQ(headers.at("Access-Control-Allow-Headers"), "x-cove-sandbox, authorization");
  EXPECT_FALSE(headers.contains("Access-Control-Allow-Private-Network"));
}

TEST(Cors, APageMayReadEveryHeaderAndIsGrantedNoCredentials) {
  NameValues headers = {{"Location", "/x"}, {"Vary", "Accept"}};
  admit_page("https://console.example", headers);
  const std::multimap<std::string, std::string> all(headers.begin(), headers.end());
  EXPECT_EQ(all.find("Access-Control-Allow-Origin")->second, "https://console.example");
  EXPECT_EQ(all.find("Access-Control-Expose-Headers")->second, "X-Request-Id, Location");
  EXPECT_EQ(all.count("Vary"), 2U);
  EXPECT_FALSE(all.contains("Access-Control-Allow-Credentials"));
}

}  // namespace
}  // namespace cove::http
