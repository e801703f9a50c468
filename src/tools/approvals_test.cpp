#include "tools/approvals.hpp"

#include <gmock/gmock.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>

namespace cove::tools {
namespace {

using namespace std::chrono_literals;
using Kind = ApprovalAnswer::Kind;

struct Desk : testing::Test {
  boost::asio::io_context loop{1};
  Approvals approvals{loop.get_executor()};
  std::vector<ApprovalAnswer> answers;
  std::vector<ApprovalRequest> sent;
  std::uint64_t approver = 0;

  async::Task<> ask_one(std::string tool, std::chrono::milliseconds patience, Approvals::Unattended unattended) {
    ApprovalRequest request{.server = "s", .tool = std::move(tool)};
    auto answer = co_await approvals.ask("box", std::move(request), patience, unattended, {});
    if (answer) answers.push_back(*answer);
  }
  void ask(std::string tool, std::chrono::milliseconds patience = 5s,
           Approvals::Unattended unattended = Approvals::Unattended::wait) {
    boost::asio::co_spawn(loop, ask_one(std::move(tool), patience, unattended), boost::asio::detached);
  }
  async::Task<> attach_one(std::chrono::milliseconds patience) {
    auto got =
        co_await approvals.attach("box", [this](const ApprovalRequest& request) { sent.push_back(request); }, patience);
    approver = got ? *got : 0;
  }
  void attach(std::chrono::milliseconds patience = 0ms) {
    boost::asio::co_spawn(loop, attach_one(patience), boost::asio::detached);
  }
  void settle() {
    loop.restart();
    loop.run_for(5ms);
  }
};

TEST_F(Desk, ListsWhatWaitsAndTakesAnAnswer) {
  ask("t");
  settle();
  const auto pending = approvals.pending("box");
  ASSERT_EQ(pending.size(), 1U);
  EXPECT_EQ(pending[0].tool, "t");
  EXPECT_FALSE(approvals.answer("other", pending[0].id, true, ""));
  ASSERT_TRUE(approvals.answer("box", pending[0].id, false, "no thanks"));
  EXPECT_FALSE(approvals.answer("box", pending[0].id, true, ""));
  settle();
  ASSERT_EQ(answers.size(), 1U);
  EXPECT_EQ(refusal_of(answers[0], "s", "t"), "Approval request for s.t rejected: no thanks");
  EXPECT_EQ(approvals.count(), 0U);
}

TEST_F(Desk, FailsAtOnceWithoutAnApproverWhenNobodyIsToList) {
  ask("t", 5s, Approvals::Unattended::fail);
  settle();
  ASSERT_EQ(answers.size(), 1U);
  EXPECT_EQ(refusal_of(answers[0], "s", "t"), "Approval request for s.t failed: Approval channel not connected");
}

TEST_F(Desk, SendsToTheApproverAndFailsWhenItLeaves) {
  attach();
  settle();
  ask("t", 5s, Approvals::Unattended::fail);
  ask("u", 5s, Approvals::Unattended::fail);
  settle();
  ASSERT_EQ(sent.size(), 2U);
  ASSERT_TRUE(approvals.answer("box", sent[1].id, true, ""));
  approvals.detach("box", approver);
  settle();
  ASSERT_EQ(answers.size(), 2U);
  EXPECT_THAT((std::vector{answers[0].kind, answers[1].kind}),
              testing::UnorderedElementsAre(Kind::approved, Kind::disconnected));
  EXPECT_TRUE(approvals.supervised("box"));
}

TEST_F(Desk, HasOneApproverAtATime) {
  attach();
  settle();
  const auto first = approver;
  attach();
  settle();
  EXPECT_EQ(approver, 0U);
  attach(1s);
  settle();
  approvals.detach("box", first);
  settle();
  EXPECT_NE(approver, 0U);
}

TEST_F(Desk, Expires) {
  ask("t", 1ms);
  loop.run_for(50ms);
  ASSERT_EQ(answers.size(), 1U);
  EXPECT_EQ(refusal_of(answers[0], "s", "t"), "Approval request for s.t expired");
}

}  // namespace
}  // namespace cove::tools
