#include "http/disposition.hpp"

#include <gmock/gmock.h>

namespace cove::http {
namespace {

TEST(Attachment, NamesAnyFile) {
  EXPECT_EQ(attachment("a b.txt"), R"(attachment; filename="a b.txt")");
  EXPECT_EQ(attachment("out/r.txt"), R"(attachment; filename="out/r.txt")");
  EXPECT_EQ(attachment("h\xc3\xa9.txt"), R"(attachment; filename="h_.txt"; filename*=UTF-8''h%C3%A9.txt)");
  EXPECT_EQ(attachment("a\"\r\nX: y"), R"(attachment; filename="aX: y"; filename*=UTF-8''a%22%0D%0AX%3A%20y)");
  EXPECT_EQ(attachment(""), R"(attachment; filename="")");
}

}  // namespace
}  // namespace cove::http
