#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace cove::syntax {

enum class Where : std::uint8_t { anywhere, word_start, line_start, file_start };

struct CommentForm {
  std::string_view open;
  std::string_view close;  // "\n": to the end of the line, which is not part of it
  Where where = Where::anywhere;
  bool nests = false;
  std::string_view unless_followed_by = "";  // by one of these
};

struct StringForm {
  std::string_view open;
  std::string_view close;
  char escape = '\\';          // '\0': none
  bool over_lines = false;     // it may go on over the end of a line
  std::string_view into = "";  // what leads back to code in it
  char out = '}';              // and what leads out again
  bool prefixed = false;       // it does so only after a letter: s"${x}"
};

// A word that opens what another one closes.
struct BlockForm {
  std::string_view open;
  std::string_view close;
  bool modifies = false;    // after a value it opens nothing: "x if y"
  bool has_its_do = false;  // a "do" later in its line is part of it
};

enum class Words : std::uint8_t {
  anywhere,  // block words count wherever they stand
  commands,  // at the beginning of a command: shells
  lines,     // statements end with their line; block words may also be names of other things
};
enum class Heredoc : std::uint8_t { none, shell, perl, ruby, php };
enum class Quoting : std::uint8_t { none, perl, ruby };  // q(…), %w[…]

// What a program's structure is written in. What it leaves out is not looked at.
struct Grammar {
  std::string_view language;
  std::span<const CommentForm> comments;
  std::span<const StringForm> strings;
  std::string_view brackets = "()[]{}";
  std::span<const BlockForm> blocks = {};
  Words words = Words::anywhere;
  std::span<const std::string_view> go_on = {};  // words after which a command, or a value, begins
  Heredoc heredoc = Heredoc::none;
  Quoting quoting = Quoting::none;
  bool slashes = false;              // /…/ is a literal where a value may begin
  bool characters = false;           // 'x' is one, and other ticks are nothing
  bool backslash_character = false;  // \x is one
  bool indented = false;             // blocks are indented, after a colon
  std::string_view begin = "";       // code begins after this, the rest is text
  std::string_view end = "";
  std::string_view last_line = "";  // what follows is no code
};

// Null for a language that has none.
const Grammar* find_grammar(std::string_view language);

}  // namespace cove::syntax
