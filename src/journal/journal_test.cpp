#include "journal/journal.hpp"

#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <filesystem>

namespace cove::journal {
namespace {

namespace json = boost::json;

class JournalTest : public testing::Test {
 protected:
  JournalTest() : directory_(std::filesystem::temp_directory_path() / ("cove-journal-" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(directory_);
    open();
  }
  ~JournalTest() override {
    journal_.reset();
    store_.reset();
    std::filesystem::remove_all(directory_);
  }

  // As a server that starts.
  void open() {
    journal_.reset();
    store_.reset();
    auto opened = store::Store::open(directory_, store::OnBroken::refuse);
    ASSERT_TRUE(opened) << opened.error().message;
    store_ = std::move(*opened);
    journal_ = std::make_unique<Journal>(loop_.get_executor(), *store_, [](std::string_view) {});
  }
  void turn() {
    loop_.restart();
    loop_.poll();
  }
  std::vector<store::ActivityRow> rows() {
    auto read = journal_->read({.tenant = "acme"});
    EXPECT_TRUE(read);
    return read ? *read : std::vector<store::ActivityRow>();
  }

  const Subject kBox{.sandbox = "id1", .name = "demo", .tenant = "acme"};
  const Actor kMe{.door = "sandboxes", .client = "curl", .key_id = "k"};
  std::filesystem::path directory_;
  boost::asio::io_context loop_{1};
  std::unique_ptr<store::Store> store_;
  std::unique_ptr<Journal> journal_;
};

TEST_F(JournalTest, SaysWhoDidWhatAndHowItEnded) {
  const auto entry = journal_->begin(kBox, kMe, {.kind = kind::kCommand, .summary = "pytest -q\nnow"});
  entry->add_output("stdout", "ab");
  entry->add_output("stdout", "c");
  ASSERT_EQ(rows().size(), 1U);
  EXPECT_FALSE(rows()[0].duration_ms) << "it goes on";
  entry->end({.word = "exit 1", .good = false, .result = {{"exitCode", 1}}});
  const auto row = rows()[0];
  EXPECT_EQ(row.summary, "pytest -q now");
  EXPECT_EQ(row.door + row.client + row.key_id, "sandboxescurlk");
  EXPECT_EQ(row.outcome, "exit 1");
  EXPECT_FALSE(row.good);
  EXPECT_TRUE(row.duration_ms);
  EXPECT_EQ(json::parse(row.result_json).at("stdout").at("bytes").as_int64(), 3);
}

TEST_F(JournalTest, WritesAMomentLaterWithoutBeingRead) {
  journal_->record(kBox, kMe, {.kind = kind::kFile, .summary = "write a"}, {.word = "ok"});
  EXPECT_EQ(store_->activity().kept()->count, 0U);
  loop_.restart();
  loop_.run();
  EXPECT_EQ(store_->activity().kept()->count, 1U);
}

TEST_F(JournalTest, EqualOutputHasEqualFingerprintsHoweverItCame) {
  OutputDigest whole;
  whole.add("hello world");
  OutputDigest pieces;
  for (const char c : std::string_view("hello world")) pieces.add({&c, 1});
  EXPECT_EQ(whole.fingerprint(), pieces.fingerprint());
  pieces.add("!");
  EXPECT_NE(whole.fingerprint(), pieces.fingerprint());
}

TEST_F(JournalTest, AnActThatIsGivenUpSaysSo) {
  journal_->begin(kBox, kMe, {.kind = kind::kCommand, .summary = "x"}).reset();
  EXPECT_EQ(rows()[0].outcome, "given up");
}

TEST_F(JournalTest, WhatGoesOnIsResumedByTheNextServerAndTheRestIsLost) {
  const auto lives = journal_->begin(kBox, kMe, {.kind = kind::kCommand, .summary = "lives"});
  lives->set_reference("process 1");
  const auto dies = journal_->begin(kBox, kMe, {.kind = kind::kCell, .summary = "dies", .reference = "cell k1/1"});
  journal_->close();
  open();
  const auto resumed = journal_->resume("id1", "process 1");
  ASSERT_TRUE(resumed);
  EXPECT_FALSE(journal_->resume("id1", "process 1")) << "once";
  EXPECT_FALSE(journal_->resume("id2", "cell k1/1")) << "of another sandbox";
  journal_->end_unfinished();
  resumed->end({.word = "exit 0"});
  EXPECT_EQ(rows()[0].outcome, "exit 0");
  EXPECT_EQ(rows()[1].outcome, "lost with the server");
}

TEST_F(JournalTest, NumbersGoOnAfterARestart) {
  journal_->record(kBox, kMe, {.kind = kind::kFile, .summary = "a"}, {.word = "ok"});
  journal_->close();
  open();
  journal_->record(kBox, kMe, {.kind = kind::kFile, .summary = "b"}, {.word = "ok"});
  EXPECT_EQ(rows()[1].seq, rows()[0].seq + 1);
}

TEST_F(JournalTest, WhatItTakesToDoItAgainIsSealedAndReadBack) {
  journal_->record(kBox, kMe, {.kind = kind::kCommand, .summary = "a", .repeat = {{"secret", "hunter2"}}},
                   {.word = "ok"});
  const auto seq = rows()[0].seq;
  const auto stored = store_->activity().repeat_of(seq);
  ASSERT_TRUE(stored && *stored);
  EXPECT_EQ((*stored)->find("hunter2"), std::string::npos);
  const auto repeat = journal_->repeat_of(seq);
  ASSERT_TRUE(repeat);
  EXPECT_EQ(repeat->at("secret").as_string(), "hunter2");
}

TEST_F(JournalTest, ContentIsKeptUpToTheLimitAndNotInPart) {
  journal_->set({.enabled = true, .repeat_bytes = 10});
  for (const auto* content : {"0123456789", "0123456789a"}) {
    const auto entry =
        journal_->begin(kBox, kMe, {.kind = kind::kFile, .summary = "w", .repeat = {{"path", "a"}}, .brief = true});
    entry->add_content(content);
    turn();
    entry->end({.word = "ok"});
  }
  const auto all = rows();
  EXPECT_EQ(journal_->repeat_of(all[0].seq)->at("content").as_string(), "MDEyMzQ1Njc4OQ==");
  EXPECT_TRUE(journal_->repeat_of(all[1].seq)->empty());
}

TEST_F(JournalTest, ATenantLosesItsOldestPastItsBound) {
  store_->activity().set_bounds({.tenant = {.count = 3, .bytes = UINT64_MAX}});
  for (int n = 0; n < 5; ++n) journal_->record(kBox, kMe, {.kind = kind::kFile, .summary = "w"}, {.word = "ok"});
  EXPECT_EQ(rows().size(), 3U);
  EXPECT_EQ(journal_->lost_through("acme").value_or(0), rows()[0].seq - 1);
  EXPECT_EQ(journal_->lost_through("other").value_or(-1), 0);
}

TEST_F(JournalTest, SwitchedOffItWritesNothing) {
  journal_->set({.enabled = false});
  EXPECT_FALSE(journal_->begin(kBox, kMe, {.kind = kind::kFile, .summary = "w"}));
  EXPECT_TRUE(rows().empty());
}

TEST_F(JournalTest, TheLastSandboxOfANameIsFoundAlsoWhenItHasEnded) {
  journal_->record(kBox, kMe, {.kind = kind::kLifecycle, .summary = "created"}, {.word = "ok"});
  auto second = kBox;
  second.sandbox = "id2";
  journal_->record(second, kMe, {.kind = kind::kLifecycle, .summary = "created"}, {.word = "ok"});
  EXPECT_EQ(journal_->last_sandbox("acme", "demo").value_or(""), "id2");
  EXPECT_FALSE(journal_->last_sandbox("other", "demo"));
}

}  // namespace
}  // namespace cove::journal
