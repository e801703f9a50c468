#include "egress/control.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <cstring>

#include "base/io.hpp"
#include "egress/test_sandbox.hpp"
#include "sys/record.hpp"

namespace cove::egress {
namespace {

namespace asio = boost::asio;
using testing::HasSubstr;
using wire::EgressVerb;
using wire::EgressWord;

struct ControlTest : SandboxTest {
  ControlTest() {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) throw std::runtime_error("socketpair");
    front = UniqueFd(ends[0]);
    control = std::make_unique<Control>(common, UniqueFd(ends[1]));
    asio::co_spawn(io, control->serve(), [this](std::exception_ptr) { ended = true; });
  }

  // It ends with its front, while everything it uses is there.
  ~ControlTest() override {
    front.reset();
    for (int i = 0; i < 1000 && !ended; ++i) pause(1);
  }

  static UniqueFd memory(std::string_view text) {
    UniqueFd fd(::memfd_create("policy", MFD_CLOEXEC));
    if (!write_all(fd.get(), text)) throw std::runtime_error("memfd");
    return fd;
  }

  void order(EgressVerb verb, std::vector<UniqueFd> fds, wire::EgressScope scope = {}) {
    const wire::EgressRequest request{.verb = verb, .serial = ++serial, .id = id, .scope = scope};
    std::vector<int> numbers;
    for (const auto& fd : fds) numbers.push_back(fd.get());
    ASSERT_GT(sys::send_record(front.get(), std::as_bytes(std::span(&request, 1)), numbers), 0);
  }
  void open_sandbox(std::string_view policy) {
    order(EgressVerb::open, sys::descriptors(memory(policy), listener(relay), listener(proxy), UniqueFd(dns.release()),
                                             listener(dns_streams)));
  }

  struct Answer {
    wire::EgressReply reply;
    std::string text;
  };
  // The next that is no record, or nothing.
  std::optional<Answer> answer() {
    for (int i = 0; i < 50; ++i) {
      pause(5);
      while (auto one = receive()) {
        if (one->reply.word != EgressWord::decided) return one;
        told_records.push_back(one->text);
      }
    }
    return std::nullopt;
  }
  std::optional<Answer> receive() {
    std::string buffer(sizeof(wire::EgressReply) + wire::kMaxEgressText, '\0');
    std::vector<UniqueFd> fds;
    const auto size = sys::receive_record(front.get(), std::as_writable_bytes(std::span(buffer)), fds);
    if (size < static_cast<ssize_t>(sizeof(wire::EgressReply))) return std::nullopt;
    Answer one;
    std::memcpy(&one.reply, buffer.data(), sizeof one.reply);
    one.text = buffer.substr(sizeof one.reply, static_cast<std::size_t>(size) - sizeof one.reply);
    if (!fds.empty()) one.text = read_all(fds[0].get()).value();
    EXPECT_EQ(one.text.size(), one.reply.text_size);
    return one;
  }

  SandboxId id = SandboxId::random();
  std::uint32_t serial = 0;
  UniqueFd front;
  std::unique_ptr<Control> control;
  bool ended = false;
  std::vector<std::string> told_records;
};

TEST_F(ControlTest, OpensServesChangesInspectsAndCloses) {
  const auto port = serve(echo);
  open_sandbox(fmt::format(R"({{"allow":["ok.test","127.0.0.1:{}"]}})", port));
  auto done = answer().value();
  EXPECT_EQ(done.reply.word, EgressWord::done) << done.text;
  EXPECT_EQ(done.reply.serial, 1U);
  EXPECT_EQ(done.reply.id, id);

  udp::socket client(io, {asio::ip::address_v4::loopback(), 0});
  client.send_to(asio::buffer(encode_query(9, "ok.test", DnsType::a)), dns_where);
  pause();
  names.names["ok.test"] = {"127.0.0.1"};
  auto socket = dial("198.18.0.1", port);
  EXPECT_EQ(talk(socket, "hello"), "hello");

  order(EgressVerb::inspect, {});
  const auto inspected = answer().value();
  EXPECT_EQ(inspected.reply.word, EgressWord::inspected);
  const auto counters = boost::json::parse(inspected.text).as_object();
  EXPECT_EQ(counters.at("connections").at("total"), 1);
  EXPECT_EQ(counters.at("dns").at("queries"), 1);
  EXPECT_EQ(counters.at("policy").at("mode"), "allow");
  EXPECT_THAT(told_records, testing::Contains(HasSubstr("\"closed\"")));

  order(EgressVerb::change, sys::descriptors(memory(R"({"allow":["*"]})")));
  const auto failed = answer().value();
  EXPECT_EQ(failed.reply.word, EgressWord::failed);
  EXPECT_THAT(failed.text, HasSubstr("network.allow[0]"));
  auto again = dial("198.18.0.1", port);
  EXPECT_EQ(talk(again, "old policy"), "old policy");

  order(EgressVerb::change, sys::descriptors(memory(R"("none")")), wire::EgressScope::all_connections);
  EXPECT_EQ(answer().value().reply.word, EgressWord::done);
  auto refused = dial("198.18.0.1", port);
  EXPECT_THAT(talk(refused, "x"), HasSubstr("error"));

  order(EgressVerb::close, {});
  EXPECT_EQ(answer().value().reply.word, EgressWord::done);
  order(EgressVerb::inspect, {});
  EXPECT_EQ(answer().value().reply.word, EgressWord::failed);
}

TEST_F(ControlTest, WhatIsNotAnOpenRequestIsRefused) {
  order(EgressVerb::open, sys::descriptors(memory("{}")));
  EXPECT_EQ(answer().value().reply.word, EgressWord::failed);
  order(EgressVerb::open, sys::descriptors(memory("{}"), memory("a"), memory("b"), memory("c"), memory("d")));
  EXPECT_EQ(answer().value().reply.word, EgressWord::failed);
  order(EgressVerb::open, sys::descriptors(memory("nonsense"), listener(relay), listener(relay),
                                           UniqueFd(dns.release()), listener(relay)));
  EXPECT_EQ(answer().value().reply.word, EgressWord::failed);
  order(static_cast<EgressVerb>(77), {});
  EXPECT_EQ(answer().value().reply.word, EgressWord::failed);
  order(EgressVerb::change, sys::descriptors(memory("{}")));
  EXPECT_THAT(answer().value().text, HasSubstr("no network"));
}

TEST_F(ControlTest, EndsWithTheFront) {
  open_sandbox(R"({"allow":["ok.test"]})");
  ASSERT_TRUE(answer());
  front.reset();
  pause(50);
  EXPECT_TRUE(ended);
  tcp::socket socket(io);
  boost::system::error_code refused;
  socket.connect(relay, refused);
  EXPECT_TRUE(refused);
}

TEST_F(ControlTest, AFrontThatDoesNotReadLosesRecordsAndNothingElse) {
  open_sandbox(R"({"allow":["ok.test"]})");
  ASSERT_TRUE(answer());
  udp::socket client(io, {asio::ip::address_v4::loopback(), 0});
  for (int i = 0; i < 900; ++i) {
    client.send_to(asio::buffer(encode_query(9, fmt::format("n{}.{}.evil.test", i, std::string(60, 'x')), DnsType::a)),
                   dns_where);
    if (i % 50 == 0) pause(1);
  }
  pause(50);
  order(EgressVerb::inspect, {});
  const auto inspected = answer().value();
  EXPECT_EQ(inspected.reply.word, EgressWord::inspected);
  while (receive()) pause(1);
}

}  // namespace
}  // namespace cove::egress
