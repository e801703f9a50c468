#include <gmock/gmock.h>

#include "store/store.hpp"
#include "store/test_directory.hpp"

namespace cove::store {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

SandboxRow full_row() {
  return {.tenant = "acme",
          .name = "dёmo \"1\"",
          .id = "abcdefghijklmnopqrstuvwxyz",
          .pod_name = "sbx-1",
          .state = "running",
          .created_unix_ms = 1,
          .ttl_ms = 2,
          .expires_boot_ms = 3,
          .boot_id = "boot",
          .init_pid = 4,
          .cgroup = "/cove/x",
          .uid = 5,
          .memory_bytes = 6ULL << 40,
          .disk_bytes = 7,
          .inodes = 8,
          .pids = 9,
          .cpu_millis = 10,
          .template_name = "host",
          .env_json = R"({"A":"b"})",
          .labels_json = R"({"k":"v"})",
          .metadata_json = R"({"m":1})",
          .notes_json = R"(["n"])",
          .next_process = 11,
          .renewal = "none",
          .directory = "/app"};
}

SandboxRow named(std::string tenant, std::string name) {
  auto row = full_row();
  row.id = tenant + "-" + name;
  row.tenant = std::move(tenant);
  row.name = std::move(name);
  return row;
}

class Tables : public testing::Test {
 protected:
  TestDirectory dir_;
  std::unique_ptr<Store> store_ = dir_.open();
};

using Sandboxes = Tables;

TEST_F(Sandboxes, ComeBackAsTheyWereWritten) {
  ASSERT_TRUE(store_->sandboxes().insert(full_row()));
  EXPECT_THAT(*store_->sandboxes().all(), ElementsAre(full_row()));
  auto row = full_row();
  row.state = "paused";
  row.cgroup = "";
  row.next_process = 12;
  ASSERT_TRUE(store_->sandboxes().update(row));
  EXPECT_THAT(*store_->sandboxes().all(), ElementsAre(row));
}

TEST_F(Sandboxes, HaveANameThatIsTheirTenantsAlone) {
  ASSERT_TRUE(store_->sandboxes().insert(named("a", "demo")));
  EXPECT_TRUE(store_->sandboxes().insert(named("b", "demo")));
  auto again = named("a", "demo");
  again.id = "another";
  const auto done = store_->sandboxes().insert(again);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, Errc::exists);
  EXPECT_EQ(done.error().message, "a sandbox 'demo' already exists");
}

TEST_F(Sandboxes, ChangeStateAndExpiry) {
  ASSERT_TRUE(store_->sandboxes().insert(full_row()));
  ASSERT_TRUE(store_->sandboxes().set_state(full_row().id, "deleting"));
  ASSERT_TRUE(store_->sandboxes().set_expiry(full_row().id, 100, 200));
  const auto row = store_->sandboxes().all()->front();
  EXPECT_EQ(row.state, "deleting");
  EXPECT_EQ(row.ttl_ms, 100);
  EXPECT_EQ(row.expires_boot_ms, 200);
}

TEST_F(Sandboxes, ChangeLimits) {
  auto row = full_row();
  ASSERT_TRUE(store_->sandboxes().insert(row));
  row.memory_bytes = 1;
  row.disk_bytes = 2;
  row.pids = 3;
  row.cpu_millis = 4;
  ASSERT_TRUE(store_->sandboxes().set_limits(row));
  EXPECT_THAT(*store_->sandboxes().all(), ElementsAre(row));
}

TEST_F(Sandboxes, ThatAreNotThereAreNotFound) {
  EXPECT_EQ(store_->sandboxes().update(full_row()).error().code, Errc::not_found);
  EXPECT_EQ(store_->sandboxes().set_state("x", "running").error().code, Errc::not_found);
  EXPECT_EQ(store_->sandboxes().set_expiry("x", 1, 1).error().code, Errc::not_found);
  EXPECT_TRUE(store_->sandboxes().erase("x"));
}

using Processes = Tables;

TEST_F(Processes, AreStartedFinishedAndForgotten) {
  ASSERT_TRUE(store_->sandboxes().insert(full_row()));
  const auto id = full_row().id;
  ProcessRow one{.sandbox = id, .number = 1, .kind = "exec", .command_json = R"(["ls"])", .started_unix_ms = 5};
  one.owner = "k7";
  one.language = "javascript";
  one.birth = "warm";
  ProcessRow two{
      .sandbox = id, .number = 2, .kind = "background", .terminal = true, .started_unix_ms = 6, .deadline_boot_ms = 7};
  ASSERT_TRUE(store_->processes().insert(two));
  ASSERT_TRUE(store_->processes().insert(one));
  EXPECT_THAT(*store_->processes().of(id), ElementsAre(one, two));
  EXPECT_EQ(store_->processes().insert(one).error().code, Errc::exists);

  one.end = ProcessEnd{.ended_unix_ms = 9, .reason = "exited", .exit_code = 0, .duration_ms = 4, .last_seq = 3};
  two.end = ProcessEnd{.ended_unix_ms = 9, .reason = "signalled", .signal = 9, .stdout_bytes = 1ULL << 40};
  ASSERT_TRUE(store_->processes().finish(id, 1, *one.end));
  ASSERT_TRUE(store_->processes().finish(id, 2, *two.end));
  EXPECT_THAT(*store_->processes().of(id), ElementsAre(one, two));
  EXPECT_EQ(store_->processes().finish(id, 3, *two.end).error().code, Errc::not_found);

  ASSERT_TRUE(store_->processes().erase(id, 1));
  EXPECT_THAT(*store_->processes().of(id), ElementsAre(two));
}

TEST_F(Processes, GoWithTheirSandboxAndNeedOne) {
  ASSERT_TRUE(store_->sandboxes().insert(full_row()));
  const ProcessRow row{.sandbox = full_row().id, .number = 1, .kind = "exec"};
  ASSERT_TRUE(store_->processes().insert(row));
  ASSERT_TRUE(store_->sandboxes().erase(full_row().id));
  EXPECT_THAT(*store_->processes().of(full_row().id), IsEmpty());
  EXPECT_EQ(store_->processes().insert(row).error().code, Errc::not_found);
}

using Events = Tables;

TEST_F(Events, AreNumberedForEver) {
  auto& events = store_->events();
  events.set_bounds({.tenant = {.count = 2, .bytes = 0}});
  EXPECT_EQ(*events.last_seq(), 0);
  for (std::int64_t i = 1; i <= 5; ++i)
    EXPECT_EQ(*events.append({.at_unix_ms = i, .tenant = "t", .type = "created", .sandbox = "s"}), i);
  EXPECT_EQ(*events.last_seq(), 5);
  EXPECT_EQ(*events.lost_through("t"), 3);
  store_ = nullptr;
  store_ = dir_.open();
  EXPECT_EQ(*store_->events().lost_through("t"), 3);
  EXPECT_EQ(*store_->events().append({.tenant = "t", .type = "created"}), 6);
}

TEST_F(Events, AreTheTenantsOwnFromANumberOn) {
  auto& events = store_->events();
  const EventRow mine{
      .at_unix_ms = 7, .tenant = "t", .type = "created", .sandbox = "s", .pod_name = "p", .data_json = "{\"a\":1}"};
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(events.append(mine));
    ASSERT_TRUE(events.append({.tenant = "other", .type = "created"}));
  }
  auto third = mine;
  third.seq = 3;
  auto fifth = mine;
  fifth.seq = 5;
  EXPECT_THAT(*events.after("t", 1, 10), ElementsAre(third, fifth));
  EXPECT_THAT(*events.after("t", 1, 1), ElementsAre(third));
  EXPECT_THAT(*events.after("nobody", 0, 10), IsEmpty());
}

std::size_t number_of(EventTable& events, std::string_view tenant) {
  return events.after(tenant, 0, 1000)->size();
}

TEST_F(Events, OfATenantPushOutNobodysButItsOwn) {
  auto& events = store_->events();
  events.set_bounds({.tenant = {.count = 3, .bytes = 0}, .all = {.count = 100, .bytes = 0}});
  ASSERT_TRUE(events.append({.tenant = "quiet", .type = "created"}));
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(events.append({.tenant = "busy", .type = "created"}));
  EXPECT_EQ(number_of(events, "quiet"), 1U);
  EXPECT_EQ(number_of(events, "busy"), 3U);
  EXPECT_EQ(*events.lost_through("quiet"), 0);
  EXPECT_EQ(*events.lost_through("busy"), 48);
  EXPECT_EQ(*events.last_of("busy"), 51);
  EXPECT_EQ(*events.last_of("quiet"), 1);
  EXPECT_EQ(*events.kept(), 4U);
  EXPECT_EQ(events.evicted(), 47U);
}

TEST_F(Events, OfAllAreBoundedAndTheLargestHolderLosesFirst) {
  auto& events = store_->events();
  events.set_bounds({.tenant = {.count = 100, .bytes = 0}, .all = {.count = 10, .bytes = 0}});
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(events.append({.tenant = "large", .type = "created"}));
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(events.append({.tenant = "small", .type = "created"}));
  EXPECT_EQ(number_of(events, "large"), 6U);
  EXPECT_EQ(number_of(events, "small"), 4U);
  EXPECT_EQ(*events.lost_through("large"), 4);
  EXPECT_EQ(*events.lost_through("small"), 0);
}

TEST_F(Events, AreCountedAgainAfterARestart) {
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(store_->events().append({.tenant = "t", .type = "created"}));
  store_ = nullptr;
  store_ = dir_.open();
  EXPECT_EQ(*store_->events().last_of("t"), 5);
  EXPECT_EQ(*store_->events().kept(), 5U);
  store_->events().set_bounds({.tenant = {.count = 3, .bytes = 0}});
  ASSERT_TRUE(store_->events().append({.tenant = "t", .type = "created"}));
  EXPECT_EQ(number_of(store_->events(), "t"), 3U);
}

using Idempotency = Tables;

TEST_F(Idempotency, AnswersAreFoundAgainForADay) {
  auto& table = store_->idempotency();
  const std::string body("{\"id\":\"\0x\"}", 11);
  const IdempotencyRow row{
      .tenant = "t", .key = "k", .request_hash = "h", .status = 201, .body = body, .created_unix_ms = 1000};
  EXPECT_EQ(*table.find("t", "k"), std::nullopt);
  ASSERT_TRUE(table.insert(row));
  EXPECT_EQ(*table.find("t", "k"), row);
  EXPECT_EQ(*table.find("u", "k"), std::nullopt);
  EXPECT_EQ(table.insert(row).error().code, Errc::exists);
  ASSERT_TRUE(table.prune(1000 + IdempotencyTable::kKeptMs));
  EXPECT_EQ(*table.find("t", "k"), row);
  ASSERT_TRUE(table.prune(1001 + IdempotencyTable::kKeptMs));
  EXPECT_EQ(*table.find("t", "k"), std::nullopt);
  EXPECT_EQ(*table.kept(), Amount{});
}

IdempotencyRow answer(std::string tenant, std::string key, std::int64_t at, std::size_t size = 10) {
  return {.tenant = std::move(tenant),
          .key = std::move(key),
          .request_hash = "h",
          .status = 201,
          .body = std::string(size, 'x'),
          .created_unix_ms = at};
}

TEST_F(Idempotency, ATenantsOldestAnswersMakeWayForItsNewest) {
  auto& table = store_->idempotency();
  table.set_bounds({.tenant = {.count = 3, .bytes = 1000}});
  ASSERT_TRUE(table.insert(answer("other", "a", 0)));
  for (int i = 1; i <= 5; ++i) ASSERT_TRUE(table.insert(answer("t", std::to_string(i), i)));
  EXPECT_EQ(*table.find("t", "2"), std::nullopt);
  EXPECT_EQ(*table.find("t", "3"), answer("t", "3", 3));
  EXPECT_NE(*table.find("other", "a"), std::nullopt);
  EXPECT_EQ(*table.kept(), (Amount{.count = 4, .bytes = 4 * 12}));
  EXPECT_EQ(table.evicted(), 2U);
  ASSERT_TRUE(table.insert(answer("t", "large", 6, 960)));
  EXPECT_NE(*table.find("t", "4"), std::nullopt);
  ASSERT_TRUE(table.insert(answer("t", "small", 7, 20)));
  EXPECT_EQ(*table.find("t", "5"), std::nullopt) << "for its bytes";
  EXPECT_NE(*table.find("t", "large"), std::nullopt);
  EXPECT_EQ(*table.kept(), (Amount{.count = 3, .bytes = 12 + 966 + 26}));
}

TEST_F(Idempotency, AnswersOfAllAreBoundedAndTheLargestHolderLosesFirst) {
  auto& table = store_->idempotency();
  table.set_bounds({.all = {.count = 4, .bytes = 1000}});
  for (int i = 1; i <= 4; ++i) ASSERT_TRUE(table.insert(answer("large", std::to_string(i), i)));
  ASSERT_TRUE(table.insert(answer("small", "a", 9)));
  EXPECT_EQ(*table.find("large", "1"), std::nullopt);
  EXPECT_NE(*table.find("small", "a"), std::nullopt);
}

TEST_F(Idempotency, AnswersAreCountedAgainAfterARestart) {
  ASSERT_TRUE(store_->idempotency().insert(answer("t", "a", 1)));
  store_ = nullptr;
  store_ = dir_.open();
  EXPECT_EQ(*store_->idempotency().kept(), (Amount{.count = 1, .bytes = 12}));
}

using Files = Tables;

TEST_F(Files, AreFoundByTheirTenantAndForgotten) {
  auto& files = store_->files();
  FileRow row{
      .id = "a", .tenant = "t", .name = "d/ü \"1\"", .size_bytes = 5ULL << 40, .uploaded_unix_ms = 7, .sha256 = "00"};
  ASSERT_TRUE(files.insert(row));
  EXPECT_EQ(files.insert(row).error().code, Errc::exists);
  row.seq = 1;
  EXPECT_EQ(*files.find("t", "a"), row);
  EXPECT_EQ(*files.find("other", "a"), std::nullopt);
  EXPECT_EQ(*files.find("t", "b"), std::nullopt);
  ASSERT_TRUE(files.erase("a"));
  ASSERT_TRUE(files.erase("a"));
  EXPECT_EQ(*files.find("t", "a"), std::nullopt);
}

TEST_F(Files, AreListedInPagesByTenantAndByAge) {
  auto& files = store_->files();
  for (std::int64_t i = 1; i <= 5; ++i)
    ASSERT_TRUE(
        files.insert({.id = std::to_string(i), .tenant = i % 2 == 1 ? "odd" : "even", .uploaded_unix_ms = 10 * i}));
  const auto ids = [](const Result<std::vector<FileRow>>& rows) {
    std::string out;
    for (const auto& row : *rows) out += row.id;
    return out;
  };
  EXPECT_EQ(ids(files.of("odd", 0, 0, 10)), "135");
  EXPECT_EQ(ids(files.of("odd", 10, 0, 10)), "35");
  EXPECT_EQ(ids(files.of("odd", 0, 1, 1)), "3");
  EXPECT_EQ(ids(files.all(0, 4)), "1234");
  EXPECT_EQ(ids(files.all(4, 4)), "5");
  EXPECT_EQ(ids(files.older(30, 0, 10)), "123");
  EXPECT_EQ(ids(files.older(30, 1, 1)), "2");
}

using Executions = Tables;

ExecutionRow execution(std::string id, std::string sandbox) {
  return {.id = std::move(id),
          .sandbox = std::move(sandbox),
          .sandbox_name = "demo",
          .tenant = "acme",
          .language = "python",
          .code = "print(1)",
          .created_unix_ms = 1,
          .callback_url = "https://example.org/",
          .callback_secret = "s"};
}

std::vector<std::string> ids(const std::vector<ExecutionRow>& rows) {
  std::vector<std::string> out;
  for (const auto& row : rows) out.push_back(row.id);
  return out;
}

TEST_F(Executions, ComeBackNewestFirstAndGoWithTheirSandbox) {
  EXPECT_EQ(store_->executions().insert(execution("x0", "none")).error().code, Errc::not_found);
  ASSERT_TRUE(store_->sandboxes().insert(full_row()));
  const auto box = full_row().id;
  for (const auto* id : {"x1", "x2", "x3"}) ASSERT_TRUE(store_->executions().insert(execution(id, box)));
  ASSERT_TRUE(store_->executions().begin("x2", 5, 6));
  auto row = store_->executions().find(box, "x2").value();
  EXPECT_EQ(row.status, "running");
  EXPECT_EQ(row.started_unix_ms, 5);
  EXPECT_EQ(row.deadline_boot_ms, 6);
  row.status = "completed";
  row.ended_unix_ms = 7;
  row.result_json = "{}";
  ASSERT_TRUE(store_->executions().finish(row));
  EXPECT_EQ(store_->executions().find(box, "x2").value(), row);
  EXPECT_THAT(ids(*store_->executions().of(box, 0, "", 10)), ElementsAre("x3", "x2", "x1"));
  EXPECT_THAT(ids(*store_->executions().of(box, row.seq, "", 10)), ElementsAre("x1"));
  EXPECT_THAT(ids(*store_->executions().of(box, 0, "completed", 10)), ElementsAre("x2"));
  EXPECT_THAT(ids(*store_->executions().unfinished()), ElementsAre("x1", "x3"));
  EXPECT_EQ(store_->executions().find("other", "x2").error().code, Errc::not_found);
  ASSERT_TRUE(store_->sandboxes().erase(box));
  EXPECT_THAT(*store_->executions().unfinished(), IsEmpty());
}

TEST_F(Executions, AreForgottenOldestFirstByNumberAndBySize) {
  ASSERT_TRUE(store_->sandboxes().insert(full_row()));
  const auto box = full_row().id;
  for (const auto* id : {"x1", "x2", "x3", "x4"}) {
    auto row = execution(id, box);
    ASSERT_TRUE(store_->executions().insert(row));
    if (row.id == "x1") continue;  // has not ended, and stays
    row.result_json = std::string(100, ' ');
    ASSERT_TRUE(store_->executions().finish(row));
  }
  ASSERT_TRUE(store_->executions().prune(box, 2, 1000));
  EXPECT_THAT(ids(*store_->executions().of(box, 0, "", 10)), ElementsAre("x4", "x3", "x1"));
  ASSERT_TRUE(store_->executions().prune(box, 2, 150));
  EXPECT_THAT(ids(*store_->executions().of(box, 0, "", 10)), ElementsAre("x4", "x1"));
  ASSERT_TRUE(store_->executions().prune(box, 2, 10));
  EXPECT_THAT(ids(*store_->executions().of(box, 0, "", 10)), ElementsAre("x4", "x1"));
}

TEST_F(Tables, CallbacksArePendingUntilTheyAreOverAndOutliveTheirSandbox) {
  CallbackRow row{.id = "x1", .tenant = "acme", .url = "u", .secret = "s", .next_unix_ms = 10, .size_bytes = 4};
  ASSERT_TRUE(store_->callbacks().insert(row, "body"));
  EXPECT_EQ(store_->callbacks().insert(row, "again").error().code, Errc::exists);
  EXPECT_EQ(store_->callbacks().find("x1").value(), row);
  EXPECT_EQ(store_->callbacks().body("x1").value(), "body");
  const CallbackRow looked_at{.id = "x1", .tenant = "acme", .next_unix_ms = 10, .size_bytes = 4};
  EXPECT_THAT(*store_->callbacks().pending(), ElementsAre(looked_at));
  EXPECT_EQ(store_->callbacks().sweep("").value(), "x1");
  EXPECT_EQ(store_->callbacks().sweep("x1").value(), std::nullopt);
  row.attempts = 1;
  row.next_unix_ms = 20;
  row.last_error = "no";
  ASSERT_TRUE(store_->callbacks().update(row));
  EXPECT_EQ(store_->callbacks().find("x1").value(), row);
  EXPECT_EQ(store_->callbacks().body("x1").value(), "body");
  row.state = "delivered";
  row.size_bytes = 0;
  ASSERT_TRUE(store_->callbacks().update(row));
  EXPECT_EQ(store_->callbacks().find("x1").value(), row);
  EXPECT_EQ(store_->callbacks().body("x1").value(), std::nullopt) << "what was told need not be kept";
  EXPECT_THAT(*store_->callbacks().pending(), IsEmpty());
  EXPECT_EQ(store_->callbacks().sweep("").value(), "x1");
  EXPECT_EQ(store_->callbacks().find("x1").value(), std::nullopt);
}

TEST_F(Tables, CallbacksThatAreOverStayAsLongAsTheirExecution) {
  ASSERT_TRUE(store_->sandboxes().insert(full_row()));
  ASSERT_TRUE(store_->executions().insert(execution("x1", full_row().id)));
  CallbackRow row{.id = "x1", .tenant = "acme"};
  ASSERT_TRUE(store_->callbacks().insert(row, ""));
  row.state = "failed";
  ASSERT_TRUE(store_->callbacks().update(row));
  EXPECT_EQ(store_->callbacks().sweep("").value(), "x1");
  EXPECT_NE(store_->callbacks().find("x1").value(), std::nullopt);
}

TEST_F(Tables, TemplatesComeBackAsTheyWereWrittenAndReplaceEachOtherByName) {
  const TemplateRow first{.name = "science",
                          .number = 0xfffffff1U,
                          .status = "ready",
                          .reason = "none",
                          .created_unix_ms = 1,
                          .built_unix_ms = 2,
                          .base = "lean",
                          .packages_json = R"(["python3"])",
                          .preload_json = R"(["numpy"])",
                          .defaults = {.memory_bytes = 6ULL << 40,
                                       .disk_bytes = 7,
                                       .pids = 8,
                                       .cpu_millis = 9,
                                       .timeout_ms = 10,
                                       .env_json = R"({"A":"b"})"},
                          .size_bytes = 11,
                          .languages_json = R"(["python"])",
                          .kernels = true,
                          .installed_json = R"({"python3":"3.11"})",
                          .log = "I: done"};
  TemplateRow second{.name = "bare", .number = 3, .created_unix_ms = 4};
  ASSERT_TRUE(store_->templates().put(first));
  ASSERT_TRUE(store_->templates().put(second));
  EXPECT_THAT(*store_->templates().all(), ElementsAre(second, first));
  second.status = "failed";
  second.number = 5;
  ASSERT_TRUE(store_->templates().put(second));
  EXPECT_THAT(*store_->templates().all(), ElementsAre(second, first));
  ASSERT_TRUE(store_->templates().erase("science"));
  ASSERT_TRUE(store_->templates().erase("nothing"));
  EXPECT_THAT(*store_->templates().all(), ElementsAre(second));
}

using ToolServers = Tables;

TEST_F(ToolServers, AreReplacedByNameAndGoWithTheirSandbox) {
  ASSERT_TRUE(store_->sandboxes().insert(named("acme", "one")));
  auto& servers = store_->tool_servers();
  ASSERT_TRUE(servers.put({.sandbox = "acme-one", .name = "b", .sealed = "old"}));
  ASSERT_TRUE(servers.put({.sandbox = "acme-one", .name = "a", .sealed = "1"}));
  ASSERT_TRUE(servers.put({.sandbox = "acme-one", .name = "b", .sealed = "2"}));
  EXPECT_THAT(*servers.of("acme-one"), ElementsAre(ToolServerRow{.sandbox = "acme-one", .name = "a", .sealed = "1"},
                                                   ToolServerRow{.sandbox = "acme-one", .name = "b", .sealed = "2"}));
  ASSERT_TRUE(servers.erase("acme-one", "a"));
  EXPECT_EQ(servers.of("acme-one")->size(), 1U);
  EXPECT_FALSE(servers.put({.sandbox = "nobody", .name = "a", .sealed = "1"}));
  ASSERT_TRUE(store_->sandboxes().erase("acme-one"));
  EXPECT_THAT(*servers.of("acme-one"), IsEmpty());
}

TEST_F(Sandboxes, RememberThatTheyAreSupervised) {
  ASSERT_TRUE(store_->sandboxes().insert(full_row()));
  const auto id = full_row().id;
  EXPECT_FALSE(*store_->sandboxes().supervised(id));
  ASSERT_TRUE(store_->sandboxes().set_supervised(id, true));
  EXPECT_TRUE(*store_->sandboxes().supervised(id));
  EXPECT_EQ(store_->sandboxes().set_supervised("nobody", true).error().code, Errc::not_found);
}

}  // namespace
}  // namespace cove::store
