#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace cove {

// Lines of a log: words, then key=value pairs.

// A value for a line. Anything but plain visible ASCII is quoted and escaped, and cut to a length, so that it can
// neither forge another field nor send control codes to a terminal.
std::string log_value(std::string_view text, std::size_t limit = 256);

struct LogField {
  std::string key;
  std::string value;  // without its quotes and backslashes; bytes that cannot be shown stay as \xNN
};
struct LogLine {
  std::string words;
  std::vector<LogField> fields;
};
// A line taken apart again.
LogLine parse_log_line(std::string_view line);

}  // namespace cove
