#include "config/public_index.hpp"

#include <gmock/gmock.h>

namespace cove::config {
namespace {

TEST(PublicIndex, IsTheOneThatPipNames) {
  EXPECT_EQ(
      index_in("class PackageIndex:\n  pass\n\nPyPI = PackageIndex(\"https://example.org/\", x=\"https://y/\")\n"),
      "https://example.org/simple/");
  EXPECT_EQ(index_in("\nPyPI = PackageIndex(\n    \"https://example.org/\",\n)\n"), "https://example.org/simple/");
}

TEST(PublicIndex, AnythingElseIsNone) {
  for (const char* source : {"", "\nPyPI = PackageIndex(", "\nPyPI = PackageIndex(where)",
                             "\nPyPI = PackageIndex(\"x\")", "\nTestPyPI = PackageIndex(\"https://example.org/\")"})
    EXPECT_EQ(index_in(source), "") << source;
}

}  // namespace
}  // namespace cove::config
