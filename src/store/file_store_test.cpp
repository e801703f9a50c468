#include "store/file_store.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "base/io.hpp"
#include "store/test_directory.hpp"

namespace cove::store {
namespace {

using std::chrono::milliseconds;

class KeptFiles : public testing::Test {
 protected:
  KeptFiles() { open(); }

  void open() {
    files_.reset();
    store_ = dir_.open();
    std::filesystem::create_directory(place());
    files_ = std::make_unique<FileStore>(*store_, *open_at(AT_FDCWD, place(), O_RDONLY | O_DIRECTORY), options_,
                                         [this] { return now_; });
  }
  [[nodiscard]] std::string place() const { return dir_.path() + "/files"; }
  [[nodiscard]] std::size_t on_disk() const {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(place()), {}));
  }
  FileRow kept(std::string_view content, std::string tenant = "t", std::string name = "n") {
    auto draft = files_->begin(std::move(tenant));
    EXPECT_TRUE(draft && draft->append(content));
    return *files_->keep(std::move(*draft), std::move(name));
  }
  // What is answered to a file that does not fit.
  Error refusal(std::string_view content, const std::string& tenant = "t", const std::string& name = "n") {
    auto draft = files_->begin(tenant);
    if (!draft) return draft.error();
    if (const auto written = draft->append(content); !written) return written.error();
    const auto row = files_->keep(std::move(*draft), name);
    return row ? Error{.message = "kept"} : row.error();
  }
  std::string content(const FileRow& row) {
    const auto file = files_->open(row);
    return file ? read_all(file->get()).value_or("") : "(gone)";
  }

  TestDirectory dir_;
  std::int64_t now_ = 10'000;
  FileStore::Options options_{.ttl = milliseconds(1000)};
  std::unique_ptr<Store> store_;
  std::unique_ptr<FileStore> files_;
};

TEST_F(KeptFiles, ComeBackWithTheirNameSizeAndHash) {
  const auto row = kept("hello", "t", "../../etc/passwd");
  EXPECT_TRUE(is_uuid(row.id)) << row.id;
  EXPECT_EQ(row.size_bytes, 5U);
  EXPECT_EQ(row.sha256, "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824");
  EXPECT_EQ(content(row), "hello");
  const auto found = files_->find("t", row.id);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->name, "../../etc/passwd");
  EXPECT_EQ(on_disk(), 1U);
}

TEST_F(KeptFiles, AreTheirTenantsAlone) {
  const auto row = kept("x");
  EXPECT_EQ(files_->find("other", row.id).error().code, Errc::not_found);
  EXPECT_EQ(files_->remove("other", row.id).error().code, Errc::not_found);
  EXPECT_TRUE(files_->list("other", 0, 10)->empty());
  EXPECT_EQ(content(row), "x");
}

TEST_F(KeptFiles, AreKnownByNothingButTheirId) {
  const auto row = kept("x");
  for (const auto& id :
       {"../files/" + row.id, "/" + row.id, row.id + ".meta.json", std::string("cove.db"), std::string()})
    EXPECT_EQ(files_->find("t", id).error().code, Errc::not_found) << id;
}

TEST_F(KeptFiles, DraftsThatAreNotKeptLeaveNothing) {
  {
    auto draft = files_->begin("t");
    ASSERT_TRUE(draft && draft->append("half"));
    EXPECT_EQ(on_disk(), 1U);
    EXPECT_EQ(files_->kept(), (Amount{.count = 1, .bytes = 4}));
  }
  EXPECT_EQ(on_disk(), 0U);
  EXPECT_EQ(files_->kept(), Amount{});
}

TEST_F(KeptFiles, OfOneTenantAreBoundedInNumberAndBytesAndTheRefusalSaysWhenToComeBack) {
  options_.kept.tenant = {.count = 2, .bytes = 10};
  files_->set_options(options_);
  kept("1234");
  now_ += 400;
  auto error = refusal("12345");
  EXPECT_EQ(error.code, Errc::over_limit);
  EXPECT_EQ(error.sys_errno, EDQUOT);
  EXPECT_THAT(error.message, testing::HasSubstr("files.tenant_size")) << "the name counts as well";
  EXPECT_EQ(error.retry_after, milliseconds(600));
  kept("");
  error = refusal("");
  EXPECT_THAT(error.message, testing::HasSubstr("files.tenant_count"));
  EXPECT_EQ(refusal("1234567", "other").message, "kept") << "nobody else's";
  EXPECT_EQ(files_->refused(), 2U);
  EXPECT_EQ(on_disk(), 3U);
  now_ += 600;
  EXPECT_EQ(refusal("").message, "kept") << "as it was told, although nobody removed the first yet";
}

TEST_F(KeptFiles, OfAllTenantsAreBounded) {
  options_.kept.all = {.count = 3, .bytes = 10};
  files_->set_options(options_);
  const auto first = kept("12", "a");
  kept("12", "b");
  EXPECT_THAT(refusal("12345", "c").message, testing::HasSubstr("files.max_total_size"));
  kept("", "c");
  EXPECT_THAT(refusal("", "d").message, testing::HasSubstr("files.max_total_count"));
  ASSERT_TRUE(files_->remove("a", first.id));
  EXPECT_EQ(refusal("", "d").message, "kept");
}

TEST_F(KeptFiles, LeaveAReserveOfTheDisk) {
  options_.reserve_bytes = UINT64_MAX;
  files_->set_options(options_);
  const auto error = refusal("x");
  EXPECT_EQ(error.sys_errno, EDQUOT);
  EXPECT_THAT(error.message, testing::HasSubstr("files.reserve"));
}

TEST_F(KeptFiles, GiveBackWhatTheyTookHoweverTheyGo) {
  const auto removed = kept("12345");
  const auto used = kept("12345");
  const auto expired = kept("12345");
  EXPECT_EQ(files_->kept(), (Amount{.count = 3, .bytes = 18}));
  ASSERT_TRUE(files_->remove("t", removed.id));
  EXPECT_EQ(files_->kept(), (Amount{.count = 2, .bytes = 12}));
  {
    const auto pin = files_->pin(used);
    ASSERT_TRUE(files_->remove("t", used.id));
    EXPECT_EQ(files_->kept(), (Amount{.count = 2, .bytes = 12})) << "its content is still there";
  }
  EXPECT_EQ(files_->kept(), (Amount{.count = 1, .bytes = 6}));
  now_ += 1000;
  ASSERT_TRUE(files_->expire(0));
  EXPECT_EQ(files_->kept(), Amount{});
}

TEST_F(KeptFiles, AreCountedAgainAfterARestartWithoutOrphans) {
  kept("12345", "a");
  const auto lost = kept("12345", "b");
  ASSERT_EQ(::unlink((place() + "/" + lost.id).c_str()), 0);
  open();
  ASSERT_TRUE(files_->sweep());
  EXPECT_EQ(files_->kept(), (Amount{.count = 1, .bytes = 6}));
}

TEST_F(KeptFiles, SurviveARestartAndOrphansDoNot) {
  const auto row = kept("x");
  const auto lost = kept("gone");
  const auto cut = kept("cut short");
  ASSERT_EQ(::unlink((place() + "/" + lost.id).c_str()), 0);
  ASSERT_EQ(::truncate((place() + "/" + cut.id).c_str(), 3), 0);
  for (const auto& name : {new_uuid(), std::string(".draft-1"), std::string("README")})
    ASSERT_TRUE(open_at(AT_FDCWD, place() + "/" + name, O_WRONLY | O_CREAT, 0600));
  open();
  const auto gone = files_->sweep();
  ASSERT_TRUE(gone) << gone.error().message;
  EXPECT_EQ(*gone, 5U) << "two rows, the content of one of them, an orphan and a draft";
  EXPECT_EQ(on_disk(), 2U) << "the file, and what is not ours";
  EXPECT_EQ(content(*files_->find("t", row.id)), "x");
  EXPECT_FALSE(files_->find("t", lost.id));
  EXPECT_FALSE(files_->find("t", cut.id));
}

TEST_F(KeptFiles, AreGoneWhenTheirTimeIsOver) {
  const auto row = kept("x");
  now_ += 999;
  EXPECT_TRUE(files_->find("t", row.id));
  EXPECT_FALSE(files_->expire(0)->next);
  now_ += 1;
  EXPECT_FALSE(files_->find("t", row.id)) << "also before anybody removed it";
  EXPECT_TRUE(files_->list("t", 0, 10)->empty());
  const auto expired = files_->expire(0);
  ASSERT_TRUE(expired);
  EXPECT_EQ(expired->removed, 1U);
  EXPECT_FALSE(files_->expire(*expired->next)->next);
  EXPECT_EQ(on_disk(), 0U);
}

TEST_F(KeptFiles, DoNotExpireWhileTheyAreUsed) {
  const auto used = kept("used");
  const auto other = kept("other");
  {
    const auto pin = files_->pin(used);
    const auto again = files_->pin(used);
    now_ += 5000;
    EXPECT_EQ(files_->expire(0)->removed, 1U);
    EXPECT_EQ(content(used), "used");
    EXPECT_EQ(content(other), "(gone)");
  }
  EXPECT_EQ(files_->expire(0)->removed, 1U);
  EXPECT_EQ(content(used), "(gone)");
}

TEST_F(KeptFiles, RemovedWhileUsedTheyAreGoneForEverybodyElse) {
  const auto row = kept("x");
  {
    const auto pin = files_->pin(row);
    ASSERT_TRUE(files_->remove("t", row.id));
    EXPECT_EQ(files_->remove("t", row.id).error().code, Errc::not_found);
    EXPECT_EQ(content(row), "x");
  }
  EXPECT_EQ(content(row), "(gone)");
}

TEST(Uuid, IsVersionFourInLowerCase) {
  EXPECT_TRUE(is_uuid("7d0c2c1e-4d0a-4a2e-9a57-3f1f5f0f3f55"));
  for (const auto* other : {"7D0C2C1E-4D0A-4A2E-9A57-3F1F5F0F3F55", "7d0c2c1e-4d0a-1a2e-9a57-3f1f5f0f3f55",
                            "7d0c2c1e-4d0a-4a2e-ca57-3f1f5f0f3f55", "7d0c2c1e4d0a4a2e9a573f1f5f0f3f55", "",
                            "7d0c2c1e-4d0a-4a2e-9a57-3f1f5f0f3f5/", "7d0c2c1e-4d0a-4a2e-9a57-3f1f5f0f3f555"})
    EXPECT_FALSE(is_uuid(other)) << other;
  EXPECT_TRUE(is_uuid(new_uuid()));
  EXPECT_NE(new_uuid(), new_uuid());
}

}  // namespace
}  // namespace cove::store
