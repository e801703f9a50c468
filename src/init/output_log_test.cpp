#include "init/output_log.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>

namespace cove::init {
namespace {

using wire::Stream;

struct Fixture {
  explicit Fixture(std::uint64_t limit, std::size_t history = 0, wire::Kept kept = wire::Kept::beginning)
      : log({.bytes = limit, .kept = kept}, history) {
    for (auto& pipe : pipes) EXPECT_EQ(::pipe2(pipe.data(), O_CLOEXEC | O_NONBLOCK), 0);
    log.open(Stream::out, pipes[0][0]);
    log.open(Stream::err, pipes[1][0]);
  }
  ~Fixture() {
    log.close(Stream::out);
    log.close(Stream::err);
    for (auto& pipe : pipes) ::close(pipe[1]);
  }
  OutputLog::Read read(Stream stream) { return log.read_some(stream, scratch.data(), scratch.size()); }
  void wrote(Stream stream, const std::string& text) {
    EXPECT_EQ(::write(pipes[stream == Stream::err ? 1 : 0][1], text.data(), text.size()),
              static_cast<ssize_t>(text.size()));
    EXPECT_EQ(read(stream), OutputLog::Read::some);
  }
  std::string send_all() {
    std::string all;
    for (; const auto piece = log.unsent(); log.mark_sent()) {
      all += fmt(*piece);
    }
    return all;
  }
  static std::string fmt(const wire::Output& piece) {
    return std::to_string(piece.sequence) + (piece.stream == Stream::out ? "o" : "e") + std::string(piece.bytes) + " ";
  }
  std::array<std::array<int, 2>, 2> pipes{};
  std::array<char, 32768> scratch{};
  OutputLog log;
};

TEST(OutputLog, KeepsUpToItsLimitAndCountsTheRest) {
  Fixture f(5);
  f.wrote(Stream::out, "hello world");
  EXPECT_EQ(f.send_all(), "2ohello ");
  EXPECT_EQ(f.log.total(Stream::out), 11U);
  EXPECT_TRUE(f.log.flooded(5));
  EXPECT_FALSE(f.log.flooded(6));
}

TEST(OutputLog, NumbersBothStreamsInTheOrderTheyWereRead) {
  Fixture f(100);
  f.wrote(Stream::out, "a");
  EXPECT_EQ(f.send_all(), "2oa ");
  f.wrote(Stream::err, "b");
  f.wrote(Stream::out, "c");
  f.wrote(Stream::out, "d");  // waits to be sent as c does: one piece
  EXPECT_EQ(f.send_all(), "3eb 4ocd ");
  EXPECT_EQ(f.log.next_sequence(), 5U);
}

TEST(OutputLog, StopsReadingWhileTheWindowIsFullAndGoesOnAfterTheAcknowledgement) {
  Fixture f(1 << 30);
  const std::string block(32768, 'x');
  for (std::size_t kept = 0; kept < OutputLog::kWindow; kept += block.size()) {
    EXPECT_TRUE(f.log.wants_input(Stream::out));
    f.wrote(Stream::out, block);
  }
  EXPECT_FALSE(f.log.wants_input(Stream::out));
  EXPECT_TRUE(f.log.wants_input(Stream::err));
  f.send_all();
  f.log.acknowledge(Stream::out, 500);
  EXPECT_TRUE(f.log.wants_input(Stream::out));
}

TEST(OutputLog, AnAcknowledgementOfWhatWasNeverSentTakesNothingAway) {
  Fixture f(100);
  f.wrote(Stream::out, "abc");
  f.log.acknowledge(Stream::out, 1 << 20);
  EXPECT_EQ(f.send_all(), "2oabc ");
}

TEST(OutputLog, SendsAgainWhatItsHistoryHolds) {
  Fixture f(100, 1 << 20);
  for (const char* text : {"a", "b", "c"}) {
    f.wrote(Stream::out, text);
    f.send_all();
  }
  f.log.acknowledge(Stream::out, 3);
  f.log.rewind(3);
  EXPECT_EQ(f.send_all(), "3ob 4oc ");
  f.log.rewind(0);
  EXPECT_EQ(f.send_all(), "2oa 3ob 4oc ");
  f.log.rewind(99);
  EXPECT_EQ(f.send_all(), "");
}

TEST(OutputLog, APieceThatWasSentOnceNeverGrows) {
  Fixture f(100, 1 << 20);
  f.wrote(Stream::out, "a");
  f.send_all();
  f.log.rewind(0);
  f.wrote(Stream::out, "b");
  EXPECT_EQ(f.send_all(), "2oa 3ob ");
}

TEST(OutputLog, DropsTheOldestOfItsHistoryAndSaysWhereItBegins) {
  Fixture f(1 << 30, 100'000);
  std::uint64_t written = 0;
  for (int i = 0; i < 64; ++i) {
    f.wrote(Stream::out, std::string(10'000, static_cast<char>('a' + i % 26)));
    f.send_all();
    written += 10'000;
    f.log.acknowledge(Stream::out, written);
  }
  EXPECT_GT(f.log.first_sequence(), 50U);
  EXPECT_LE(f.log.first_sequence(), 57U);
  f.log.rewind(0);
  EXPECT_EQ(f.log.unsent()->sequence, f.log.first_sequence());
  EXPECT_EQ(f.log.unsent()->bytes[0], static_cast<char>('a' + (f.log.first_sequence() - 2) % 26));
}

TEST(OutputLog, WithoutHistoryNothingAcknowledgedIsKept) {
  Fixture f(1 << 30);
  f.wrote(Stream::out, "abc");
  f.send_all();
  f.log.acknowledge(Stream::out, 3);
  f.log.rewind(0);
  EXPECT_EQ(f.send_all(), "");
}

TEST(OutputLog, SaysWhenTheWriterIsGone) {
  Fixture f(100);
  EXPECT_EQ(f.read(Stream::out), OutputLog::Read::nothing_now);
  ::close(f.pipes[0][1]);
  EXPECT_EQ(f.read(Stream::out), OutputLog::Read::end);
  f.pipes[0][1] = -1;
}

TEST(OutputLog, OfMoreThanTheLimitBeginningAndEndAreKeptIfThatIsWanted) {
  Fixture fixture(1024, 0, wire::Kept::both_ends);
  const std::string first(1000, 'a');
  fixture.wrote(Stream::out, first);
  EXPECT_LT(fixture.send_all().size(), 800U) << "the rest waits for the end";
  fixture.wrote(Stream::out, std::string(30'000, 'b'));
  fixture.wrote(Stream::out, "the error\n");
  EXPECT_EQ(fixture.send_all(), "");
  fixture.log.finish();
  const auto rest = fixture.send_all();
  EXPECT_NE(rest.find(" bytes left out ...]\n"), std::string::npos);
  EXPECT_TRUE(rest.ends_with("bbbthe error\n "));
  EXPECT_EQ(fixture.log.total(Stream::out), 31'010U);
}

TEST(OutputLog, OutputWithinTheLimitIsWholeAlsoWhenItsEndHadToWait) {
  Fixture fixture(1024, 0, wire::Kept::both_ends);
  fixture.wrote(Stream::err, std::string(1000, 'a') + "end");
  auto all = fixture.send_all();
  fixture.log.finish();
  all += fixture.send_all();
  EXPECT_EQ(std::count(all.begin(), all.end(), 'a'), 1000);
  EXPECT_TRUE(all.ends_with("aend "));
  EXPECT_EQ(all.find("left out"), std::string::npos);
}

}  // namespace
}  // namespace cove::init
