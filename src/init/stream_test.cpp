#include "init/stream.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>

namespace cove::init {
namespace {

struct Pipe {
  Pipe() { EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK), 0); }
  ~Pipe() { ::close(ends[1]); }
  void write(const std::string& text) {
    EXPECT_EQ(::write(ends[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  std::array<int, 2> ends{};
};

TEST(Stream, KeepsUpToItsLimitAndCountsTheRest) {
  Pipe pipe;
  Stream stream(5);
  stream.open(pipe.ends[0]);
  pipe.write("hello world");
  std::array<char, 64> scratch{};
  EXPECT_EQ(stream.read_some(scratch.data(), scratch.size()), Stream::Read::some);
  EXPECT_EQ(stream.unsent(100), "hello");
  EXPECT_EQ(stream.total(), 11U);
  EXPECT_EQ(stream.thrown_away(), 6U);
  stream.close();
}

TEST(Stream, StopsReadingWhileTheWindowIsFullAndGoesOnAfterTheAcknowledgement) {
  Pipe pipe;
  Stream stream(1 << 30);
  stream.open(pipe.ends[0]);
  std::array<char, 32768> scratch{};
  const std::string block(32768, 'x');
  for (std::size_t kept = 0; kept < Stream::kWindow; kept += block.size()) {
    EXPECT_TRUE(stream.wants_input());
    pipe.write(block);
    EXPECT_EQ(stream.read_some(scratch.data(), scratch.size()), Stream::Read::some);
  }
  EXPECT_FALSE(stream.wants_input());
  stream.mark_sent(1000);
  stream.acknowledge(500);
  EXPECT_TRUE(stream.wants_input());
  EXPECT_EQ(stream.sent_offset(), 1000U);
  stream.close();
}

TEST(Stream, AnAcknowledgementOfWhatWasNeverSentTakesNothingAway) {
  Pipe pipe;
  Stream stream(100);
  stream.open(pipe.ends[0]);
  pipe.write("abc");
  std::array<char, 64> scratch{};
  EXPECT_EQ(stream.read_some(scratch.data(), scratch.size()), Stream::Read::some);
  stream.acknowledge(1 << 20);
  EXPECT_EQ(stream.unsent(100), "abc");
  stream.close();
}

TEST(Stream, SaysWhenTheWriterIsGone) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK), 0);
  Stream stream(100);
  stream.open(ends[0]);
  std::array<char, 64> scratch{};
  EXPECT_EQ(stream.read_some(scratch.data(), scratch.size()), Stream::Read::nothing_now);
  ::close(ends[1]);
  EXPECT_EQ(stream.read_some(scratch.data(), scratch.size()), Stream::Read::end);
  stream.close();
}

}  // namespace
}  // namespace cove::init
