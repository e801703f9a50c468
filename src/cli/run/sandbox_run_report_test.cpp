#include "cli/run/sandbox_run_report.hpp"

#include <gmock/gmock.h>

namespace cove::cli {
namespace {

HandlerReport report_of(std::string_view result) {
  HandlerReport report;
  report.out = "a\n";
  report.result = std::get<fastapi::Value>(fastapi::parse_json(result));
  report.duration_ms = 1.5;
  return report;
}

TEST(SandboxRunReport, IsJsonAsPythonIndentsIt) {
  EXPECT_EQ(json_report(report_of(R"({"a":[1,{}],"b":[]})")), R"({
  "exit_code": 0,
  "stdout": "a\n",
  "stderr": "",
  "result": {
    "a": [
      1,
      {}
    ],
    "b": []
  },
  "metrics": {
    "duration_ms": 1.5,
    "cpu_time_ms": 0.0,
    "memory_peak_mb": 0.0
  }
})");
}

TEST(SandboxRunReport, IsYaml) {
  EXPECT_EQ(yaml_report(report_of(R"({"a":[1e20,[],{"x y":null}]})")), R"("exit_code": 0
"stdout": "a\n"
"stderr": ""
"result":
  "a":
    - 1.0e+20
    - []
    -
      "x y": null
"metrics":
  "duration_ms": 1.5
  "cpu_time_ms": 0.0
  "memory_peak_mb": 0.0)");
}

TEST(SandboxRunReport, IsForPeople) {
  auto report = report_of("null");
  report.exit_code = 2;
  report.err = "trouble\n\n";
  EXPECT_EQ(pretty_report(report, {}),
            "❌ Execution failed (exit code: 2)\n\n📤 STDOUT:\n----------------------------------------\na\n\n"
            "📥 STDERR:\n----------------------------------------\ntrouble\n\n"
            "📄 RESULT:\n----------------------------------------\nNone\n");
  EXPECT_THAT(pretty_report(report, {.profile = true}), testing::HasSubstr("⚡ METRICS:"));
  EXPECT_THAT(pretty_report(report, {.verbose = true}), testing::HasSubstr("🔍 DETAILS:"));
}

}  // namespace
}  // namespace cove::cli
