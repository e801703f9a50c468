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
  bool over_lines = false;     // it may span lines
  std::string_view into = "";  // starts embedded code
  char out = '}';              // ends embedded code
  bool prefixed = false;       // only with a prefix letter: s"${x}"
};

// A keyword that opens a block, and the one that closes it.
struct BlockForm {
  std::string_view open;
  std::string_view close;
  bool modifies = false;    // after a value it is a modifier: "x if y"
  bool has_its_do = false;  // a "do" later in the line belongs to it
};

enum class Words : std::uint8_t {
  anywhere,  // block keywords count everywhere
  commands,  // only at the start of a command: shells
  lines,     // statements end with the line; block keywords may also be method names or keys
};
enum class Heredoc : std::uint8_t { none, shell, perl, ruby, php };
enum class Quoting : std::uint8_t { none, perl, ruby };  // q(…), %w[…]

// The structural syntax of a language. What is left empty is not checked.
struct Grammar {
  std::string_view language;
  std::span<const CommentForm> comments;
  std::span<const StringForm> strings;
  std::string_view brackets = "()[]{}";
  std::span<const BlockForm> blocks = {};
  Words words = Words::anywhere;
  std::span<const std::string_view> go_on = {};  // words after which a command or a value starts
  Heredoc heredoc = Heredoc::none;
  Quoting quoting = Quoting::none;
  bool slashes = false;              // /…/ is a literal where a value may begin
  bool characters = false;           // 'x' is a literal; other single quotes are ignored
  bool backslash_character = false;  // \x is a literal
  bool indented = false;             // blocks are indented, after a colon
  std::string_view begin = "";       // code starts after this; the rest is text
  std::string_view end = "";
  std::string_view last_line = "";  // ends the code
};

// Null for an unknown language.
const Grammar* find_grammar(std::string_view language);

}  // namespace cove::syntax
