#include "store/store.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <thread>

#include "base/io.hpp"
#include "store/schema.hpp"
#include "store/test_directory.hpp"

namespace cove::store {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> names_in(const std::string& dir) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(dir)) names.push_back(entry.path().filename());
  return names;
}

mode_t mode_of(const std::string& path) {
  struct stat st{};
  EXPECT_EQ(::stat(path.c_str(), &st), 0) << path;
  return st.st_mode & 07777;
}

SandboxRow sandbox(std::string name) {
  return {.tenant = "t", .name = name, .id = "id-" + name, .pod_name = "sbx"};
}

TEST(Store, MakesItsFileForItsOwnerAlone) {
  const TestDirectory dir;
  const auto store = dir.open();
  ASSERT_TRUE(store->sandboxes().insert(sandbox("a")));
  EXPECT_EQ(mode_of(dir.file()), 0600U);
  EXPECT_EQ(mode_of(dir.file() + "-wal"), 0600U);
  EXPECT_EQ(mode_of(dir.file() + "-shm"), 0600U);
  EXPECT_TRUE(store->warning().empty());
}

TEST(Store, KeepsWhatWasWritten) {
  const TestDirectory dir;
  ASSERT_TRUE(dir.open()->sandboxes().insert(sandbox("a")));
  EXPECT_EQ(dir.open()->sandboxes().all()->size(), 1U);
}

TEST(Store, KeepsWhatWasWrittenBeforeAKill) {
  const TestDirectory dir;
  const auto child = ::fork();
  if (child == 0) {
    auto store = Store::open(dir.path(), OnBroken::move_aside);
    if (store && (*store)->sandboxes().insert(sandbox("a"))) ::raise(SIGKILL);
    ::_exit(1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(dir.open()->sandboxes().all()->size(), 1U);
}

TEST(Store, WaitsForAnotherProgramThatIsWriting) {
  const TestDirectory dir;
  const auto store = dir.open();
  const auto other = dir.open();
  std::thread busy([&] {
    EXPECT_TRUE(other->together([&]() -> Result<> {
      COVE_CHECK(other->sandboxes().insert(sandbox("a")));
      std::this_thread::sleep_for(std::chrono::milliseconds(3000));
      return {};
    }));
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_TRUE(store->sandboxes().insert(sandbox("b")));
  busy.join();
  EXPECT_EQ(store->sandboxes().all()->size(), 2U);
}

TEST(Store, DoesAllOrNothingTogether) {
  const TestDirectory dir;
  const auto store = dir.open();
  const auto done = store->together([&]() -> Result<> {
    COVE_CHECK(store->sandboxes().insert(sandbox("a")));
    return store->sandboxes().insert(sandbox("a"));
  });
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, Errc::exists);
  EXPECT_TRUE(store->sandboxes().all()->empty());
  EXPECT_TRUE(store->together([&] { return store->sandboxes().insert(sandbox("b")); }));
  EXPECT_EQ(store->sandboxes().all()->size(), 1U);
}

TEST(Store, TellsWhenAnotherConnectionWrote) {
  const TestDirectory dir;
  const auto server = dir.open();
  const auto visitor = dir.open(OnBroken::refuse);
  const auto before = *server->data_version();
  ASSERT_TRUE(server->sandboxes().insert(sandbox("a")));
  EXPECT_EQ(*server->data_version(), before) << "our own writes are no news";
  ASSERT_TRUE(visitor->keys().create({.id = "key_1", .tenant = "t", .hash = "h", .prefix = "p"}));
  EXPECT_NE(*server->data_version(), before);
  EXPECT_EQ(server->keys().list()->size(), 1U);
}

TEST(Store, MovesAsideWhatIsNoDatabase) {
  const TestDirectory dir;
  std::ofstream(dir.file()) << std::string(8192, 'x');
  ::chmod(dir.file().c_str(), 0600);
  const auto refused = Store::open(dir.path(), OnBroken::refuse);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::io);
  EXPECT_EQ(names_in(dir.path()).size(), 1U) << "a visitor changes nothing";

  const auto store = dir.open();
  EXPECT_THAT(store->warning(), testing::HasSubstr("cove.db.broken-"));
  EXPECT_THAT(names_in(dir.path()), testing::Contains(testing::StartsWith("cove.db.broken-")));
  EXPECT_TRUE(store->sandboxes().insert(sandbox("a")));
  EXPECT_TRUE(store->keys_may_be_lost());
}

TEST(Store, RemembersThatKeysMayBeLostUntilTheBrokenFileIsRemoved) {
  const TestDirectory dir;
  EXPECT_FALSE(dir.open()->keys_may_be_lost());
  const auto broken = dir.file() + ".broken-1";
  std::ofstream(broken).close();
  const auto store = dir.open();
  EXPECT_TRUE(store->keys_may_be_lost());
  EXPECT_TRUE(store->warning().empty());
  fs::remove(broken);
  EXPECT_FALSE(dir.open()->keys_may_be_lost());
}

TEST(Store, MovesAsideADamagedOne) {
  const TestDirectory dir;
  {
    const auto store = dir.open();
    for (int i = 0; i < 500; ++i) ASSERT_TRUE(store->sandboxes().insert(sandbox(std::to_string(i))));
  }
  const auto size = fs::file_size(dir.file());
  ASSERT_GT(size, 20'000U);
  std::fstream file(dir.file(), std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(size / 2));
  file << std::string(8192, '\xa5');
  file.close();
  const auto store = dir.open();
  EXPECT_THAT(store->warning(), testing::HasSubstr("cove.db.broken-"));
  EXPECT_TRUE(store->sandboxes().all()->empty());
}

TEST(Store, StartsAnewFromAnEmptyFile) {
  const TestDirectory dir;
  std::ofstream(dir.file()).close();
  ::chmod(dir.file().c_str(), 0600);
  EXPECT_TRUE(dir.open()->warning().empty());
}

TEST(Store, RefusesAFileThatOthersCanRead) {
  const TestDirectory dir;
  ASSERT_NE(dir.open(), nullptr);
  ::chmod(dir.file().c_str(), 0644);
  const auto store = Store::open(dir.path(), OnBroken::move_aside);
  ASSERT_FALSE(store);
  EXPECT_EQ(store.error().code, Errc::denied);
  EXPECT_THAT(store.error().message, testing::HasSubstr("chmod 600"));
}

TEST(Store, FollowsNoLink) {
  const TestDirectory dir;
  const TestDirectory elsewhere;
  ASSERT_NE(elsewhere.open(), nullptr);
  fs::create_symlink(elsewhere.file(), dir.file());
  const auto store = Store::open(dir.path(), OnBroken::move_aside);
  ASSERT_FALSE(store);
  EXPECT_EQ(store.error().code, Errc::denied);
}

TEST(Store, TakesOverCallbacksOfTheSchemaBefore) {
  const TestDirectory dir;
  {
    ASSERT_TRUE(open_at(AT_FDCWD, dir.file(), O_WRONLY | O_CREAT, 0600));
    auto database = Database::open(dir.file());
    ASSERT_TRUE(database && migrate_to(*database, 3));
    ASSERT_TRUE(
        database->run("INSERT INTO callbacks VALUES ('x1','t','u','s','b\u00f6dy','pending',2,7,500,'no'),"
                      "('x2','t','u','s','','delivered',1,7,200,'')"));
  }
  const auto store = dir.open();
  ASSERT_TRUE(store);
  auto& callbacks = store->callbacks();
  EXPECT_EQ(callbacks.body("x1").value(), "b\u00f6dy");
  EXPECT_EQ(callbacks.find("x1").value()->size_bytes, 5U);
  EXPECT_EQ(callbacks.find("x1").value()->last_error, "no");
  EXPECT_EQ(callbacks.find("x2").value()->state, "delivered");
  EXPECT_EQ(callbacks.pending().value().size(), 1U);
}

TEST(Store, TakesOverAnswersAndEventsOfTheSchemaBefore) {
  const TestDirectory dir;
  {
    ASSERT_TRUE(open_at(AT_FDCWD, dir.file(), O_WRONLY | O_CREAT, 0600));
    auto database = Database::open(dir.file());
    ASSERT_TRUE(database && migrate_to(*database, 4));
    ASSERT_TRUE(
        database->run("INSERT INTO idempotency VALUES ('t','key','hash',201,'body',1);"
                      "INSERT INTO events VALUES (7,1,'t','created','s','p','{}'),(8,1,'u','created','s','p','{}')"));
  }
  const auto store = dir.open();
  ASSERT_TRUE(store);
  EXPECT_EQ(store->idempotency().kept().value(), (Amount{.count = 1, .bytes = 11}));
  EXPECT_EQ(store->idempotency().find("t", "key").value()->body, "body");
  for (const auto* tenant : {"t", "u", "gone"})
    EXPECT_EQ(store->events().lost_through(tenant).value(), 6) << "whose those were nobody knows any more";
  EXPECT_EQ(store->events().last_of("u").value(), 8);
}

TEST(Store, TakesOverProcessesOfTheSchemaBefore) {
  const TestDirectory dir;
  {
    ASSERT_TRUE(open_at(AT_FDCWD, dir.file(), O_WRONLY | O_CREAT, 0600));
    auto database = Database::open(dir.file());
    ASSERT_TRUE(database && migrate_to(*database, 7));
    ASSERT_TRUE(database->run(R"(
INSERT INTO sandboxes VALUES ('s','t','n','p','running',1,1,1,'b',1,'c',1,1,1,1,1,1,'host','{}','{}','{}','[]',9,'use','');
INSERT INTO processes (sandbox, number, kind, command_json, terminal, input_open, started_unix_ms, deadline_boot_ms)
VALUES ('s',1,'kernel','["python3","k1"]',0,0,1,0),
  ('s',2,'kernel','["/usr/bin/python3","-I","-B","/cove/python/cold.py","k2"]',0,0,1,0),
  ('s',3,'kernel','["node","/cove/javascript/kernel.js","k3"]',0,0,1,0),
  ('s',4,'kernel','["python3"]',0,0,1,0),
  ('s',5,'kernel','torn',0,0,1,0),
  ('s',6,'execution','["e1"]',0,0,1,0),
  ('s',7,'execution','[]',0,0,1,0),
  ('s',8,'background','["sleep","9"]',0,1,1,0))"));
  }
  const auto store = dir.open();
  ASSERT_TRUE(store);
  std::vector<std::vector<std::string>> found;
  const auto rows = store->processes().of("s").value();
  for (const auto& row : rows) found.push_back({row.owner, row.language, row.birth});
  EXPECT_THAT(found, testing::ElementsAre(testing::ElementsAre("k1", "python", "warm"),      //
                                          testing::ElementsAre("k2", "python", "cold"),      //
                                          testing::ElementsAre("k3", "javascript", "cold"),  //
                                          testing::ElementsAre("p4", "python", "cold"),      //
                                          testing::ElementsAre("p5", "python", "cold"),      //
                                          testing::ElementsAre("e1", "", "cold"),            //
                                          testing::ElementsAre("", "", "cold"),              //
                                          testing::ElementsAre("", "", "cold")));
}

TEST(Store, RefusesTheSchemaOfANewerCove) {
  const TestDirectory dir;
  ASSERT_NE(dir.open(), nullptr);
  {
    auto database = Database::open(dir.file());
    ASSERT_TRUE(database);
    ASSERT_TRUE(database->run("PRAGMA user_version = 1000"));
  }
  const auto store = Store::open(dir.path(), OnBroken::move_aside);
  ASSERT_FALSE(store);
  EXPECT_EQ(store.error().code, Errc::unsupported);
  EXPECT_THAT(store.error().message, testing::HasSubstr("newer Cove"));
}

TEST(Store, SaysWhichDirectoryIsMissing) {
  const auto store = Store::open("/nonexistent/front", OnBroken::move_aside);
  ASSERT_FALSE(store);
  EXPECT_EQ(store.error().code, Errc::not_found);
  EXPECT_THAT(store.error().message, testing::HasSubstr("/nonexistent/front"));
}

TEST(Store, GivesFilesMadeByRootToTheOwnerOfTheDirectory) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  const TestDirectory dir;
  ASSERT_EQ(::chown(dir.path().c_str(), 65534, 65534), 0);
  const auto store = dir.open();
  ASSERT_TRUE(store->sandboxes().insert(sandbox("a")));
  for (const auto& name : names_in(dir.path())) {
    struct stat st{};
    ASSERT_EQ(::stat((dir.path() + "/" + name).c_str(), &st), 0);
    EXPECT_EQ(st.st_uid, 65534U) << name;
    EXPECT_EQ(st.st_gid, 65534U) << name;
  }
  EXPECT_EQ(names_in(dir.path()).size(), 3U);
}

TEST(Store, WaitsForNobodyForEver) {
  const TestDirectory dir;
  ASSERT_NE(dir.open(), nullptr);
  auto ours = Database::open(dir.file());
  auto other = Database::open(dir.file());
  ASSERT_TRUE(ours && other);
  ours->set_patience({.patience = std::chrono::milliseconds(1)});
  SandboxTable table(*ours);
  ASSERT_TRUE(other->run("BEGIN IMMEDIATE"));
  const auto done = table.insert(sandbox("a"));
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, Errc::unavailable);
  ASSERT_TRUE(other->run("ROLLBACK"));
  EXPECT_TRUE(table.insert(sandbox("a")));
}

TEST(Store, StandsStillForAPartOfTheTimeOnlyWhileAnotherProgramHoldsTheDatabase) {
  const TestDirectory dir;
  ASSERT_NE(dir.open(), nullptr);
  auto ours = Database::open(dir.file());
  auto other = Database::open(dir.file());
  ASSERT_TRUE(ours && other);
  SandboxTable table(*ours);
  ours->set_patience({.patience = std::chrono::milliseconds(200), .rest = std::chrono::milliseconds(600)});
  ASSERT_TRUE(other->run("BEGIN IMMEDIATE"));
  using Clock = std::chrono::steady_clock;
  std::vector<Clock::duration> waits;
  for (int i = 0; i < 50; ++i) {
    const auto since = Clock::now();
    const auto done = table.insert(sandbox("a"));
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, Errc::unavailable);
    waits.push_back(Clock::now() - since);
  }
  EXPECT_GE(waits.front(), std::chrono::milliseconds(190));
  EXPECT_LT(*std::max_element(waits.begin() + 1, waits.end()), std::chrono::milliseconds(100)) << "they fail at once";
  std::this_thread::sleep_for(std::chrono::milliseconds(700));
  const auto since = Clock::now();
  EXPECT_FALSE(table.insert(sandbox("a")));
  EXPECT_GE(Clock::now() - since, std::chrono::milliseconds(190)) << "then one waits again";
  ASSERT_TRUE(other->run("ROLLBACK"));
  EXPECT_TRUE(table.insert(sandbox("a"))) << "also while others fail at once";
}

// Fills a store on a disk of its own. 0: every failure was the right one, and all was well once there was room again.
int fill_small_disk(const std::string& dir) {
  if (::unshare(CLONE_NEWNS) != 0 || ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      ::mount("tmpfs", dir.c_str(), "tmpfs", 0, "size=384k") != 0)
    return 77;
  const auto full = [](const Error& error) { return error.code == Errc::over_limit && error.sys_errno == ENOSPC; };
  auto store = Store::open(dir, OnBroken::move_aside);
  if (!store) return 1;
  auto row = sandbox("x");
  row.metadata_json = std::string(5000, 'm');
  Result<> done;
  for (int i = 0; done && i < 1000; ++i) {
    row.name = row.id = std::to_string(i);
    done = (*store)->sandboxes().insert(row);
  }
  if (done || !full(done.error())) return 2;
  const auto kept = (*store)->sandboxes().all();
  if (!kept || kept->empty()) return 3;
  store->reset();
  if (auto again = Store::open(dir, OnBroken::move_aside); !again && !full(again.error())) return 4;
  if (::mount("tmpfs", dir.c_str(), "tmpfs", MS_REMOUNT, "size=8m") != 0) return 77;
  auto again = Store::open(dir, OnBroken::move_aside);
  if (!again || !(*again)->warning().empty()) return 5;
  if ((*again)->sandboxes().all()->size() != kept->size()) return 6;
  return (*again)->sandboxes().insert(row) ? 0 : 7;
}

TEST(Store, LosesNothingOnADiskThatIsFull) {
  const TestDirectory dir;
  const auto child = ::fork();
  if (child == 0) ::_exit(fill_small_disk(dir.path()));
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "no small disk to be had: cannot mount here";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

// The page count is a disk that we can make as small as we like.
TEST(Store, SaysThatTheDiskIsFullAndRecovers) {
  const TestDirectory dir;
  ASSERT_NE(dir.open(), nullptr);
  auto database = Database::open(dir.file());
  ASSERT_TRUE(database);
  ASSERT_TRUE(database->run("PRAGMA max_page_count = 1"));  // as small as it is now
  SandboxTable table(*database);
  Result<> done;
  int written = 0;
  auto row = sandbox("x");
  row.metadata_json = std::string(20'000, 'm');
  for (; done && written < 1000; ++written) {
    row.name = row.id = std::to_string(written);
    done = table.insert(row);
  }
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, Errc::over_limit);
  EXPECT_EQ(done.error().sys_errno, ENOSPC);
  ASSERT_TRUE(database->run("PRAGMA max_page_count = 1000000"));
  EXPECT_TRUE(table.insert(row));
}

}  // namespace
}  // namespace cove::store
