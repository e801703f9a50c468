#include "base/units.hpp"

#include <gtest/gtest.h>

#include <array>

namespace cove {
namespace {

struct SizeRow {
  const char* name;
  std::string_view text;
  std::int64_t want;  // -1 = refused
};
class Size : public testing::TestWithParam<SizeRow> {};

TEST_P(Size, IsReadOrRefused) {
  const auto got = parse_size(GetParam().text);
  EXPECT_EQ(got ? static_cast<std::int64_t>(*got) : -1, GetParam().want);
}
INSTANTIATE_TEST_SUITE_P(, Size,
                         testing::ValuesIn(std::to_array<SizeRow>({
                             {"Bytes", "900", 900},
                             {"Mega", "512M", 512LL << 20},
                             {"GibiSpelled", "1Gi", 1LL << 30},
                             {"LowerCase", "2g", 2LL << 30},
                             {"WithByte", "10KiB", 10240},
                             {"Fraction", "1.5k", 1536},
                             {"Zero", "0", 0},
                             {"Empty", "", -1},
                             {"Negative", "-1M", -1},
                             {"NoNumber", "M", -1},
                             {"UnknownUnit", "5X", -1},
                             {"Blank", "5 M", -1},
                             {"TwoDots", "1.2.3M", -1},
                             {"Exponent", "1e3", -1},
                             {"TooLarge", "99999999999T", -1},
                         })),
                         [](const auto& row) { return std::string(row.param.name); });

struct DurationRow {
  const char* name;
  std::string_view text;
  std::int64_t want_ms;  // -1 = refused
};
class Duration : public testing::TestWithParam<DurationRow> {};

TEST_P(Duration, IsReadOrRefused) {
  const auto got = parse_duration(GetParam().text);
  EXPECT_EQ(got ? got->count() : -1, GetParam().want_ms);
}
INSTANTIATE_TEST_SUITE_P(, Duration,
                         testing::ValuesIn(std::to_array<DurationRow>({
                             {"Milliseconds", "500ms", 500},
                             {"BareIsSeconds", "30", 30000},
                             {"Minutes", "2m", 120000},
                             {"Mixed", "1h30m", 5400000},
                             {"Fraction", "1.5s", 1500},
                             {"SmallRoundsUp", "0.1ms", 1},
                             {"Empty", "", -1},
                             {"Negative", "-1s", -1},
                             {"UnknownUnit", "3w", -1},
                             {"BareAfterAUnit", "1h30", -1},
                             {"BareFirst", "30 5s", -1},
                             {"TooLong", "9999d", -1},
                         })),
                         [](const auto& row) { return std::string(row.param.name); });

TEST(FormatSize, IsShort) {
  EXPECT_EQ(format_size(512ULL << 20), "512M");
  EXPECT_EQ(format_size(3ULL << 29), "1.5G");
  EXPECT_EQ(format_size(900), "900");
}

TEST(FormatDuration, IsShort) {
  EXPECT_EQ(format_duration(std::chrono::milliseconds(500)), "500ms");
  EXPECT_EQ(format_duration(std::chrono::seconds(30)), "30s");
  EXPECT_EQ(format_duration(std::chrono::milliseconds(1500)), "1.5s");
  EXPECT_EQ(format_duration(std::chrono::minutes(2)), "2m");
}

}  // namespace
}  // namespace cove
