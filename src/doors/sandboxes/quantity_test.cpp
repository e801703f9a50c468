#include "doors/sandboxes/quantity.hpp"

#include <gtest/gtest.h>

namespace cove::doors::sandboxes {
namespace {

struct Row {
  const char* name;
  std::string_view given;
  std::uint64_t want;  // thousandths; 0 = refused
};
class Quantity : public testing::TestWithParam<Row> {};

TEST_P(Quantity, IsReadOrRefused) {
  EXPECT_EQ(parse_quantity_millis(GetParam().given).value_or(0), GetParam().want);
}

INSTANTIATE_TEST_SUITE_P(, Quantity,
                         testing::ValuesIn(std::to_array<Row>({
                             {"One", "1", 1000},
                             {"Millis", "500m", 500},
                             {"Fraction", "0.5", 500},
                             {"Kilo", "2k", 2'000'000},
                             {"Mebi", "512Mi", 536'870'912'000},
                             {"Gibi", "1Gi", 1'073'741'824'000},
                             {"FractionOfGibi", "1.5Gi", 1'610'612'736'000},
                             {"Mega", "1M", 1'000'000'000},
                             {"Empty", "", 0},
                             {"Word", "lots", 0},
                             {"Sign", "-1", 0},
                             {"Plus", "+1", 0},
                             {"Blank", "1 Gi", 0},
                             {"TwoDots", "1.2.3", 0},
                             {"DotAlone", ".", 0},
                             {"UnknownSuffix", "1Q", 0},
                             {"LowerCaseSuffix", "1gi", 0},
                             {"TooLarge", "999999999Pi", 0},
                             {"Exponent", "1e3", 0},
                         })),
                         [](const auto& row) { return std::string(row.param.name); });

}  // namespace
}  // namespace cove::doors::sandboxes
