#include "doctor/report.hpp"

#include <gmock/gmock.h>

#include <boost/json.hpp>
#include <sstream>

namespace cove::doctor {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

const Check kGood{.id = "proc", .title = "/proc", .found = "mounted"};
const Check kWeak{.id = "swap",
                  .title = "swap",
                  .status = Status::warn,
                  .found = "/dev/sda2",
                  .consequence = "it stays",
                  .fix = "swapoff -a"};
const Check kBroken{.id = "limit.cpu",
                    .title = "cpu limit",
                    .status = Status::fail,
                    .found = "none",
                    .consequence = "all cores",
                    .fix = "be root"};

TEST(Report, SaysInTheLastLineWhetherTheProfileIsEnforced) {
  EXPECT_THAT(table(std::vector{kGood}, Colour::none), EndsWith("\nthis host enforces the default profile\n"));
  EXPECT_THAT(table(std::vector{kGood, kWeak}, Colour::none),
              EndsWith("\nthis host enforces the default profile; 1 warning\n"));
  EXPECT_THAT(table(std::vector{kGood, kWeak, kBroken}, Colour::none), EndsWith("\ncannot: cpu limit\n"));
}

TEST(Report, TellsConsequenceAndFixOfWhatIsNotOk) {
  EXPECT_EQ(table(std::vector{kGood, kBroken}, Colour::none),
            "ok    /proc      mounted\n"
            "FAIL  cpu limit  none\n"
            "      consequence: all cores\n"
            "      fix:         be root\n"
            "\n"
            "cannot: cpu limit\n");
}

TEST(Report, KeepsEveryLineWithinAHundredColumns) {
  Check wide = kWeak;
  wide.title = "kernel.apparmor_restrict_unprivileged_userns";
  wide.found = std::string(250, 'x');
  for (int i = 0; i < 60; ++i) wide.consequence += " words";
  std::istringstream lines(table(std::vector{kGood, wide, kBroken}, Colour::none));
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100U) << line;
}

TEST(Report, PutsNoControlCharacterOfTheHostOnTheTerminal) {
  Check odd = kWeak;
  odd.found = "|/bin/x \x1b[2J\n%p";
  EXPECT_THAT(table(std::vector{odd}, Colour::none), Not(HasSubstr("\x1b")));
  EXPECT_THAT(table(std::vector{odd}, Colour::ansi), Not(HasSubstr("\x1b[2J")));
}

TEST(Report, ColoursOnlyWhenAsked) {
  EXPECT_THAT(table(std::vector{kBroken}, Colour::none), Not(HasSubstr("\x1b")));
  EXPECT_THAT(table(std::vector{kBroken}, Colour::ansi), HasSubstr("\x1b[31mFAIL"));
}

TEST(Report, GivesProgramsTheSameInJson) {
  const auto parsed = boost::json::parse(to_json(std::vector{kGood, kWeak, kBroken})).as_object();
  EXPECT_FALSE(parsed.at("enforced").as_bool());
  EXPECT_EQ(parsed.at("cannot"), boost::json::array{"limit.cpu"});
  EXPECT_EQ(parsed.at("warnings").as_int64(), 1);
  const auto& check = parsed.at("checks").as_array().at(1).as_object();
  EXPECT_EQ(check, (boost::json::object{{"id", "swap"},
                                        {"title", "swap"},
                                        {"status", "warn"},
                                        {"found", "/dev/sda2"},
                                        {"consequence", "it stays"},
                                        {"fix", "swapoff -a"}}));
}

}  // namespace
}  // namespace cove::doctor
