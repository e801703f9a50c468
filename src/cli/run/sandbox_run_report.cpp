#include "cli/run/sandbox_run_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace cove::cli {
namespace {

using fastapi::Member;
using fastapi::Value;
using Kind = Value::Kind;

Value number(double value) {
  Value out;
  out.kind = Kind::real;
  out.text = fmt::format("{:.3f}", value);
  return out;
}

Value text(std::string value) {
  Value out;
  out.kind = Kind::text;
  out.text = std::move(value);
  return out;
}

Value object(std::vector<Member> members) {
  Value out;
  out.kind = Kind::object;
  out.members = std::move(members);
  return out;
}

Value data_of(const HandlerReport& report) {
  Value code;
  code.kind = Kind::integer;
  code.text = std::to_string(report.exit_code);
  std::vector<Member> metrics{{"duration_ms", number(report.duration_ms)},
                              {"cpu_time_ms", number(report.cpu_ms)},
                              {"memory_peak_mb", number(report.peak_mb)}};
  std::vector<Member> members{{"exit_code", code},
                              {"stdout", text(report.out)},
                              {"stderr", text(report.err)},
                              {"result", report.result},
                              {"metrics", object(std::move(metrics))}};
  if (!report.timestamp.empty()) members.push_back({"timestamp", text(report.timestamp)});
  return object(std::move(members));
}

bool is_branch(const Value& value) {
  return (value.kind == Kind::array && !value.items.empty()) || (value.kind == Kind::object && !value.members.empty());
}

// As json.dumps(…, indent=2) has it.
std::string indented(const Value& value, std::size_t depth) {
  if (!is_branch(value)) return to_json(value);
  const std::string inner(2 * (depth + 1), ' ');
  std::string out;
  for (const auto& item : value.items)
    out += fmt::format("{}\n{}{}", out.empty() ? "" : ",", inner, indented(item, depth + 1));
  for (const auto& [name, member] : value.members)
    out += fmt::format("{}\n{}{}: {}", out.empty() ? "" : ",", inner, fastapi::json_text(name),
                       indented(member, depth + 1));
  const bool list = value.kind == Kind::array;
  return fmt::format("{}{}\n{}{}", list ? '[' : '{', out, std::string(2 * depth, ' '), list ? ']' : '}');
}

// Scalars as JSON writes them are YAML too, but for a real number without a point, which YAML 1.1 takes for a text.
std::string scalar(const Value& value) {
  auto written = to_json(value);
  const auto exponent = written.find_first_of("eE");
  if (value.kind == Kind::real && exponent != std::string::npos && written.find('.') == std::string::npos)
    written.insert(exponent, ".0");
  return written;
}

std::string block(const Value& value, std::size_t depth) {
  const std::string margin(2 * depth, ' ');
  std::string out;
  const auto put = [&](std::string_view head, const Value& inner) {
    out += fmt::format("{}{}", margin, head);
    out += is_branch(inner) ? "\n" + block(inner, depth + 1) : " " + scalar(inner) + "\n";
  };
  for (const auto& item : value.items) put("-", item);
  for (const auto& [name, member] : value.members) put(fastapi::json_text(name) + ":", member);
  return out;
}

class Page {
 public:
  explicit Page(bool colours) : colours_(colours) {}

  [[nodiscard]] std::string coloured(std::string_view colour, std::string_view text) const {
    return colours_ ? fmt::format("\x1b[{}m{}\x1b[0m", colour, text) : std::string(text);
  }
  void line(std::string_view text) { out_ += fmt::format("{}\n", text); }
  void section(std::string_view colour, std::string_view title, std::string_view body) {
    line(coloured(colour, title));
    line(coloured("2", std::string(40, '-')));
    line(body);
    line("");
  }
  std::string take() {
    out_.pop_back();
    return std::move(out_);
  }

 private:
  bool colours_;
  std::string out_;
};

std::string without_end(std::string text) {
  while (!text.empty() && std::string_view(" \t\r\n").find(text.back()) != std::string_view::npos) text.pop_back();
  return text.empty() ? "(empty)" : text;
}

std::string kind_of(const Value& value) {
  constexpr auto kNames = std::to_array<std::string_view>({"NoneType", "bool", "int", "float", "str", "list", "dict"});
  std::string name(kNames[static_cast<std::size_t>(value.kind)]);
  if (value.kind == Kind::array) name += fmt::format(" (len={})", value.items.size());
  if (value.kind == Kind::object) name += fmt::format(" (keys={})", value.members.size());
  return name;
}

}  // namespace

std::string json_report(const HandlerReport& report) {
  return indented(data_of(report), 0);
}

std::string yaml_report(const HandlerReport& report) {
  auto out = block(data_of(report), 0);
  out.pop_back();
  return out;
}

std::string pretty_report(const HandlerReport& report, const ReportStyle& style) {
  Page page(style.colours);
  const bool good = report.exit_code == 0;
  const auto colour = good ? "92" : "91";
  const auto words =
      good ? std::string("Execution succeeded") : fmt::format("Execution failed (exit code: {})", report.exit_code);
  page.line(fmt::format("{} {}", page.coloured(colour, good ? "✅" : "❌"), page.coloured(colour, words)));
  page.line("");
  if (!report.out.empty()) page.section("94", "📤 STDOUT:", without_end(report.out));
  if (!report.err.empty()) page.section("93", "📥 STDERR:", without_end(report.err));
  const auto& result = report.result;
  page.section("95", "📄 RESULT:",
               result.kind == Kind::null   ? "None"
               : result.kind == Kind::text ? result.text
                                           : indented(result, 0));
  if (style.profile || style.verbose) {
    page.section("96", "⚡ METRICS:",
                 fmt::format("  Duration:     {:.2f} ms\n  CPU Time:     {:.2f} ms\n  Memory Peak:  {:.2f} MB",
                             report.duration_ms, report.cpu_ms, report.peak_mb));
  }
  if (style.verbose) {
    page.section("94", "🔍 DETAILS:",
                 fmt::format("  Timestamp:    {}\n  Exit Code:    {}\n  Result Type:  {}", report.timestamp,
                             report.exit_code, kind_of(result)));
  }
  return page.take();
}

}  // namespace cove::cli
