#include "sandbox/process_table.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/socket.h>

#include <boost/asio/io_context.hpp>

#include "sandbox/reader.hpp"
#include "store/test_directory.hpp"

namespace cove::sandbox {
namespace {

using testing::ElementsAre;

// The processes of one sandbox, and this test in the place of its init.
class ProcessTableTest : public testing::Test {
 protected:
  ProcessTableTest() {
    record_.row.id = "s1";
    record_.row.name = "demo";
    record_.state = State::running;
    EXPECT_TRUE(store_->sandboxes().insert(record_.row));
    restart();
  }
  ~ProcessTableTest() override {
    session_->close();
    run();
  }

  // A server after this one has nothing but the store and init's reports.
  void restart() {
    if (table_) session_->close();
    table_.reset();
    session_ = std::make_shared<InitSession>(
        loop_.get_executor(), tasks_, run_dir_.get(), "init",
        InitSession::Handlers{.on_known = [this](auto number, const auto& known) { table_->on_known(number, known); },
                              .on_synced = [this] { table_->on_synced(); },
                              .on_frame =
                                  [this](const wire::Frame& frame) {
                                    if (const auto process = table_->find(frame.process)) process->receive(frame);
                                  },
                              .on_disconnected = [] {}});
    table_ = std::make_unique<ProcessTable>(context_, record_, *session_, counters_);
  }

  void connect() {
    if (!listener_) listener_ = session_->listen().value();
    ASSERT_TRUE(session_->connect(std::chrono::seconds(1)));
    table_->on_connected();
    init_.reset();
    init_ = UniqueFd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    ASSERT_TRUE(init_);
  }
  void send(wire::FrameType type, std::uint32_t process, std::string_view payload = {}) {
    std::string bytes;
    wire::append_frame(bytes, type, process, payload);
    ASSERT_EQ(::send(init_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
  }
  void run() {
    loop_.restart();
    while (loop_.poll() > 0) {
    }
  }

  std::shared_ptr<Process> add(ProcessRequest request) { return table_->add(std::move(request)).value(); }
  static void output(Process& process, std::uint64_t sequence, const std::string& bytes) {
    const auto payload = wire::encode(wire::Output{.sequence = sequence, .bytes = bytes});
    process.receive({.type = wire::FrameType::output, .process = process.number(), .payload = payload});
  }
  // An exit as init reports it; the keeper's counters afterwards.
  void exit(const std::shared_ptr<Process>& process, wire::Exited exited, wire::KeeperReply counters = {}) {
    exited.disk_free_bytes = 1U << 20;
    exited.disk_free_inodes = 9;
    const auto payload = wire::encode(exited);
    process->receive({.type = wire::FrameType::exited, .process = process->number(), .payload = payload});
    Process::Inspect inspect = [counters] { return answer(counters); };
    tasks_.spawn("conclude", conclude(process, std::move(inspect)));
    run();
  }

  static async::Task<Result<wire::KeeperReply>> answer(wire::KeeperReply reply) { co_return reply; }
  static async::Task<> conclude(std::shared_ptr<Process> process, Process::Inspect inspect) {
    co_await process->conclude(std::move(inspect));
  }

  boost::asio::io_context loop_;
  async::TaskGroup tasks_{loop_.get_executor(), [](auto, auto) {}};
  store::TestDirectory dir_;
  UniqueFd run_dir_{::open(dir_.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  std::unique_ptr<store::Store> store_ = dir_.open();
  KeeperClient keeper_{loop_.get_executor(), tasks_, [](const auto&) {}, [] {}, KeeperClient::Patience{}};
  templates::Templates templates_{loop_.get_executor(), tasks_, *store_, {}, {}};
  journal::Journal journal_{loop_.get_executor(), *store_, [](std::string_view) {}};
  SandboxContext context_{.executor = loop_.get_executor(),
                          .tasks = tasks_,
                          .keeper = keeper_,
                          .store = *store_,
                          .templates = templates_,
                          .journal = journal_,
                          .run_dir = run_dir_.get(),
                          .orphan_grace = [] { return std::chrono::milliseconds(1); }};
  SandboxRecord record_;
  ResourceCounters counters_;
  UniqueFd listener_;
  UniqueFd init_;
  std::shared_ptr<InitSession> session_;
  std::unique_ptr<ProcessTable> table_;
};

TEST_F(ProcessTableTest, StoresWhatAServerAfterUsIsToFind) {
  const auto command = add({.kind = ProcessKind::exec, .argv = {"ls"}});
  const auto kernel = add({.kind = ProcessKind::kernel,
                           .argv = {"python3"},
                           .tag = {.owner = "k3", .language = "python", .birth = Birth::warm}});
  const auto execution = add({.kind = ProcessKind::execution, .tag = {.owner = "e1"}});
  EXPECT_THAT((std::vector{command->number(), kernel->number(), execution->number()}), ElementsAre(1, 2, 3));

  restart();
  ASSERT_TRUE(table_->restore());
  EXPECT_EQ(table_->next_number(), 4U);
  EXPECT_EQ(table_->find(1), nullptr) << "its client went with the server";
  ASSERT_EQ(table_->interpreters().size(), 1U);
  const auto& tag = table_->interpreters().front()->request().tag;
  EXPECT_EQ(tag.owner, "k3");
  EXPECT_EQ(tag.language, "python");
  EXPECT_EQ(tag.birth, Birth::warm);
  EXPECT_EQ(table_->find(ProcessKind::execution, "e1")->number(), 3U);
  EXPECT_EQ(table_->find(ProcessKind::execution, "k3"), nullptr);
}

TEST_F(ProcessTableTest, ForgetsTheRowWithTheProcess) {
  const auto failed = add({.kind = ProcessKind::background, .argv = {"a"}});
  const auto forgotten = add({.kind = ProcessKind::background, .argv = {"b"}});
  table_->withdraw(failed);
  table_->forget(forgotten);
  EXPECT_THAT(store_->processes().of("s1").value(), testing::IsEmpty());
  EXPECT_FALSE(failed->attached());
  EXPECT_EQ(forgotten->end()->reason, Reason::cancelled);
}

TEST_F(ProcessTableTest, AReconnectKeepsWhatInitReportsAndEndsTheRest) {
  const auto kept = add({.kind = ProcessKind::background, .argv = {"a"}});
  const auto lost = add({.kind = ProcessKind::background, .argv = {"b"}});
  connect();
  send(wire::FrameType::known, kept->number(),
       wire::encode(wire::Known{.state = wire::ProcessState::running, .first_sequence = wire::kFirstOutput}));
  send(wire::FrameType::synced, 0);
  run();
  EXPECT_TRUE(session_->synced());
  EXPECT_EQ(kept->phase(), Process::Phase::running);
  EXPECT_FALSE(kept->end());
  EXPECT_EQ(lost->end()->reason, Reason::sandbox_gone);
  EXPECT_EQ(table_->find(lost->number()), nullptr);
  EXPECT_EQ(store_->processes().of("s1").value().size(), 1U);
}

TEST_F(ProcessTableTest, AnOrphanOfTheServerBeforeIsReleasedAndItsNumberNotGivenAgain) {
  connect();
  send(wire::FrameType::known, 7, wire::encode(wire::Known{.state = wire::ProcessState::running}));
  send(wire::FrameType::synced, 0);
  run();
  ASSERT_TRUE(table_->find(7));
  EXPECT_THAT(table_->visible(), testing::IsEmpty());
  EXPECT_EQ(table_->next_number(), 8U);
  exit(table_->find(7), {.exit_code = 0});
  EXPECT_EQ(table_->find(7), nullptr) << "forgotten at its end";
}

TEST_F(ProcessTableTest, OverTheMemoryBoundTheLargestHolderLosesItsOldest) {
  const std::string mebibyte(1U << 20, 'x');
  const auto small = add({.argv = {"a"}});
  const auto large = add({.argv = {"b"}, .history = 64U << 20});
  output(*small, 2, "little");
  for (std::uint64_t sequence = 2; sequence < 8; ++sequence) output(*large, sequence, mebibyte);
  EXPECT_EQ(small->events().size(), 1U);
  EXPECT_LE(large->shared_bytes(), 4U << 20);
  EXPECT_EQ(large->events().back().sequence, 7U);
  Reader reader(large, 2);
  EXPECT_TRUE(reader.take(1).lost);
}

TEST_F(ProcessTableTest, AnExitIsJudgedByTheCountersSinceTheProcessBegan) {
  counters_ = {.oom_kills = 3};
  const auto killed = add({.kind = ProcessKind::background, .argv = {"a"}});
  exit(killed, {.exit_code = -1, .signal = SIGKILL}, {.oom_kills = 4});
  EXPECT_EQ(killed->end()->reason, Reason::oom);
  EXPECT_EQ(store_->processes().of("s1").value().front().end->reason, "oom");

  const auto other = add({.argv = {"b"}});
  exit(other, {.exit_code = -1, .signal = SIGKILL}, {.oom_kills = 3});
  EXPECT_EQ(other->end()->reason, Reason::signalled) << "that kill was before its time";
  EXPECT_EQ(other->end()->made, 0U);
}

TEST_F(ProcessTableTest, AProcessThatDoesNotStartEndsLikeInAShell) {
  const auto process = add({.argv = {"nope"}});
  process->fail_to_start({.stage = wire::SpawnStage::program, .sys_errno = ENOENT}, "nope");
  EXPECT_EQ(process->end()->reason, Reason::not_started);
  EXPECT_EQ(process->end()->exit_status, 127);
  EXPECT_EQ(process->text_of(Event::Kind::err), "Command not found: nope\n");
  EXPECT_FALSE(process->end()->made) << "nobody counted";
}

TEST_F(ProcessTableTest, ProcessesOutliveTheirSandbox) {
  const auto process = add({.argv = {"sleep"}, .input = InputMode::open});
  Reader reader(process, 1);
  table_->on_sandbox_gone();
  EXPECT_EQ(process->end()->reason, Reason::sandbox_gone);
  EXPECT_EQ(process->end()->note, "the sandbox ended");
  const auto held = add({.argv = {"sleep"}});
  table_.reset();
  EXPECT_EQ(held->signal(SIGTERM).error().code, Errc::conflict);
  EXPECT_EQ(process->offer_input("x").error().code, Errc::conflict);
  EXPECT_TRUE(reader.take(1000).over);
}

}  // namespace
}  // namespace cove::sandbox
