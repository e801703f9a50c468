#include "keeper/keeper.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <map>

#include "base/io.hpp"
#include "cli/run/one_shot.hpp"
#include "guest/init_link.hpp"
#include "kernel/requirement.hpp"
#include "sys/record.hpp"

namespace cove::keeper {
namespace {

namespace fs = std::filesystem;

class KeeperTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    // Only root may enter it, as mktemp makes it: the keeper must cope.
    std::string pattern = fs::temp_directory_path() / "cove-keeper-test-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    state_ = pattern;
  }
  static void TearDownTestSuite() {
    std::error_code ec;
    fs::remove_all(state_, ec);
  }
  void SetUp() override {
    COVE_REQUIRE(::geteuid() == 0, "limits need root here");
    auto keeper = Keeper::start({.state_dir = state_});
    ASSERT_TRUE(keeper) << keeper.error().message;
    keeper_.emplace(std::move(*keeper));
  }

  static wire::KeeperRequest create_request(const SandboxId& id) {
    const jail::Limits limits;
    return {.verb = wire::KeeperVerb::create,
            .serial = 7,
            .id = id,
            .memory_bytes = limits.memory_bytes,
            .disk_bytes = limits.disk_bytes,
            .inodes = limits.inodes,
            .pids = limits.pids,
            .cpu_millis = limits.cpu_millis};
  }

  wire::KeeperReply reply() {
    while (true) {
      pollfd ready{.fd = keeper_->link().fd(), .events = POLLIN, .revents = 0};
      EXPECT_EQ(::poll(&ready, 1, 10'000), 1) << "the keeper does not answer";
      auto got = keeper_->link().receive();
      EXPECT_TRUE(got) << got.error().message;
      if (got && *got) return **got;
      if (!got) return {};
    }
  }
  wire::KeeperReply ask(const wire::KeeperRequest& request, UniqueFd control = {}) {
    EXPECT_TRUE(
        keeper_->link().send(request, control ? sys::descriptors(std::move(control)) : std::vector<UniqueFd>()));
    return reply();
  }

  // A sandbox with its link, once every lock is on.
  guest::InitLink make(const SandboxId& id) {
    auto ends = guest::InitLink::create();
    EXPECT_TRUE(ends);
    EXPECT_EQ(ask(create_request(id), std::move(ends->second)).word, wire::KeeperWord::created);
    return std::move(ends->first);
  }

  static inline std::string state_;
  std::optional<Keeper> keeper_;
};

// Runs until a frame of this type comes; its payload.
std::string wait_for(guest::InitLink& link, wire::FrameType type) {
  std::optional<std::string> found;
  for (int i = 0; i < 200 && !found; ++i) {
    link.flush();
    pollfd ready{.fd = link.fd(), .events = POLLIN, .revents = 0};
    if (::poll(&ready, 1, 5000) != 1) break;
    const auto state = link.receive([&](const wire::Frame& frame) {
      if (frame.type == type) found = std::string(frame.payload);
    });
    if (state == guest::InitLink::State::closed) break;
  }
  EXPECT_TRUE(found) << "frame " << static_cast<int>(type) << " never came";
  return found.value_or("");
}

wire::Spawn shell(const std::string& script) {
  return {.output_limit = {.bytes = 1 << 20},
          .directory = "/workspace",
          .argv = {"/bin/sh", "-c", script},
          .environment = {"PATH=/usr/bin:/bin"}};
}

TEST_F(KeeperTest, MakesAndEndsASandboxAndTellsWhatItUsed) {
  const auto id = SandboxId::random();
  auto link = make(id);
  link.spawn(1, shell("exit 3"));
  EXPECT_EQ(wire::decode_exited(wait_for(link, wire::FrameType::exited))->exit_code, 3);
  const auto gone = ask({.verb = wire::KeeperVerb::destroy, .serial = 9, .id = id});
  EXPECT_EQ(gone.word, wire::KeeperWord::gone);
  EXPECT_EQ(gone.serial, 9U);
  EXPECT_GT(gone.cpu_usec, 0U);
  EXPECT_GT(gone.memory_peak_bytes, 0U);
}

TEST_F(KeeperTest, AnswersBothWhoDestroysASandboxAndWhoIsStillCreatingIt) {
  const auto id = SandboxId::random();
  auto ends = guest::InitLink::create();
  ASSERT_TRUE(ends);
  // Stopped, so that it finds both requests at once.
  ASSERT_EQ(::kill(keeper_->pid(), SIGSTOP), 0);
  ASSERT_TRUE(keeper_->link().send(create_request(id), sys::descriptors(std::move(ends->second))));
  ASSERT_TRUE(keeper_->link().send({.verb = wire::KeeperVerb::destroy, .serial = 9, .id = id}));
  ASSERT_EQ(::kill(keeper_->pid(), SIGCONT), 0);
  std::map<std::uint32_t, wire::KeeperWord> words;
  for (int i = 0; i < 2; ++i) {
    const auto said = reply();
    words.emplace(said.serial, said.word);
  }
  EXPECT_EQ(words[9], wire::KeeperWord::gone);
  EXPECT_EQ(words[7], wire::KeeperWord::failed);
}

TEST_F(KeeperTest, GivesEverySandboxAUidOfItsOwn) {
  const auto a = SandboxId::random();
  const auto b = SandboxId::random();
  const auto link_a = make(a);
  const auto link_b = make(b);
  EXPECT_NE(ask({.verb = wire::KeeperVerb::inspect, .serial = 1, .id = a}).host_uid,
            ask({.verb = wire::KeeperVerb::inspect, .serial = 2, .id = b}).host_uid);
}

TEST_F(KeeperTest, RefusesWhatIsWrongSaysWhyAndGoesOn) {
  const auto id = SandboxId::random();
  const auto link = make(id);
  const auto refused = [&](const wire::KeeperRequest& request, UniqueFd control = {}) {
    const auto answer = ask(request, std::move(control));
    EXPECT_EQ(answer.word, wire::KeeperWord::failed);
    return wire::error_of(answer).code;
  };
  const auto control = [] { return std::move(guest::InitLink::create()->second); };
  EXPECT_EQ(refused(create_request(id), control()), Errc::exists) << "the same id twice";
  EXPECT_EQ(refused(create_request(SandboxId::random())), Errc::invalid) << "no control socket";
  EXPECT_EQ(refused({.verb = wire::KeeperVerb::destroy, .serial = 1, .id = SandboxId::random()}), Errc::not_found);
  EXPECT_EQ(refused({.verb = static_cast<wire::KeeperVerb>(99), .serial = 1, .id = id}), Errc::invalid)
      << "an unknown verb";
  SandboxId path;
  std::ranges::fill(path.text, '/');
  EXPECT_EQ(refused(create_request(path), control()), Errc::invalid) << "an id that is a path";
  auto no_memory = create_request(SandboxId::random());
  no_memory.memory_bytes = 0;
  EXPECT_EQ(refused(no_memory, control()), Errc::invalid) << "a limit of zero";
  auto no_root = create_request(SandboxId::random());
  no_root.root = 5;
  EXPECT_EQ(refused(no_root, control()), Errc::not_found) << "an unknown root";
  EXPECT_GT(::send(keeper_->link().fd(), "short", 5, 0), 0);  // not a request: dropped
  EXPECT_EQ(ask({.verb = wire::KeeperVerb::inspect, .serial = 3, .id = id}).word, wire::KeeperWord::done);
}

TEST_F(KeeperTest, PausesResumesAndDestroysWhatIsPaused) {
  const auto id = SandboxId::random();
  auto link = make(id);
  link.spawn(1, shell("while :; do :; done"));
  wait_for(link, wire::FrameType::started);
  ASSERT_EQ(ask({.verb = wire::KeeperVerb::pause, .serial = 1, .id = id}).word, wire::KeeperWord::done);
  const auto before = ask({.verb = wire::KeeperVerb::inspect, .serial = 2, .id = id}).cpu_usec;
  ::usleep(50'000);
  EXPECT_EQ(ask({.verb = wire::KeeperVerb::inspect, .serial = 3, .id = id}).cpu_usec, before);
  ASSERT_EQ(ask({.verb = wire::KeeperVerb::resume, .serial = 4, .id = id}).word, wire::KeeperWord::done);
  auto after = before;
  for (int i = 0; i < 2000 && after == before; ++i) {
    ::usleep(1000);
    after = ask({.verb = wire::KeeperVerb::inspect, .serial = 5, .id = id}).cpu_usec;
  }
  EXPECT_GT(after, before);
  ASSERT_EQ(ask({.verb = wire::KeeperVerb::pause, .serial = 6, .id = id}).word, wire::KeeperWord::done);
  EXPECT_EQ(ask({.verb = wire::KeeperVerb::destroy, .serial = 7, .id = id}).word, wire::KeeperWord::gone);
}

TEST_F(KeeperTest, SaysWhenInitDiesByItself) {
  const auto id = SandboxId::random();
  {
    const auto link = make(id);
  }  // init ends with its control socket
  EXPECT_EQ(reply().word, wire::KeeperWord::died);
  EXPECT_EQ(ask({.verb = wire::KeeperVerb::destroy, .serial = 1, .id = id}).word, wire::KeeperWord::gone);
}

TEST_F(KeeperTest, InitEndsTheSandboxWhenTheFrontBreaksTheProtocol) {
  const auto id = SandboxId::random();
  const auto link = make(id);
  const std::string garbage(64, '\xff');
  EXPECT_GT(::send(link.fd(), garbage.data(), garbage.size(), 0), 0);
  EXPECT_EQ(reply().word, wire::KeeperWord::died);
}

TEST_F(KeeperTest, InitRefusesASpawnItCannotReadAndServesTheNext) {
  const auto id = SandboxId::random();
  auto link = make(id);
  std::string frame;
  wire::append_frame(frame, wire::FrameType::spawn, 1, "not a spawn");
  EXPECT_GT(::send(link.fd(), frame.data(), frame.size(), 0), 0);
  EXPECT_EQ(wire::decode_spawn_failed(wait_for(link, wire::FrameType::spawn_failed))->sys_errno, EINVAL);
  link.spawn(2, shell("exit 0"));
  EXPECT_EQ(wire::decode_exited(wait_for(link, wire::FrameType::exited))->exit_code, 0);
}

TEST_F(KeeperTest, SignalsTheWholeGroupOfAProcess) {
  const auto id = SandboxId::random();
  auto link = make(id);
  link.spawn(1, shell("sleep 1000"));
  wait_for(link, wire::FrameType::started);
  link.signal(1, SIGTERM);
  EXPECT_EQ(wire::decode_exited(wait_for(link, wire::FrameType::exited))->signal, SIGTERM);
}

TEST_F(KeeperTest, ManyProcessesShareASandboxAndItsFiles) {
  const auto id = SandboxId::random();
  auto link = make(id);
  link.spawn(1, shell("echo hello > note"));
  wait_for(link, wire::FrameType::exited);
  link.spawn(2, shell("cat note"));
  const auto output = wait_for(link, wire::FrameType::output);
  EXPECT_EQ(wire::decode_output(output)->bytes, "hello\n");
}

TEST_F(KeeperTest, WhatAnExecLeftBehindLivesOnAndCanStillWrite) {
  const auto id = SandboxId::random();
  auto link = make(id);
  link.spawn(1, shell("(sleep 0.3; echo late; echo alive > /workspace/proof) & exit 0"));
  EXPECT_EQ(wire::decode_exited(wait_for(link, wire::FrameType::exited))->exit_code, 0);
  link.spawn(2, shell("while [ ! -e proof ]; do sleep 0.01; done; cat proof"));
  const auto output = wait_for(link, wire::FrameType::output);
  EXPECT_EQ(wire::decode_output(output)->bytes, "alive\n");
}

// The front is killed with -9: its keeper ends every sandbox, and then itself.
TEST(KeeperDeath, NothingOutlivesAKilledFront) {
  COVE_REQUIRE(::geteuid() == 0, "limits need root here");
  std::string pattern = fs::temp_directory_path() / "cove-keeper-test-XXXXXX";
  ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe2(ends.data(), 0), 0);
  const pid_t front = ::fork();
  if (front == 0) {
    auto keeper = Keeper::start({.state_dir = pattern});
    if (!keeper) ::_exit(1);
    auto link = guest::InitLink::create();
    const jail::Limits limits;
    const wire::KeeperRequest request{.verb = wire::KeeperVerb::create,
                                      .serial = 1,
                                      .id = SandboxId::random(),
                                      .memory_bytes = limits.memory_bytes,
                                      .disk_bytes = limits.disk_bytes,
                                      .inodes = limits.inodes,
                                      .pids = limits.pids,
                                      .cpu_millis = limits.cpu_millis};
    if (!keeper->link().send(request, sys::descriptors(std::move(link->second)))) ::_exit(2);
    link->first.spawn(1, shell("setsid sleep 1000 & sleep 1000"));
    wait_for(link->first, wire::FrameType::started);
    const pid_t pid = keeper->pid();
    if (::write(ends[1], &pid, sizeof pid) != sizeof pid) ::_exit(3);
    ::kill(::getpid(), SIGKILL);
  }
  pid_t keeper_pid = 0;
  ASSERT_EQ(::read(ends[0], &keeper_pid, sizeof keeper_pid), static_cast<ssize_t>(sizeof keeper_pid));
  ::waitpid(front, nullptr, 0);
  // The keeper still holds our pipe's write end only until it let go of the front's descriptors; its death is what we
  // wait for.
  bool gone = false;
  for (int i = 0; i < 5000 && !gone; ++i) {
    const auto stat = read_file_at(AT_FDCWD, fmt::format("/proc/{}/stat", keeper_pid));
    gone = !stat || stat->find(") Z ") != std::string::npos;
    ::usleep(1000);
  }
  EXPECT_TRUE(gone);
  const auto left =
      ::system(fmt::format("find /sys/fs/cgroup -maxdepth 6 -path '*/cove-{}/s-*' | grep -q .", front).c_str());
  EXPECT_NE(left, 0) << "a sandbox's control group is left";
  std::error_code ec;
  fs::remove_all(pattern, ec);
  ::close(ends[0]);
  ::close(ends[1]);
}

}  // namespace
}  // namespace cove::keeper
