#include "syntax/grammar.hpp"

#include <algorithm>
#include <array>

namespace cove::syntax {
namespace {

using enum Where;

// --- comments

constexpr auto kHash = std::to_array<CommentForm>({{.open = "#", .close = "\n"}});
constexpr auto kShellHash = std::to_array<CommentForm>({{.open = "#", .close = "\n", .where = word_start}});
constexpr auto kSlashes = std::to_array<CommentForm>({{.open = "//", .close = "\n"}, {.open = "/*", .close = "*/"}});
constexpr auto kSlashesAndScript = std::to_array<CommentForm>(
    {{.open = "#!", .close = "\n", .where = file_start}, {.open = "//", .close = "\n"}, {.open = "/*", .close = "*/"}});
constexpr auto kNestedSlashes = std::to_array<CommentForm>({{.open = "#!", .close = "\n", .where = file_start},
                                                            {.open = "//", .close = "\n"},
                                                            {.open = "/*", .close = "*/", .nests = true}});
constexpr auto kPhpComments = std::to_array<CommentForm>({{.open = "//", .close = "\n"},
                                                          {.open = "#", .close = "\n", .unless_followed_by = "["},
                                                          {.open = "/*", .close = "*/"}});
constexpr auto kLuaComments = std::to_array<CommentForm>({{.open = "#", .close = "\n", .where = file_start},
                                                          {.open = "--[[", .close = "]]"},
                                                          {.open = "--[=[", .close = "]=]"},
                                                          {.open = "--[==[", .close = "]==]"},
                                                          {.open = "--", .close = "\n"}});
constexpr auto kRubyComments = std::to_array<CommentForm>(
    {{.open = "=begin", .close = "\n=end", .where = line_start}, {.open = "#", .close = "\n"}});
constexpr auto kPerlComments = std::to_array<CommentForm>({{.open = "=pod", .close = "\n=cut", .where = line_start},
                                                           {.open = "=head", .close = "\n=cut", .where = line_start},
                                                           {.open = "=over", .close = "\n=cut", .where = line_start},
                                                           {.open = "=item", .close = "\n=cut", .where = line_start},
                                                           {.open = "=begin", .close = "\n=cut", .where = line_start},
                                                           {.open = "=for", .close = "\n=cut", .where = line_start},
                                                           {.open = "#", .close = "\n"}});
constexpr auto kSemicolon = std::to_array<CommentForm>({{.open = ";", .close = "\n"}});

// --- strings: of two that begin alike the longer first

constexpr auto kPythonStrings = std::to_array<StringForm>({{.open = R"(""")", .close = R"(""")", .over_lines = true},
                                                           {.open = "'''", .close = "'''", .over_lines = true},
                                                           {.open = "\"", .close = "\""},
                                                           {.open = "'", .close = "'"}});
constexpr auto kScriptStrings =
    std::to_array<StringForm>({{.open = "`", .close = "`", .over_lines = true, .into = "${"},
                               {.open = "\"", .close = "\""},
                               {.open = "'", .close = "'"}});
constexpr auto kShellStrings =
    std::to_array<StringForm>({{.open = "$'", .close = "'", .over_lines = true},
                               {.open = "\"", .close = "\"", .over_lines = true, .into = "$(", .out = ')'},
                               {.open = "'", .close = "'", .escape = '\0', .over_lines = true}});
constexpr auto kPlainShellStrings =
    std::to_array<StringForm>({{.open = "\"", .close = "\"", .over_lines = true, .into = "$(", .out = ')'},
                               {.open = "'", .close = "'", .escape = '\0', .over_lines = true}});
constexpr auto kFishStrings =
    std::to_array<StringForm>({{.open = "\"", .close = "\"", .over_lines = true, .into = "$(", .out = ')'},
                               {.open = "'", .close = "'", .over_lines = true}});
constexpr auto kLuaStrings =
    std::to_array<StringForm>({{.open = "[[", .close = "]]", .escape = '\0', .over_lines = true},
                               {.open = "[=[", .close = "]=]", .escape = '\0', .over_lines = true},
                               {.open = "[==[", .close = "]==]", .escape = '\0', .over_lines = true},
                               {.open = "\"", .close = "\""},
                               {.open = "'", .close = "'"}});
constexpr auto kRubyStrings =
    std::to_array<StringForm>({{.open = "\"", .close = "\"", .over_lines = true, .into = "#{"},
                               {.open = "'", .close = "'", .over_lines = true},
                               {.open = "`", .close = "`", .over_lines = true, .into = "#{"}});
constexpr auto kPerlStrings = std::to_array<StringForm>({{.open = "\"", .close = "\"", .over_lines = true},
                                                         {.open = "'", .close = "'", .over_lines = true},
                                                         {.open = "`", .close = "`", .over_lines = true}});
constexpr auto kPhpStrings = std::to_array<StringForm>({{.open = "\"", .close = "\"", .over_lines = true, .into = "{$"},
                                                        {.open = "'", .close = "'", .over_lines = true},
                                                        {.open = "`", .close = "`", .over_lines = true}});
constexpr auto kJavaStrings = std::to_array<StringForm>(
    {{.open = R"(""")", .close = R"(""")", .over_lines = true}, {.open = "\"", .close = "\""}});
constexpr auto kKotlinStrings =
    std::to_array<StringForm>({{.open = R"(""")", .close = R"(""")", .escape = '\0', .over_lines = true, .into = "${"},
                               {.open = "\"", .close = "\"", .into = "${"}});
constexpr auto kScalaStrings = std::to_array<StringForm>(
    {{.open = R"(""")", .close = R"(""")", .escape = '\0', .over_lines = true, .into = "${", .prefixed = true},
     {.open = "\"", .close = "\"", .into = "${", .prefixed = true}});
constexpr auto kGroovyStrings =
    std::to_array<StringForm>({{.open = R"(""")", .close = R"(""")", .over_lines = true, .into = "${"},
                               {.open = "'''", .close = "'''", .over_lines = true},
                               {.open = "$/", .close = "/$", .escape = '$', .over_lines = true},
                               {.open = "\"", .close = "\"", .into = "${"},
                               {.open = "'", .close = "'"}});
constexpr auto kClojureStrings = std::to_array<StringForm>({{.open = "\"", .close = "\"", .over_lines = true}});

// --- blocks

constexpr auto kShellBlocks = std::to_array<BlockForm>({{"if", "fi"}, {"case", "esac"}, {"do", "done"}});
constexpr auto kShellGoOn =
    std::to_array<std::string_view>({"if", "then", "elif", "else", "while", "until", "do", "time"});
constexpr auto kFishBlocks = std::to_array<BlockForm>(
    {{"if", "end"}, {"for", "end"}, {"while", "end"}, {"function", "end"}, {"switch", "end"}, {"begin", "end"}});
constexpr auto kFishGoOn = std::to_array<std::string_view>({"if", "while", "begin", "and", "or", "not"});
constexpr auto kLuaBlocks =
    std::to_array<BlockForm>({{"function", "end"}, {"if", "end"}, {"do", "end"}, {"repeat", "until"}});
constexpr auto kRubyBlocks =
    std::to_array<BlockForm>({{"def", "end"},
                              {"class", "end"},
                              {"module", "end"},
                              {"begin", "end"},
                              {"case", "end"},
                              {"do", "end"},
                              {.open = "if", .close = "end", .modifies = true},
                              {.open = "unless", .close = "end", .modifies = true},
                              {.open = "while", .close = "end", .modifies = true, .has_its_do = true},
                              {.open = "until", .close = "end", .modifies = true, .has_its_do = true},
                              {.open = "for", .close = "end", .has_its_do = true}});
constexpr auto kRubyGoOn =
    std::to_array<std::string_view>({"and", "or", "not", "then", "else", "elsif", "do", "begin", "ensure", "rescue",
                                     "in", "when", "if", "unless", "while", "until", "case"});
constexpr auto kScriptGoOn =
    std::to_array<std::string_view>({"return", "typeof", "case", "in", "of", "delete", "void", "throw", "new", "else",
                                     "do", "instanceof", "yield", "await"});
constexpr auto kPerlGoOn = std::to_array<std::string_view>(
    {"return", "and", "or", "not", "if", "unless", "while", "until", "split", "grep", "map", "join", "push", "x"});
constexpr auto kGroovyGoOn = std::to_array<std::string_view>({"return", "case", "in", "throw", "else", "assert"});

constexpr auto kGrammars = std::to_array<Grammar>({
    {.language = "bash",
     .comments = kShellHash,
     .strings = kShellStrings,
     .brackets = "()",
     .blocks = kShellBlocks,
     .words = Words::commands,
     .go_on = kShellGoOn,
     .heredoc = Heredoc::shell,
     .backslash_character = true},
    {.language = "clojure", .comments = kSemicolon, .strings = kClojureStrings, .backslash_character = true},
    {.language = "fish",
     .comments = kShellHash,
     .strings = kFishStrings,
     .brackets = "()",
     .blocks = kFishBlocks,
     .words = Words::commands,
     .go_on = kFishGoOn,
     .backslash_character = true},
    {.language = "groovy",
     .comments = kSlashesAndScript,
     .strings = kGroovyStrings,
     .go_on = kGroovyGoOn,
     .slashes = true},
    {.language = "java", .comments = kSlashes, .strings = kJavaStrings, .characters = true},
    {.language = "javascript",
     .comments = kSlashesAndScript,
     .strings = kScriptStrings,
     .go_on = kScriptGoOn,
     .slashes = true},
    {.language = "kotlin", .comments = kNestedSlashes, .strings = kKotlinStrings, .characters = true},
    {.language = "lua", .comments = kLuaComments, .strings = kLuaStrings, .blocks = kLuaBlocks},
    {.language = "perl",
     .comments = kPerlComments,
     .strings = kPerlStrings,
     .go_on = kPerlGoOn,
     .heredoc = Heredoc::perl,
     .quoting = Quoting::perl,
     .slashes = true,
     .last_line = "__END__"},
    {.language = "php",
     .comments = kPhpComments,
     .strings = kPhpStrings,
     .heredoc = Heredoc::php,
     .begin = "<?",
     .end = "?>"},
    {.language = "python", .comments = kHash, .strings = kPythonStrings, .indented = true},
    {.language = "ruby",
     .comments = kRubyComments,
     .strings = kRubyStrings,
     .blocks = kRubyBlocks,
     .words = Words::lines,
     .go_on = kRubyGoOn,
     .heredoc = Heredoc::ruby,
     .quoting = Quoting::ruby,
     .slashes = true,
     .last_line = "__END__"},
    {.language = "scala", .comments = kNestedSlashes, .strings = kScalaStrings, .characters = true},
    {.language = "sh",
     .comments = kShellHash,
     .strings = kPlainShellStrings,
     .brackets = "()",
     .blocks = kShellBlocks,
     .words = Words::commands,
     .go_on = kShellGoOn,
     .heredoc = Heredoc::shell,
     .backslash_character = true},
    {.language = "typescript",
     .comments = kSlashesAndScript,
     .strings = kScriptStrings,
     .go_on = kScriptGoOn,
     .slashes = true},
    {.language = "zsh",
     .comments = kShellHash,
     .strings = kShellStrings,
     .brackets = "()",
     .blocks = kShellBlocks,
     .words = Words::commands,
     .go_on = kShellGoOn,
     .heredoc = Heredoc::shell,
     .backslash_character = true},
});

}  // namespace

const Grammar* find_grammar(std::string_view language) {
  const auto* const found = std::ranges::find(kGrammars, language, &Grammar::language);
  return found == kGrammars.end() ? nullptr : found;
}

}  // namespace cove::syntax
