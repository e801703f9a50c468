#include <fmt/format.h>

#include "doors/mcp/prompt.hpp"
#include "doors/mcp/suggestions.hpp"
#include "json/fields.hpp"

namespace cove::doors::mcp {
namespace {

namespace json = boost::json;
using cove::json::text_of;
using cove::mcp::Call;
using cove::mcp::Or;

json::object argument(std::string_view name, std::string_view description, bool required) {
  return {{"name", name}, {"description", description}, {"required", required}};
}

// A Markdown code fence longer than any in the code.
std::string fenced(std::string_view language, std::string_view code) {
  std::string fence = "```";
  while (code.find(fence) != std::string_view::npos) fence += '`';
  return fmt::format("{}{}\n{}\n{}", fence, language, code, fence);
}

json::object user_message(std::string_view description, std::string text) {
  return {{"description", description},
          {"messages",
           json::array{json::object{{"role", "user"}, {"content", {{"type", "text"}, {"text", std::move(text)}}}}}}};
}

std::string in_session(const json::object& arguments) {
  const auto session = text_of(arguments, "session_id");
  return session.empty() ? std::string() : fmt::format(" in the session {}", session);
}

Task<Or<>> run_snippet(Call&, json::object arguments) {
  const auto language = text_of(arguments, "language");
  auto text = fmt::format(
      "Run this {} code with the tool execute_code{}, show me its output, and say in one or two sentences what it "
      "does.\n\n{}",
      language, in_session(arguments), fenced(language, text_of(arguments, "code")));
  co_return user_message("Run code and show what it prints", std::move(text));
}

Task<Or<>> fix_error(Call&, json::object arguments) {
  const auto language = text_of(arguments, "language");
  auto text = fmt::format(
      "This {} code fails:\n\n{}\n\nThe error:\n\n{}\n\nFind the cause, change as little as possible, and run the "
      "result with the tool execute_code{} until it works. Show the code that works and what was wrong.",
      language, fenced(language, text_of(arguments, "code")), fenced("", text_of(arguments, "error")),
      in_session(arguments));
  co_return user_message("Find out why code fails, and fix it", std::move(text));
}

Task<Or<>> analyze_data(Call&, json::object arguments) {
  const auto question = text_of(arguments, "question");
  auto text = fmt::format(
      "Analyze the file {} in the workspace{}: load it with Python (pandas and matplotlib are installed) through the "
      "tool "
      "execute_code, look at its columns, types and missing values, then {}. Show a plot where it helps, and end with "
      "your findings.",
      text_of(arguments, "path"), in_session(arguments),
      question.empty() ? "say what stands out" : "answer: " + question);
  co_return user_message("Analyze a data file", std::move(text));
}

}  // namespace

std::vector<Prompt> all_prompts(ToolContext& context) {
  const auto suggest = [&context](Call& call, std::string name, json::object others) {
    return suggestions(context, call, std::move(name), std::move(others));
  };
  const auto session = argument("session_id", "The session to work in", false);
  std::vector<Prompt> prompts;
  prompts.push_back({.definition = {{"name", "run_snippet"},
                                    {"title", "Run a snippet"},
                                    {"description", "Runs a piece of code in a sandbox and explains it"},
                                    {"arguments", json::array{argument("language", "The language of the code", true),
                                                              argument("code", "The source text", true), session}}},
                     .get = run_snippet,
                     .suggest = suggest});
  prompts.push_back({.definition = {{"name", "fix_error"},
                                    {"title", "Fix an error"},
                                    {"description", "Finds out why code fails, fixes it and shows that it works"},
                                    {"arguments", json::array{argument("language", "The language of the code", true),
                                                              argument("code", "The source text that fails", true),
                                                              argument("error", "The error message", true), session}}},
                     .get = fix_error,
                     .suggest = suggest});
  prompts.push_back(
      {.definition = {{"name", "analyze_data"},
                      {"title", "Analyze a file"},
                      {"description", "Analyzes a data file in a session's workspace"},
                      {"arguments", json::array{argument("path", "The file, relative to /workspace", true),
                                                argument("question", "What to find out", false), session}}},
       .get = analyze_data,
       .suggest = suggest});
  return prompts;
}

}  // namespace cove::doors::mcp
