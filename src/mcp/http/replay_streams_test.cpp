#include "mcp/http/replay_streams.hpp"

#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>

namespace cove::mcp_http {
namespace {

class Replay : public testing::Test {
 protected:
  std::shared_ptr<Stream> stream(std::size_t bytes) {
    auto made = std::make_shared<Stream>(loop_.get_executor(), "s");
    made->push(boost::json::object{{"result", std::string(bytes, 'x')}});
    made->finish();
    return made;
  }
  void keep(const std::string& tenant, const std::string& name, std::shared_ptr<Stream> one) {
    replay_.keep(tenant,
                 {.stream = std::move(one),
                  .expired = [this, name] { return expired_ == name; },
                  .forget = [this, name] { forgotten_ += name; }},
                 bounds_);
  }

  boost::asio::io_context loop_{1};
  UsageBounds bounds_{.tenant = {.count = 1000, .bytes = 100'000}, .all = {.count = 1000, .bytes = 300'000}};
  ReplayStreams replay_;
  std::string expired_;
  std::string forgotten_;
};

TEST_F(Replay, ATenantsOldestStreamsMakeWayForItsNewest) {
  keep("one", "a", stream(40'000));
  for (const auto* name : {"b", "c", "d"}) keep("two", name, stream(40'000));
  EXPECT_EQ(forgotten_, "b");
  EXPECT_EQ(replay_.held().count, 3U);
  EXPECT_EQ(replay_.evicted(), 1U);
}

TEST_F(Replay, PastTheBoundOfAllTheLargestHolderLosesFirst) {
  bounds_.all.bytes = 150'000;
  keep("small", "s", stream(40'000));
  for (const auto* name : {"a", "b"}) keep("large", name, stream(45'000));
  keep("third", "t", stream(40'000));
  EXPECT_EQ(forgotten_, "a");
}

TEST_F(Replay, ManySmallStreamsAreBoundedAsWell) {
  for (int n = 0; n < 100; ++n) keep("one", ".", stream(1));
  EXPECT_EQ(replay_.held().count, bounds_.tenant.bytes / ReplayStreams::kLeast);
}

TEST_F(Replay, OneThatGoesOnIsKeptAndCountsWhatItHasBecome) {
  const auto open = std::make_shared<Stream>(loop_.get_executor(), "s");
  keep("one", "a", open);
  open->push(boost::json::object{{"method", std::string(200'000, 'x')}});
  keep("one", "b", stream(10));
  EXPECT_EQ(forgotten_, "b") << "what has ended makes way";
  EXPECT_GE(replay_.held().bytes, 200'000U);
  open->finish();
  keep("one", "c", stream(10));
  EXPECT_EQ(forgotten_, "ba");
}

TEST_F(Replay, WhatNobodyCanAskForIsLetGo) {
  keep("one", "a", stream(10));
  keep("two", "b", stream(10));
  expired_ = "a";
  replay_.tidy();
  EXPECT_EQ(forgotten_, "a");
  EXPECT_EQ(replay_.held().count, 1U);
}

}  // namespace
}  // namespace cove::mcp_http
