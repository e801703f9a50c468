#include "files/watch.hpp"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/stat.h>

#include <array>
#include <cstdio>
#include <thread>

#include "files/scratch.hpp"

namespace cove::files {
namespace {

// A watch in a thread of its own, and its lines.
class Watched {
 public:
  Watched(const std::string& path, Recursive recursive) {
    std::array<int, 2> in{};
    std::array<int, 2> out{};
    if (::pipe2(in.data(), O_CLOEXEC) != 0 || ::pipe2(out.data(), O_CLOEXEC) != 0) std::abort();
    hold_ = UniqueFd(in[1]);
    lines_ = UniqueFd(out[0]);
    thread_ = std::jthread([path, recursive, input = in[0], output = out[1]] {
      const UniqueFd in_fd(input);
      const UniqueFd out_fd(output);
      EXPECT_TRUE(watch(path, recursive, in_fd.get(), out_fd.get()));
    });
  }

  std::string next() {
    std::string line;
    char c = 0;
    pollfd ready{.fd = lines_.get(), .events = POLLIN, .revents = 0};
    while (::poll(&ready, 1, 5000) == 1 && ::read(lines_.get(), &c, 1) == 1 && c != '\n') line += c;
    return line;
  }
  void end() { hold_.reset(); }

 private:
  UniqueFd hold_;
  UniqueFd lines_;
  std::jthread thread_;
};

std::string event(std::string_view type, const std::string& path) {
  return fmt::format(R"({{"type":"{}","path":"{}"}})", type, path);
}

TEST(Watch, TellsOfChangesAndEndsWithItsInput) {
  const Scratch scratch;
  Watched watched(scratch.path(), Recursive::no);
  ASSERT_EQ(watched.next(), R"({"type":"ready"})");
  scratch.file("a", "");
  EXPECT_EQ(watched.next(), event("created", scratch.at("a")));
  const UniqueFd a(::open(scratch.at("a").c_str(), O_WRONLY | O_CLOEXEC));  // truncating would be a change of its own
  ASSERT_TRUE(write_all(a.get(), "text"));
  EXPECT_EQ(watched.next(), event("modified", scratch.at("a")));
  ASSERT_EQ(::rename(scratch.at("a").c_str(), scratch.at("b").c_str()), 0);
  EXPECT_EQ(watched.next(),
            fmt::format(R"({{"type":"moved","path":"{}","to":"{}"}})", scratch.at("a"), scratch.at("b")));
  ASSERT_EQ(::unlink(scratch.at("b").c_str()), 0);
  EXPECT_EQ(watched.next(), event("deleted", scratch.at("b")));
  watched.end();
  EXPECT_EQ(watched.next(), "");
}

TEST(Watch, FollowsDirectoriesThatComeLaterAndTellsWhatWasInThemFirst) {
  const Scratch scratch;
  for (const auto* name : {"root", "aside", "aside/in"}) scratch.directory(name);
  scratch.file("aside/in/file", "");
  Watched watched(scratch.at("root"), Recursive::yes);
  ASSERT_EQ(watched.next(), R"({"type":"ready"})");
  ASSERT_EQ(::rename(scratch.at("aside").c_str(), scratch.at("root/d").c_str()), 0);
  EXPECT_EQ(watched.next(), event("created", scratch.at("root/d")));
  EXPECT_EQ(watched.next(), event("created", scratch.at("root/d/in")));
  EXPECT_EQ(watched.next(), event("created", scratch.at("root/d/in/file")));
  ASSERT_EQ(::rename(scratch.at("root/d").c_str(), scratch.at("root/e").c_str()), 0);
  EXPECT_EQ(watched.next(),
            fmt::format(R"({{"type":"moved","path":"{}","to":"{}"}})", scratch.at("root/d"), scratch.at("root/e")));
  ASSERT_EQ(::unlink(scratch.at("root/e/in/file").c_str()), 0);
  EXPECT_EQ(watched.next(), event("deleted", scratch.at("root/e/in/file")));
  watched.end();
}

TEST(Watch, EndsWhenItsDirectoryIsGone) {
  const Scratch scratch;
  scratch.directory("d");
  Watched watched(scratch.at("d"), Recursive::yes);
  ASSERT_EQ(watched.next(), R"({"type":"ready"})");
  ASSERT_EQ(::rmdir(scratch.at("d").c_str()), 0);
  EXPECT_EQ(watched.next(), event("deleted", scratch.at("d")));
  EXPECT_EQ(watched.next(), "");
}

TEST(Watch, OfNothingIsNotFound) {
  const Scratch scratch;
  EXPECT_EQ(watch(scratch.at("missing"), Recursive::no, 0, 1).error().code, Errc::not_found);
}

}  // namespace
}  // namespace cove::files
