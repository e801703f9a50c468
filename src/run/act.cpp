#include "run/act.hpp"

#include "base/text.hpp"
#include "json/fields.hpp"

namespace cove::run {
namespace {

namespace json = boost::json;
using sandbox::ProcessKind;

constexpr std::size_t kShownWords = 64;
constexpr std::size_t kShownWord = 1024;

// As a shell would read it.
std::string quoted(std::string_view word) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=:,@%+";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string_view::npos) return std::string(word);
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

std::string command_line(const std::vector<std::string>& argv) {
  std::string line;
  for (std::size_t i = 0; i < argv.size() && i < kShownWords; ++i)
    line += (i == 0 ? "" : " ") + quoted(std::string_view(argv[i]).substr(0, kShownWord));
  return line;
}

json::array shown(const std::vector<std::string>& argv) {
  json::array words;
  for (std::size_t i = 0; i < argv.size() && i < kShownWords; ++i)
    words.emplace_back(replace_invalid_utf8(std::string_view(argv[i]).substr(0, kShownWord)));
  return words;
}

// JSON is UTF-8; arguments, variables and input may be anything.
json::array encoded(const std::vector<std::string>& texts) {
  json::array array;
  for (const auto& text : texts) array.emplace_back(base64(text));
  return array;
}

Result<std::string> decoded(const json::value& value) {
  const auto text = value.is_string() ? from_base64(std::string_view(value.as_string())) : std::nullopt;
  if (!text) return fail(Errc::invalid, "the journal's record of this act is damaged");
  return *text;
}

Result<std::vector<std::string>> decoded_list(const json::object& object, std::string_view name) {
  std::vector<std::string> texts;
  const auto* array = object.if_contains(name);
  if (array == nullptr || !array->is_array()) return texts;
  for (const auto& value : array->as_array()) {
    COVE_TRY(auto text, decoded(value));
    texts.push_back(std::move(text));
  }
  return texts;
}

Result<std::string> decoded_field(const json::object& object, std::string_view name) {
  const auto* value = object.if_contains(name);
  return value == nullptr ? Result<std::string>(std::string()) : decoded(*value);
}

void describe(journal::Act& act, std::string_view language, const std::string& code) {
  act.kind = journal::kind::kProgram;
  act.summary = journal::first_line(code);
  act.detail["language"] = language;
  act.detail["code"] = replace_invalid_utf8(journal::excerpt(code));
  act.repeat["code"] = base64(code);
}

}  // namespace

journal::Act act_of(const Spec& spec, const sandbox::ProcessRequest& request) {
  journal::Act act{.kind = journal::kind::kCommand, .summary = {}};
  if (const auto* command = std::get_if<Command>(&spec.code)) {
    act.summary = command_line(command->argv);
    act.detail["command"] = shown(command->argv);
    act.repeat["form"] = "command";
    act.repeat["argv"] = encoded(command->argv);
    if (command->program) {
      describe(act, command->program->language, command->program->code);
      act.repeat["path"] = command->program->path;
    }
  } else if (const auto* program = std::get_if<sandbox::Program>(&spec.code)) {
    describe(act, "python", program->code);
    act.repeat["form"] = "program";
    act.repeat["path"] = program->path;
    act.repeat["argv"] = encoded(program->arguments);
    act.repeat["echo"] = program->echo == sandbox::Program::Echo::last_expression;
    if (program->cpu.count() > 0) act.repeat["cpuSeconds"] = program->cpu.count();
  } else {
    const auto& call = std::get<sandbox::HandlerCall>(spec.code);
    describe(act, "python", call.code);
    act.detail["handler"] = true;
    act.repeat["form"] = "handler";
    act.repeat["event"] = base64(call.event_json);
    act.repeat["context"] = base64(call.context_json);
  }
  const bool background = request.kind == ProcessKind::background;
  if (background) act.detail["background"] = true;
  if (request.terminal) act.detail["terminal"] = true;
  if (!request.directory.empty()) act.detail["directory"] = act.repeat["directory"] = request.directory;
  if (background) act.repeat["background"] = true;
  if (!request.variables.empty()) act.repeat["variables"] = encoded(request.variables);
  if (request.timeout) act.repeat["timeoutMs"] = request.timeout->count();
  if (spec.input) act.repeat["input"] = base64(*spec.input);
  // What somebody types into it is not kept.
  if (request.terminal || (request.input == sandbox::InputMode::open && !spec.input)) act.repeat = {};
  return act;
}

Result<Spec> spec_of(std::string_view kind, const json::object& repeat) {
  const auto form = cove::json::text_of(repeat, "form");
  Spec spec;
  COVE_TRY(auto argv, decoded_list(repeat, "argv"));
  COVE_TRY(auto code, decoded_field(repeat, "code"));
  if (form == "command") {
    if (argv.empty()) return fail(Errc::invalid, "the journal's record of this act is damaged");
    spec.code = Command{.argv = std::move(argv)};
    if (kind == journal::kind::kProgram)
      spec.process.files.push_back({.path = cove::json::text_of(repeat, "path"), .mode = 0644, .content = code});
  } else if (form == "program") {
    const auto* echo = repeat.if_contains("echo");
    sandbox::Program program{.code = std::move(code),
                             .echo = echo != nullptr && echo->is_bool() && echo->as_bool()
                                         ? sandbox::Program::Echo::last_expression
                                         : sandbox::Program::Echo::none,
                             .path = cove::json::text_of(repeat, "path"),
                             .arguments = std::move(argv)};
    if (const auto* cpu = repeat.if_contains("cpuSeconds"); cpu != nullptr && cpu->is_int64())
      program.cpu = std::chrono::seconds(cpu->as_int64());
    spec.code = std::move(program);
  } else {
    COVE_TRY(auto event, decoded_field(repeat, "event"));
    COVE_TRY(auto context, decoded_field(repeat, "context"));
    spec.code = sandbox::HandlerCall{
        .code = std::move(code), .event_json = std::move(event), .context_json = std::move(context)};
  }
  spec.process.directory = cove::json::text_of(repeat, "directory");
  if (repeat.contains("background")) spec.process.kind = ProcessKind::background;
  COVE_TRY(spec.process.variables, decoded_list(repeat, "variables"));
  if (const auto* timeout = repeat.if_contains("timeoutMs"); timeout != nullptr && timeout->is_int64())
    spec.process.timeout = std::chrono::milliseconds(timeout->as_int64());
  if (repeat.contains("input")) {
    COVE_TRY(spec.input, decoded_field(repeat, "input"));
  }
  return spec;
}

}  // namespace cove::run
