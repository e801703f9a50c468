#include "sandbox/keeper_client.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <boost/asio/io_context.hpp>

#include "sys/record.hpp"

namespace cove::sandbox {
namespace {

using std::chrono::milliseconds;
using wire::KeeperVerb;

// A client, and this test in the place of its keeper.
struct Fixture {
  explicit Fixture(KeeperClient::Patience patience)
      : client(loop.get_executor(), tasks, [](const wire::KeeperReply&) {}, [this] { ++hung; }, patience) {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    keeper = UniqueFd(ends[0]);
    client.connect(keeper::KeeperLink(UniqueFd(ends[1])));
    client.open();
  }
  ~Fixture() {
    keeper.reset();
    run(milliseconds(50));
  }
  void ask(KeeperVerb verb) {
    tasks.spawn("ask", [](Fixture& f, KeeperVerb wanted) -> async::Task<> {
      const wire::KeeperRequest request{.verb = wanted};
      f.answers.push_back(co_await f.client.ask(request));
    }(*this, verb));
  }
  void run(milliseconds time) {
    loop.restart();
    loop.run_for(time);
  }
  std::optional<wire::KeeperRequest> request() {
    wire::KeeperRequest got;
    std::vector<UniqueFd> fds;
    const auto size = sys::receive_record(keeper.get(), std::as_writable_bytes(std::span(&got, 1)), fds);
    return size == sizeof got ? std::optional(got) : std::nullopt;
  }
  void reply(const wire::KeeperRequest& to, wire::KeeperWord word) {
    const wire::KeeperReply answer{.word = word, .serial = to.serial};
    EXPECT_GT(sys::send_record(keeper.get(), std::as_bytes(std::span(&answer, 1))), 0);
  }

  boost::asio::io_context loop{1};
  async::TaskGroup tasks{loop.get_executor(), [](std::string_view, std::exception_ptr) { FAIL(); }};
  UniqueFd keeper;
  int hung = 0;
  std::vector<Result<wire::KeeperReply>> answers;
  KeeperClient client;
};

constexpr KeeperClient::Patience kShort{
    .answer = milliseconds(60), .second = milliseconds(200), .most = milliseconds(150)};

TEST(KeeperClient, AsksASlowKeeperASecondTimeAndGoesOnWaiting) {
  Fixture f({.answer = milliseconds(60), .second = milliseconds(2000), .most = milliseconds(60'000)});
  f.ask(KeeperVerb::pause);
  f.run(milliseconds(80));
  const auto first = f.request();
  const auto second = f.request();
  ASSERT_TRUE(first && second) << "there was no second question";
  EXPECT_EQ(second->verb, KeeperVerb::inspect);
  f.reply(*second, wire::KeeperWord::failed);
  f.run(milliseconds(20));
  EXPECT_TRUE(f.answers.empty());
  f.reply(*first, wire::KeeperWord::done);
  f.run(milliseconds(20));
  ASSERT_EQ(f.answers.size(), 1U);
  EXPECT_TRUE(f.answers.front()) << f.answers.front().error().message;
  EXPECT_EQ(f.hung, 0);
}

TEST(KeeperClient, CallsAKeeperHungThatAnswersNeitherQuestion) {
  Fixture f(kShort);
  f.ask(KeeperVerb::pause);
  f.run(milliseconds(150));
  EXPECT_EQ(f.hung, 0) << "it still has time for the second question";
  f.run(milliseconds(200));
  EXPECT_EQ(f.hung, 1);
  ASSERT_EQ(f.answers.size(), 1U);
  EXPECT_EQ(f.answers.front().error().code, Errc::unavailable);
}

TEST(KeeperClient, GivesUpAQuestionThatAKeeperNeverAnswersAndKeepsTheKeeper) {
  Fixture f(kShort);
  f.ask(KeeperVerb::pause);
  for (int i = 0; i < 30 && f.answers.empty(); ++i) {
    f.run(milliseconds(20));
    while (const auto asked = f.request()) {
      if (asked->verb == KeeperVerb::inspect) f.reply(*asked, wire::KeeperWord::failed);
    }
  }
  ASSERT_EQ(f.answers.size(), 1U);
  EXPECT_EQ(f.answers.front().error().code, Errc::unavailable);
  EXPECT_EQ(f.hung, 0);
  EXPECT_FALSE(f.client.lost());
}

}  // namespace
}  // namespace cove::sandbox
