#include "jobs/execution_history.hpp"

#include <gtest/gtest.h>

#include <set>

#include "store/test_directory.hpp"

namespace cove::jobs {
namespace {

class History : public testing::Test {
 protected:
  History() { load(); }

  void load() {
    history_ = std::make_unique<ExecutionHistory>(
        store_->executions(), [this] { return limits_; },
        [this](const std::string& sandbox) { return !gone_.contains(sandbox); });
    ASSERT_TRUE(history_->load());
  }
  void make_sandbox(const std::string& id, const std::string& tenant) {
    ASSERT_TRUE(store_->sandboxes().insert({.tenant = tenant, .name = id, .id = id}));
  }
  // An execution that ended with so many bytes.
  void add(const std::string& id, const std::string& sandbox, const std::string& tenant, std::size_t bytes) {
    store::ExecutionRow row{.id = id, .sandbox = sandbox, .tenant = tenant, .code = "c"};
    ASSERT_TRUE(store_->executions().insert(row));
    row.status = "completed";
    row.result_json = std::string(bytes - 1, 'x');
    ASSERT_TRUE(history_->add(row));
  }
  std::string ids_of(const std::string& sandbox) {
    std::string out;
    const auto rows = store_->executions().of(sandbox, 0, "", 1000);
    for (const auto& row : *rows) out = row.id + out;
    return out;
  }

  store::TestDirectory dir_;
  std::unique_ptr<store::Store> store_ = dir_.open();
  ExecutionHistory::Limits limits_{
      .bytes = {.tenant = {.count = 0, .bytes = 1000}, .all = {.count = 0, .bytes = 1500}}};
  std::set<std::string> gone_;
  std::unique_ptr<ExecutionHistory> history_;
};

TEST_F(History, OfATenantIsBoundedOverItsSandboxesAndCostsNobodyElse) {
  make_sandbox("s", "one");
  make_sandbox("t", "one");
  make_sandbox("u", "two");
  add("z", "u", "two", 400);
  add("a", "s", "one", 400);
  add("b", "t", "one", 400);
  add("c", "t", "one", 400);
  EXPECT_EQ(ids_of("s"), "") << "the oldest of the tenant, in whatever sandbox";
  EXPECT_EQ(ids_of("t"), "bc");
  EXPECT_EQ(ids_of("u"), "z");
  EXPECT_EQ(history_->held(), (Amount{.count = 3, .bytes = 1200}));
  EXPECT_EQ(history_->evicted(), 1U);
}

TEST_F(History, OfAllIsBoundedAndTheLargestHolderLosesFirst) {
  make_sandbox("s", "large");
  make_sandbox("t", "small");
  add("a", "s", "large", 400);
  add("b", "s", "large", 500);
  add("c", "t", "small", 300);
  add("d", "t", "small", 350);
  EXPECT_EQ(ids_of("s"), "b");
  EXPECT_EQ(ids_of("t"), "cd");
}

TEST_F(History, OfASandboxThatHasGoneIsGivenBack) {
  make_sandbox("s", "one");
  make_sandbox("t", "one");
  add("a", "s", "one", 900);
  ASSERT_TRUE(store_->sandboxes().erase("s"));
  gone_.insert("s");
  add("b", "t", "one", 400);
  add("c", "t", "one", 400);
  EXPECT_EQ(ids_of("t"), "bc");
  EXPECT_EQ(history_->evicted(), 0U);
  EXPECT_EQ(history_->held(), (Amount{.count = 2, .bytes = 800}));
}

TEST_F(History, OfASandboxIsBoundedInNumber) {
  limits_.sandbox_count = 2;
  make_sandbox("s", "one");
  for (const auto* id : {"a", "b", "c"}) add(id, "s", "one", 10);
  EXPECT_EQ(ids_of("s"), "bc");
  EXPECT_EQ(history_->held(), (Amount{.count = 2, .bytes = 20}));
}

TEST_F(History, IsCountedAgainAfterARestart) {
  make_sandbox("s", "one");
  add("a", "s", "one", 300);
  load();
  EXPECT_EQ(history_->held(), (Amount{.count = 1, .bytes = 300}));
}

}  // namespace
}  // namespace cove::jobs
