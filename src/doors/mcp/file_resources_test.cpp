#include "doors/mcp/file_resources.hpp"

#include <gmock/gmock.h>

namespace cove::doors::mcp {
namespace {

struct Row {
  const char* name;
  std::string_view given;
  std::string_view session;  // "": refused
  std::string_view path;
};
class WorkspaceAddress : public testing::TestWithParam<Row> {};

TEST_P(WorkspaceAddress, NamesAFileOrNothing) {
  const auto place = parse_workspace_uri(GetParam().given);
  EXPECT_EQ(place ? place->session : "", GetParam().session);
  EXPECT_EQ(place ? place->path : "", GetParam().path);
}
INSTANTIATE_TEST_SUITE_P(, WorkspaceAddress,
                         testing::ValuesIn(std::to_array<Row>({
                             {"AFile", "workspace://s/a/b.txt", "s", "a/b.txt"},
                             {"Encoded", "workspace://my%20s/%C3%A4%20b", "my s", "\xC3\xA4 b"},
                             {"TheWorkspace", "workspace://s", "s", ""},
                             {"TheWorkspaceWithASlash", "workspace://s/", "s", ""},
                             {"ADirectory", "workspace://s/a/", "s", "a"},
                             {"AnotherScheme", "file://s/a", "", ""},
                             {"NoSession", "workspace:///a", "", ""},
                             {"DotsThatLeave", "workspace://s/../a", "", ""},
                             {"DotsInTheMiddle", "workspace://s/a/../../b", "", ""},
                             {"EncodedDots", "workspace://s/%2e%2e/a", "", ""},
                             {"EncodedSlash", "workspace://s/%2Fetc/passwd", "", ""},
                             {"EncodedNul", "workspace://s/a%00b", "", ""},
                             {"HalfAnEscape", "workspace://s/%4", "", ""},
                             {"NotUtf8", "workspace://s/%FF", "", ""},
                         })),
                         [](const auto& row) { return std::string(row.param.name); });

}  // namespace
}  // namespace cove::doors::mcp
