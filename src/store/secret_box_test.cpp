#include "store/secret_box.hpp"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <fstream>

#include "store/test_directory.hpp"

namespace cove::store {
namespace {

std::string content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(SecretBox, OpensWhatItSealedAlsoAfterARestartAndForTheSameOwnerOnly) {
  const TestDirectory dir;
  const auto sealed = SecretBox(dir.path()).seal("e1", "hunter2");
  ASSERT_TRUE(sealed) << sealed.error().message;
  EXPECT_EQ(sealed->find("hunter2"), std::string::npos);
  EXPECT_EQ(*SecretBox(dir.path()).open("e1", *sealed), "hunter2");
  EXPECT_EQ(SecretBox(dir.path()).open("e2", *sealed).error().code, Errc::denied);
  EXPECT_NE(*SecretBox(dir.path()).seal("e1", "hunter2"), *sealed) << "the same secret looks different each time";
  struct stat key{};
  ASSERT_EQ(::stat((dir.path() + "/" + kSecretKeyFile).c_str(), &key), 0);
  EXPECT_EQ(key.st_mode & 07777, 0600U);
}

TEST(SecretBox, RefusesWhatWasChangedCutOrSealedWithAnotherKey) {
  const TestDirectory dir;
  const TestDirectory other;
  const auto sealed = SecretBox(dir.path()).seal("e1", "hunter2").value();
  for (auto broken : {sealed.substr(0, sealed.size() - 8), std::string("sealed:"), std::string("sealed:AAAA"),
                      std::string("sealed:!")})
    EXPECT_EQ(SecretBox(dir.path()).open("e1", broken).error().code, Errc::denied) << broken;
  auto changed = sealed;
  changed[12] = changed[12] == 'A' ? 'B' : 'A';
  EXPECT_EQ(SecretBox(dir.path()).open("e1", changed).error().code, Errc::denied);
  EXPECT_EQ(SecretBox(other.path()).open("e1", sealed).error().code, Errc::denied);
  ASSERT_EQ(::chmod((dir.path() + "/" + kSecretKeyFile).c_str(), 0644), 0);
  EXPECT_THAT(SecretBox(dir.path()).open("e1", sealed).error().message, testing::HasSubstr("chmod 600"));
}

TEST(SecretBox, GivesBackWhatWasNeverSealed) {
  const TestDirectory dir;
  EXPECT_EQ(*SecretBox(dir.path()).open("e1", "plain"), "plain");
  EXPECT_EQ(*SecretBox(dir.path()).open("e1", ""), "");
  EXPECT_EQ(*SecretBox(dir.path()).seal("e1", ""), "");
}

TEST(Store, SealsTheSecretsThatAServerBeforeLeftPlain) {
  const TestDirectory dir;
  {
    const auto store = dir.open();
    ASSERT_TRUE(store->sandboxes().insert({.tenant = "t", .name = "a", .id = "s", .pod_name = "p"}));
    ASSERT_TRUE(store->executions().insert({.id = "e1", .sandbox = "s", .tenant = "t", .callback_secret = "hunter2"}));
    ASSERT_TRUE(store->callbacks().insert({.id = "e2", .tenant = "t", .secret = "hunter3"}, "{}"));
  }
  const auto store = dir.open();
  const auto execution = store->executions().find("s", "e1");
  const auto callback = store->callbacks().find("e2");
  ASSERT_TRUE(execution && callback && *callback);
  EXPECT_TRUE(SecretBox::is_sealed(execution->callback_secret));
  EXPECT_EQ(*store->secrets().open("e1", execution->callback_secret), "hunter2");
  EXPECT_EQ(*store->secrets().open("e2", (*callback)->secret), "hunter3");
  for (const auto* part : {"", "-wal"}) {
    EXPECT_EQ(content(dir.file() + part).find("hunter2"), std::string::npos) << part;
    EXPECT_EQ(content(dir.file() + part).find("hunter3"), std::string::npos) << part;
  }
}

}  // namespace
}  // namespace cove::store
