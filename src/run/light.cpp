#include "run/light.hpp"

#include <algorithm>
#include <array>

#include "base/text.hpp"

namespace cove::run {
namespace {

constexpr auto kLight = std::to_array<std::string_view>(
    {"__future__", "abc",       "argparse",    "array",    "ast",         "asyncio",    "base64",     "binascii",
     "bisect",     "builtins",  "calendar",    "cmath",    "collections", "concurrent", "contextlib", "copy",
     "csv",        "ctypes",    "dataclasses", "datetime", "decimal",     "difflib",    "enum",       "errno",
     "fractions",  "functools", "gc",          "getpass",  "glob",        "gzip",       "hashlib",    "heapq",
     "hmac",       "html",      "inspect",     "io",       "itertools",   "json",       "keyword",    "logging",
     "math",       "numbers",   "numpy",       "operator", "os",          "pathlib",    "platform",   "pprint",
     "queue",      "random",    "re",          "resource", "secrets",     "select",     "shutil",     "signal",
     "socket",     "sqlite3",   "ssl",         "stat",     "statistics",  "string",     "struct",     "subprocess",
     "sys",        "tarfile",   "tempfile",    "textwrap", "threading",   "time",       "timeit",     "traceback",
     "types",      "typing",    "unicodedata", "urllib",   "uuid",        "warnings",   "weakref",    "xml",
     "zipfile",    "zlib"});
static_assert(std::ranges::is_sorted(kLight));

bool is_name(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte >= 0x80 || c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

void skip_blanks(std::string_view& text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
}

std::string_view take_name(std::string_view& text) {
  skip_blanks(text);
  const auto end = std::ranges::find_if_not(text, is_name);
  const auto name = text.substr(0, static_cast<std::size_t>(end - text.begin()));
  text.remove_prefix(name.size());
  return name;
}

// `a.b as c, d`: whether each begins with a light name.
bool lists_light(std::string_view text) {
  while (true) {
    if (!std::ranges::binary_search(kLight, take_name(text))) return false;
    // What is between two commas follows from the name.
    const auto comma = text.find(',');
    if (comma == std::string_view::npos) return true;
    text.remove_prefix(comma + 1);
  }
}

// One line that has the word `import`, `at` its position.
bool imports_light(std::string_view line, std::size_t at) {
  constexpr std::string_view kFrom = "from";
  auto before = line.substr(0, at);
  const auto from = before.rfind(kFrom);
  if (from != std::string_view::npos && (from == 0 || !is_name(before[from - 1]))) {
    before.remove_prefix(from + kFrom.size());
    return std::ranges::binary_search(kLight, take_name(before));
  }
  return lists_light(line.substr(at + std::string_view("import").size()));
}

}  // namespace

bool is_light(std::string_view code) {
  constexpr std::string_view kImport = "import";
  for (std::string_view rest = code; !rest.empty();) {
    const auto line = take_until(rest, '\n');
    for (auto at = line.find(kImport); at != std::string_view::npos; at = line.find(kImport, at + 1)) {
      const auto after = at + kImport.size();
      const bool begins = at == 0 || !is_name(line[at - 1]);
      const bool ends = after == line.size() || !is_name(line[after]);
      // importlib and __import__ can import anything; `important` is a name.
      if (line.substr(at).starts_with("importlib") || line.substr(at).starts_with("import__")) return false;
      if (begins && ends && !imports_light(line, at)) return false;
    }
  }
  return true;
}

}  // namespace cove::run
