#include "sandbox/execution.hpp"

#include <gmock/gmock.h>

#include <boost/asio/io_context.hpp>

#include "base/text.hpp"

namespace cove::sandbox {
namespace {

namespace json = boost::json;
using testing::ElementsAre;

class ExecutionTest : public testing::Test {
 protected:
  Execution make(ExecutionLimits limits = {}) { return {loop_.get_executor(), 7, limits}; }

  static std::vector<std::string> types(const Execution& execution) {
    std::vector<std::string> out;
    for (const auto& event : execution.events()) out.push_back(event.type);
    return out;
  }
  static std::string text(const Execution& execution, std::string_view stream = "stdout") {
    std::string out;
    for (const auto& event : execution.events()) {
      if (event.type == stream) out += event.content.at("text").as_string();
    }
    return out;
  }

 private:
  boost::asio::io_context loop_;
};

TEST_F(ExecutionTest, EventsAreNumberedFromOneWithoutHolesAndEndOnce) {
  auto execution = make();
  EXPECT_EQ(execution.state(), Execution::State::queued);
  execution.begin();
  EXPECT_EQ(execution.state(), Execution::State::running);
  execution.add_text("stdout", "a");
  execution.add("display", {}, 10);
  execution.finish({.status = ExecutionEnd::Status::ok});
  execution.finish({.status = ExecutionEnd::Status::error});
  EXPECT_THAT(types(execution), ElementsAre("queued", "started", "stdout", "display", "end"));
  std::uint64_t next = 1;
  for (const auto& event : execution.events()) EXPECT_EQ(event.sequence, next++);
  EXPECT_EQ(execution.end()->status, ExecutionEnd::Status::ok);
}

TEST_F(ExecutionTest, TextThatNobodyHasSeenGrowsTogetherAndWhatWasSeenStays) {
  auto execution = make();
  execution.begin();
  execution.add_text("stdout", "a");
  execution.add_text("stdout", "b");
  execution.add_text("stderr", "c");
  execution.add_text("stdout", "d");
  EXPECT_THAT(types(execution), ElementsAre("queued", "started", "stdout", "stderr", "stdout"));
  execution.mark_read(5);
  execution.add_text("stdout", "e");
  execution.add_text("stdout", "f");
  EXPECT_THAT(types(execution), ElementsAre("queued", "started", "stdout", "stderr", "stdout", "stdout"));
  EXPECT_EQ(execution.events()[4].content.at("text"), "d");
  EXPECT_EQ(text(execution), "abdef");
}

TEST_F(ExecutionTest, AWatcherSeesEverythingInOrderAlsoWhatIsOverTheLimits) {
  struct Watcher : ExecutionWatcher {
    void on_text(std::string_view stream, std::string_view text) override {
      seen.push_back(fmt::format("{} {}", stream, text.size()));
    }
    void on_event(const ExecutionEvent& event) override { seen.push_back(event.type); }
    std::vector<std::string> seen;
  } watcher;
  auto execution = make({.output_bytes = 2048});
  execution.watch(&watcher);
  execution.begin();
  for (int i = 0; i < 3; ++i) execution.add_text("stdout", std::string(5000, 'x'));
  execution.add("display", {}, 10);
  execution.add_bytes("stderr", "e\xc3");
  execution.finish({.status = ExecutionEnd::Status::ok});
  EXPECT_THAT(watcher.seen, ElementsAre("started", "stdout 5000", "stdout 5000", "stdout 5000", "display", "stderr 1",
                                        "stderr 3", "end"));
  execution.watch(nullptr);
}

TEST_F(ExecutionTest, OneEventOfTextDoesNotGrowForEver) {
  auto execution = make();
  execution.begin();
  for (int i = 0; i < 40; ++i) execution.add_text("stdout", std::string(4096, 'x'));
  EXPECT_EQ(text(execution).size(), 40U * 4096);
  EXPECT_EQ(execution.events().size(), 5U);
  for (const auto& event : execution.events()) {
    if (event.type == "stdout") {
      EXPECT_LE(event.content.at("text").as_string().size(), 64U << 10);
    }
  }
}

TEST_F(ExecutionTest, TextPastItsLimitIsCountedAndStaysCut) {
  auto execution = make({.output_bytes = 10});
  execution.begin();
  execution.add_text("stdout", "12345678");
  execution.add_text("stdout", "9é€");  // é would end at 11
  execution.add_text("stdout", "x");
  execution.add_text("stderr", "apart");
  EXPECT_EQ(text(execution), "123456789");
  EXPECT_EQ(execution.truncated().stdout_bytes, 6U);
  EXPECT_EQ(text(execution, "stderr"), "apart");
  EXPECT_EQ(execution.truncated().stderr_bytes, 0U);
}

TEST_F(ExecutionTest, EventsOfTextAreBoundedHoweverSmallTheyAre) {
  auto execution = make();
  execution.begin();
  for (int i = 0; i < 50'000; ++i) {
    execution.add_text("stdout", "x");
    execution.mark_read(execution.events().size());
  }
  EXPECT_LE(execution.events().size(), 20'000U);
  EXPECT_EQ(text(execution).size() + execution.truncated().stdout_bytes, 50'000U);
  EXPECT_LT(execution.held_bytes(), 10U << 20);
}

TEST_F(ExecutionTest, CharactersThatAPipeCutInTwoComeWholeAndBadOnesReplaced) {
  auto execution = make();
  execution.begin();
  const std::string euro = "€";
  execution.add_bytes("stdout", "a" + euro.substr(0, 1));
  execution.add_bytes("stderr", "e");
  execution.add_bytes("stdout", euro.substr(1, 1));
  execution.add_bytes("stdout", euro.substr(2) + "b\xff" + "c");
  EXPECT_EQ(text(execution),
            "a€b\xef\xbf\xbd"
            "c");
  execution.add_bytes("stdout", "\xf0\x9f");
  execution.finish({});
  EXPECT_EQ(text(execution),
            "a€b\xef\xbf\xbd"
            "c\xef\xbf\xbd");
  EXPECT_TRUE(valid_utf8(text(execution)));
}

TEST_F(ExecutionTest, DisplaysPastTheirLimitAreCountedAndLaterSmallOnesStillCome) {
  auto execution = make({.display_bytes = 2000});
  execution.begin();
  execution.add("display", {}, 1000);
  execution.add("display", {}, 1000);
  execution.add("display", {}, 100);
  EXPECT_EQ(execution.truncated().displays, 1U);
  EXPECT_THAT(types(execution), ElementsAre("queued", "started", "display", "display"));
}

TEST_F(ExecutionTest, APictureThatIsLeftOutIsNamedInItsPlace) {
  auto execution = make({.display_bytes = 2000});
  execution.begin();
  execution.add("display", {{"data", {{"image/png", std::string(40'960, 'A')}, {"text/plain", "<Figure>"}}}}, 41'000);
  execution.add_dropped_display(R"({"type":"display_data","parent":7,"content":{"data":{"image/jpeg":"/9j/4AA)",
                                17U << 20);
  execution.add_dropped_display(R"({"type":"comm_msg","parent":7)", 17U << 20);
  ASSERT_THAT(types(execution), ElementsAre("queued", "started", "display", "display"));
  const auto said = [&](std::size_t at) {
    return std::string(execution.events()[at].content.at("data").at("text/plain").as_string());
  };
  EXPECT_EQ(said(2), "[image/png of 30K left out: an execution shows at most 2.0K; save it to a file instead]");
  EXPECT_THAT(said(3), testing::HasSubstr("image/jpeg of more than 17M left out"));
  EXPECT_EQ(execution.truncated().displays, 3U);
}

TEST_F(ExecutionTest, AQuestionIsToldEvenWhereThereIsNoRoomForItsWords) {
  auto execution = make({.display_bytes = 100});
  execution.begin();
  EXPECT_FALSE(execution.waits_for_input());
  execution.add("input_request", {{"prompt", std::string(1000, 'p')}}, 1000);
  EXPECT_TRUE(execution.waits_for_input());
  ASSERT_EQ(execution.events().back().type, "input_request");
  EXPECT_EQ(execution.events().back().content.at("prompt"), "");
}

TEST_F(ExecutionTest, AnErrorOfMegabytesIsCutInItsEventAndInTheReply) {
  auto execution = make();
  execution.begin();
  const std::string huge(5U << 20, 'v');
  const json::object said{{"ename", "ValueError"}, {"evalue", huge}, {"traceback", {huge, "never reached"}}};
  execution.add("error", said, json::serialize(said).size());
  execution.finish({.status = ExecutionEnd::Status::error, .reply = said}, json::serialize(said).size());
  for (const auto* told : {&execution.events()[2].content, &execution.end()->reply}) {
    EXPECT_EQ(told->at("ename"), "ValueError");
    EXPECT_LT(told->at("evalue").as_string().size(), 70'000U);
    ASSERT_EQ(told->at("traceback").as_array().size(), 1U);
    EXPECT_LT(told->at("traceback").as_array()[0].as_string().size(), 300'000U);
  }
  EXPECT_LT(execution.held_bytes(), 2U << 20);
}

}  // namespace
}  // namespace cove::sandbox
