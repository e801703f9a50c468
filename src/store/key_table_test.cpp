#include "store/key_table.hpp"

#include <gmock/gmock.h>

#include "store/secret.hpp"
#include "store/test_directory.hpp"

namespace cove::store {
namespace {

using testing::ElementsAre;

KeyRow row(const std::string& id, std::string tenant, std::int64_t created) {
  return {.id = id,
          .tenant = std::move(tenant),
          .hash = sha256_hex(id),
          .prefix = "cove_abcd",
          .created_unix_ms = created,
          .quotas = {.max_sandboxes = 1,
                     .max_memory_bytes = 2ULL << 40,
                     .executions_per_minute = 3,
                     .concurrent_executions = 4},
          .note = "for CI",
          .operates = true};
}

class Keys : public testing::Test {
 protected:
  TestDirectory dir_;
  std::unique_ptr<Store> store_ = dir_.open();
  KeyTable& keys_ = store_->keys();
};

TEST_F(Keys, AreListedAsTheyWereMade) {
  const auto one = row("key_1", "a", 10);
  const auto two = row("key_2", "b", 20);
  ASSERT_TRUE(keys_.create(two));
  ASSERT_TRUE(keys_.create(one));
  EXPECT_THAT(*keys_.list(), ElementsAre(one, two));
  EXPECT_THAT(*keys_.list("b"), ElementsAre(two));
  EXPECT_THAT(*keys_.list("nobody"), ElementsAre());
  EXPECT_EQ(*keys_.count(), 2);
}

TEST_F(Keys, AreFoundByTheirHashUntilRevoked) {
  const auto one = row("key_1", "a", 10);
  ASSERT_TRUE(keys_.create(one));
  EXPECT_EQ(*keys_.find_by_hash(one.hash), one);
  EXPECT_EQ(*keys_.find_by_hash(sha256_hex("else")), std::nullopt);
  EXPECT_EQ(*keys_.find_by_hash(""), std::nullopt);
  const auto revoked = keys_.revoke("key_1", 99);
  ASSERT_TRUE(revoked);
  EXPECT_EQ(revoked->revoked_unix_ms, 99);
  EXPECT_EQ(*keys_.find_by_hash(one.hash), std::nullopt);
  EXPECT_EQ(*keys_.count(), 0);
  EXPECT_EQ(keys_.list()->size(), 1U);
}

TEST_F(Keys, KeepTheTimeOfTheirFirstRevocation) {
  ASSERT_TRUE(keys_.create(row("key_1", "a", 10)));
  ASSERT_TRUE(keys_.revoke("key_1", 99));
  EXPECT_EQ(keys_.revoke("key_1", 100)->revoked_unix_ms, 99);
}

TEST_F(Keys, ThatAreUnknownCannotBeRevoked) {
  EXPECT_EQ(keys_.revoke("key_x", 1).error().code, Errc::not_found);
}

TEST_F(Keys, AreUnique) {
  ASSERT_TRUE(keys_.create(row("key_1", "a", 10)));
  EXPECT_EQ(keys_.create(row("key_1", "a", 10)).error().code, Errc::exists);
}

}  // namespace
}  // namespace cove::store
