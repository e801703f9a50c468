#include "doors/mcp/recent_outputs.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <stdlib.h>

#include <filesystem>

#include "base/io.hpp"

namespace cove::doors::mcp {
namespace {

using testing::HasSubstr;

constexpr UsageBounds kWide{.tenant = {.count = 100, .bytes = 10'000'000}, .all = {.count = 100, .bytes = 10'000'000}};

class RecentOutputsTest : public testing::Test {
 protected:
  ~RecentOutputsTest() override { std::filesystem::remove_all(path_); }

  // The id of an output that is kept.
  static std::string keep(RecentOutputs& outputs, std::string tenant, std::size_t bytes,
                          const UsageBounds& bounds = kWide) {
    const auto output = outputs.begin(std::move(tenant), {.bounds = bounds});
    output->out.append(std::string(bytes, 'x'));
    output->finish();
    outputs.keep(output);
    return output->id();
  }
  [[nodiscard]] std::size_t files() const {
    std::size_t count = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(path_)) ++count;
    return count;
  }

  char path_[32] = "/tmp/cove-test-outputs-XXXXXX";
  store::Spool spool_ = store::Spool([this] {
    EXPECT_NE(::mkdtemp(path_), nullptr);
    return open_at(AT_FDCWD, path_, O_RDONLY | O_DIRECTORY).value();
  }());
};

std::string lines(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += fmt::format("line {}\n", i);
  return text;
}

std::string all_of(const RecentOutputs::Stream& stream, std::size_t part) {
  std::string text;
  while (text.size() < stream.size()) text += stream.read(text.size(), part).value();
  return text;
}

TEST_F(RecentOutputsTest, AreTheirTenantsAlone) {
  RecentOutputs outputs(spool_);
  const auto id = keep(outputs, "one", 3);
  ASSERT_NE(outputs.find("one", id), nullptr);
  EXPECT_EQ(outputs.find("one", id)->out.read(0, 10).value(), "xxx");
  EXPECT_EQ(outputs.find("two", id), nullptr);
  EXPECT_EQ(outputs.find("one", "b"), nullptr);
}

TEST_F(RecentOutputsTest, LongOnesAreOnDiskAndWhole) {
  RecentOutputs outputs(spool_);
  const auto text = lines(100'000);
  const auto output = outputs.begin("one", {.bounds = kWide});
  for (std::size_t at = 0; at < text.size(); at += 1000) output->out.append(std::string_view(text).substr(at, 1000));
  output->err.append("short");
  output->finish();
  EXPECT_EQ(files(), 1U);
  EXPECT_EQ(all_of(output->out, 4096), text);
  EXPECT_EQ(all_of(output->err, 4096), "short");
  EXPECT_EQ(output->out.left_out(), 0U);
  EXPECT_EQ(outputs.held().bytes, text.size() + 5);
}

TEST_F(RecentOutputsTest, OfMoreThanTheLimitOfAStreamBothEndsAreKeptAndTheRestIsCounted) {
  RecentOutputs outputs(spool_);
  const auto text = lines(100'000);
  const auto output = outputs.begin("one", {.stream_bytes = 500'000, .bounds = kWide});
  for (std::size_t at = 0; at < text.size(); at += 1000) output->out.append(std::string_view(text).substr(at, 1000));
  output->finish();
  const auto kept = all_of(output->out, 100'000);
  EXPECT_EQ(kept.size(), 500'000U);
  EXPECT_TRUE(kept.starts_with("line 0\n"));
  EXPECT_TRUE(kept.ends_with("line 99999\n"));
  const auto line = fmt::format("\n[... {} bytes left out ...]\n", output->out.left_out());
  EXPECT_THAT(kept, HasSubstr(line));
  EXPECT_EQ(kept.size() - line.size() + output->out.left_out(), text.size());
}

TEST_F(RecentOutputsTest, WhatWasLeftOutOnTheWayIsCounted) {
  RecentOutputs outputs(spool_);
  const auto output = outputs.begin("one", {.bounds = kWide});
  output->out.append("begin\n[... 1234 bytes left out ...]\nend");
  output->finish(RecentOutputs::Output::Written{.out = 5 + 1234 + 3, .err = 0});
  EXPECT_EQ(output->out.left_out(), 1234U);
  EXPECT_EQ(output->out.written(), 1242U);
}

TEST_F(RecentOutputsTest, OneThatRunsCountsAndEndsAtTheTenantsBound) {
  auto bounds = kWide;
  bounds.tenant.bytes = 100'000;
  RecentOutputs outputs(spool_);
  const auto old = keep(outputs, "one", 50'000, bounds);
  const auto output = outputs.begin("one", {.bounds = bounds});
  for (int i = 0; i < 20; ++i) output->out.append(std::string(10'000, 'x'));
  EXPECT_EQ(outputs.find("one", old), nullptr) << "the oldest made room";
  output->finish();
  EXPECT_EQ(output->out.size(), 100'000U);
  EXPECT_EQ(output->out.left_out(), 100'000U);
  EXPECT_THAT(output->out.refusal(), HasSubstr("mcp.tenant_outputs_size"));
}

TEST_F(RecentOutputsTest, AFullDiskEndsWhatIsKept) {
  spool_.set_reserve(UINT64_MAX);
  RecentOutputs outputs(spool_);
  const auto output = outputs.begin("one", {.bounds = kWide});
  output->out.append(std::string(100, 'x'));
  output->out.append(std::string(100'000, 'x'));
  output->finish();
  EXPECT_EQ(output->out.left_out(), 100'000U);
  EXPECT_EQ(output->out.read(0, 1000).value().size(), 100U);
  EXPECT_THAT(output->out.refusal(), HasSubstr("disk"));
}

TEST_F(RecentOutputsTest, TheOldestOfATenantGoesFirstAndCostsNobodyElse) {
  auto bounds = kWide;
  bounds.tenant.bytes = 100;
  RecentOutputs outputs(spool_);
  const auto other = keep(outputs, "two", 90, bounds);
  const auto a = keep(outputs, "one", 50, bounds);
  const auto b = keep(outputs, "one", 50, bounds);
  const auto c = keep(outputs, "one", 50, bounds);
  EXPECT_EQ(outputs.find("one", a), nullptr);
  EXPECT_NE(outputs.find("one", b), nullptr);
  EXPECT_NE(outputs.find("one", c), nullptr);
  EXPECT_NE(outputs.find("two", other), nullptr);
}

TEST_F(RecentOutputsTest, ManySmallOnesOfATenantPushOutNobodyElses) {
  auto bounds = kWide;
  bounds.tenant.count = 5;
  RecentOutputs outputs(spool_);
  const auto other = keep(outputs, "two", 1, bounds);
  for (int n = 0; n < 500; ++n) keep(outputs, "one", 1, bounds);
  EXPECT_NE(outputs.find("two", other), nullptr);
  EXPECT_EQ(outputs.held(), (Amount{.count = 6, .bytes = 6}));
  EXPECT_EQ(outputs.evicted(), 495U);
}

TEST_F(RecentOutputsTest, OfAllAreBoundedAndTheLargestHolderLosesFirst) {
  auto bounds = kWide;
  bounds.all = {.count = 3, .bytes = 100};
  RecentOutputs outputs(spool_);
  const auto a = keep(outputs, "one", 20, bounds);
  const auto b = keep(outputs, "two", 60, bounds);
  const auto c = keep(outputs, "three", 30, bounds);
  EXPECT_EQ(outputs.find("two", b), nullptr) << "by bytes";
  EXPECT_NE(outputs.find("one", a), nullptr);
  keep(outputs, "three", 1, bounds);
  keep(outputs, "four", 1, bounds);
  EXPECT_EQ(outputs.find("three", c), nullptr) << "by number";
  EXPECT_NE(outputs.find("one", a), nullptr);
}

TEST_F(RecentOutputsTest, DoNotLastForEver) {
  RecentOutputs outputs(spool_, std::chrono::seconds(-1));
  const auto id = keep(outputs, "one", 100'000);
  EXPECT_EQ(outputs.find("one", id), nullptr);
  EXPECT_EQ(outputs.held(), Amount{});
  EXPECT_EQ(files(), 0U);
}

TEST_F(RecentOutputsTest, MayOutliveTheList) {
  std::shared_ptr<RecentOutputs::Output> output;
  {
    RecentOutputs outputs(spool_);
    output = outputs.begin("one", {.bounds = kWide});
  }
  output->out.append("x");
  output->finish();
  EXPECT_EQ(output->out.left_out(), 1U);
}

TEST(OutputId, CannotBeGuessed) {
  EXPECT_EQ(new_output_id().size(), 32U);
  EXPECT_NE(new_output_id(), new_output_id());
}

}  // namespace
}  // namespace cove::doors::mcp
