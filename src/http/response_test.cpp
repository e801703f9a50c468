#include "http/response.hpp"

#include <gtest/gtest.h>

#include "http/access_log.hpp"

namespace cove::http {
namespace {

TEST(ServerSentEvent, HasIdEventAndData) {
  EXPECT_EQ(sse_event(7, "stdout", R"({"a":1})"), "id: 7\nevent: stdout\ndata: {\"a\":1}\n\n");
  EXPECT_EQ(sse_event(std::nullopt, "", "x"), "data: x\n\n");
  EXPECT_EQ(sse_comment(), ":\n\n");
}

TEST(ServerSentEvent, CannotBeBrokenByItsData) {
  EXPECT_EQ(sse_event(std::nullopt, "a\nid: 9", "x\r\ny\rz\n"), "event: aid: 9\ndata: x\ndata: y\ndata: z\ndata: \n\n");
}

TEST(Response, AlwaysHasAReason) {
  for (const unsigned status : {200U, 204U, 400U, 401U, 404U, 413U, 414U, 417U, 426U, 429U, 431U, 503U, 599U, 299U}) {
    EXPECT_FALSE(reason_phrase(status).empty()) << status;
  }
  EXPECT_EQ(reason_phrase(404), "Not Found");
}

TEST(AccessLog, IsOneLineWhateverTheClientSent) {
  AccessRecord record;
  record.id = "req_1";
  record.peer = "127.0.0.1:1";
  record.tenant = "default";
  record.method = "GET";
  record.target = "/v1/a?b=c";
  record.status = 200;
  record.bytes_out = 12;
  record.duration = std::chrono::microseconds(1500);
  record.user_agent = "x\r\nstatus=500 \x1b[31m\"\\\xc3\xa4";
  EXPECT_EQ(to_log_line(record),
            "id=req_1 peer=127.0.0.1:1 tenant=default method=GET target=\"/v1/a?b=c\" status=200 in=0 out=12 ms=1.500 "
            "agent=\"x\\x0d\\x0astatus=500 \\x1b[31m\\\"\\\\\\xc3\\xa4\"");
  record.user_agent = std::string(10'000, 'a');
  EXPECT_LT(to_log_line(record).size(), 1000U);
}

}  // namespace
}  // namespace cove::http
