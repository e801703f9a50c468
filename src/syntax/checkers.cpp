#include "syntax/checkers.hpp"

#include <algorithm>
#include <array>
#include <charconv>

#include "base/text.hpp"

namespace cove::syntax {
namespace {

using Patterns = std::string_view;

constexpr auto kBash = std::to_array<Patterns>({"{file}: line {line}: {message}"});
constexpr auto kFish = std::to_array<Patterns>({"{file} (line {line}): {message}"});
constexpr auto kJava = std::to_array<Patterns>({"{file}:{line}: error: {message}"});
constexpr auto kJavaScript = std::to_array<Patterns>({"{file}:{line}", "SyntaxError: {message}"});
constexpr auto kLua = std::to_array<Patterns>({"{any}{file}:{line}: {message}"});
constexpr auto kPerl = std::to_array<Patterns>({"{message} at {file} line {line}"});
constexpr auto kPhp = std::to_array<Patterns>(
    {"{any}Parse error: {message} in {file} on line {line}", "{any}Fatal error: {message} in {file} on line {line}"});
constexpr auto kPython = std::to_array<Patterns>({"{file}:{line}:{column}: {message}"});
constexpr auto kRuby = std::to_array<Patterns>({"{any}{file}:{line}: {message}"});
constexpr auto kSh = std::to_array<Patterns>({"{any}{file}: {line}: {message}"});
constexpr auto kTypeScript = std::to_array<Patterns>({"{any}[ERROR] {message}", "{file}:{line}:{column}:"});
constexpr auto kZsh = std::to_array<Patterns>({"{file}:{line}: {message}"});

// As a script and as a module.
constexpr auto kScriptOrModule = std::to_array<std::string_view>({".cjs", ".mjs"});

constexpr auto kCheckers = std::to_array<Checker>({
    {.language = "bash", .label = "Bash", .patterns = kBash},
    {.language = "clojure", .label = "Clojure"},
    {.language = "fish", .label = "Fish", .patterns = kFish, .caret = true},
    {.language = "groovy", .label = "Groovy"},
    {.language = "java", .label = "Java", .patterns = kJava, .caret = true},
    {.language = "javascript",
     .label = "JavaScript",
     .patterns = kJavaScript,
     .extensions = kScriptOrModule,
     .caret = true,
     .hash_is_no_comment = true},
    {.language = "kotlin", .label = "Kotlin"},
    {.language = "lua", .label = "Lua", .patterns = kLua},
    {.language = "perl", .label = "Perl", .patterns = kPerl, .no_fault = "you may need to install the"},
    {.language = "php", .label = "PHP", .patterns = kPhp},
    {.language = "python", .label = "Python", .patterns = kPython},
    {.language = "ruby", .label = "Ruby", .patterns = kRuby},
    {.language = "scala", .label = "Scala"},
    {.language = "sh", .label = "Sh", .patterns = kSh},
    {.language = "typescript",
     .label = "TypeScript",
     .patterns = kTypeScript,
     .first_column = 0,
     .hash_is_no_comment = true},
    {.language = "zsh", .label = "Zsh", .patterns = kZsh},
});

constexpr std::size_t kMaxMessage = 1000;

std::string_view trimmed(std::string_view text) {
  const auto from = text.find_first_not_of(" \t\r\n");
  if (from == std::string_view::npos) return {};
  return text.substr(from, text.find_last_not_of(" \t\r\n") - from + 1);
}

std::string shortened(std::string_view text) {
  text = trimmed(text);
  if (text.size() > kMaxMessage) {
    text = text.substr(0, kMaxMessage);
    text.remove_suffix(unfinished_utf8(text));
  }
  return replace_invalid_utf8(text);
}

std::optional<std::size_t> take_number(std::string_view& rest) {
  std::size_t value = 0;
  const auto [end, wrong] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
  if (wrong != std::errc()) return std::nullopt;
  rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
  return value;
}

// One pattern against one line. What it finds is written down only if all of it is there.
class Match {
 public:
  Match(std::string_view pattern, std::string_view file) : pattern_(pattern), file_(file) {}

  bool run(std::string_view line, Finding& finding) {
    Finding found;
    auto rest = trimmed(line);
    while (!pattern_.empty()) {
      const auto part = take_part();
      if (part == "{line}" || part == "{column}") {
        const auto number = take_number(rest);
        if (!number) return false;
        (part == "{line}" ? found.line : found.column) = *number;
      } else if (part == "{any}" || part == "{message}") {
        const auto until = pattern_.empty() ? std::string_view() : literal(take_part());
        const auto at = until.empty() ? rest.size() : rest.find(until);
        if (at == std::string_view::npos) return false;
        if (part == "{message}") found.message = shortened(rest.substr(0, at));
        rest.remove_prefix(at + until.size());
      } else {
        if (!rest.starts_with(literal(part))) return false;
        rest.remove_prefix(literal(part).size());
      }
    }
    if (!finding.line) finding.line = found.line;
    if (!finding.column) finding.column = found.column;
    if (finding.message.empty()) finding.message = std::move(found.message);
    return true;
  }

 private:
  // "{name}" or what stands before the next of these.
  std::string_view take_part() {
    const auto end = pattern_.starts_with('{') ? pattern_.find('}') + 1 : std::min(pattern_.find('{'), pattern_.size());
    const auto part = pattern_.substr(0, end);
    pattern_.remove_prefix(end);
    return part;
  }
  [[nodiscard]] std::string_view literal(std::string_view part) const { return part == "{file}" ? file_ : part; }

  std::string_view pattern_;
  std::string_view file_;
};

// Where the ^ stands in its line, counted from 1.
std::optional<std::size_t> caret_of(std::string_view line) {
  const auto at = line.find_first_not_of(" \t");
  if (at == std::string_view::npos || line[at] != '^') return std::nullopt;
  return at + 1;
}

}  // namespace

const Checker& checker_of(std::string_view language) {
  static constexpr Checker kNone{.language = "", .label = "Code"};
  const auto* const found = std::ranges::find(kCheckers, language, &Checker::language);
  return found == kCheckers.end() ? kNone : *found;
}

Finding read_finding(const Checker& checker, std::string_view file, std::string_view output) {
  Finding finding;
  for (auto rest = output; !rest.empty();) {
    const auto line = take_until(rest, '\n');
    for (const auto pattern : checker.patterns) {
      if (Match(pattern, file).run(line, finding)) break;
    }
    if (checker.caret && finding.line && !finding.column) finding.column = caret_of(line);
  }
  if (finding.column) *finding.column += 1 - checker.first_column;
  if (finding.line == std::size_t{0}) finding.line.reset();
  if (finding.column == std::size_t{0}) finding.column.reset();
  if (finding.message.empty()) finding.message = shortened(output);
  return finding;
}

}  // namespace cove::syntax
