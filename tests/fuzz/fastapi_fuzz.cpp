// Any bytes as the body of a FastAPI-style request: every answer to it is JSON that others can read, whatever the
// checks find, and what was read and written once stays as it is.
#include <boost/json.hpp>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <variant>
#include <vector>

#include "fastapi/checker.hpp"
#include "fastapi/value.hpp"

namespace {

using namespace cove;
using fastapi::Checker;

[[noreturn]] void give_up(const char* why) {
  std::fprintf(stderr, "%s\n", why);
  std::abort();
}

boost::json::value read_as_json(const std::string& text, const char* why) {
  boost::system::error_code failed;
  boost::json::parse_options options;
  options.max_depth = 4096;
  auto value = boost::json::parse(text, failed, {}, options);
  if (failed) give_up(why);
  return value;
}

void check_list(const fastapi::Problems& problems) {
  const auto list = read_as_json(problems.list, "a list of problems that is not JSON");
  if (!list.is_array() || list.get_array().empty()) give_up("a list of problems without one");
}

void check_value(const fastapi::Value& value) {
  const auto text = fastapi::to_json(value);
  read_as_json(text, "a value that is not JSON once it is written");
  const auto again = fastapi::parse_json(text);
  const auto* read = std::get_if<fastapi::Value>(&again);
  if (read == nullptr || fastapi::to_json(*read) != text) give_up("a value that changes when it is read again");
}

void check_members(const fastapi::Value& body) {
  Checker checker;
  if (checker.object(body, fastapi::kBody)) {
    for (const auto* name : {"code", "timeout", "files"}) {
      const auto* value = checker.member(body, fastapi::kBody, name, Checker::Presence::required);
      const auto loc = fastapi::place(fastapi::kBody, name);
      std::string text;
      std::int64_t number = 7;
      bool flag = false;
      std::vector<std::string> texts;
      fastapi::Value object;
      checker.text(value, loc, text);
      checker.whole(value, loc, 1, 300, number);
      if (number < 1 || number > 300) give_up("a number outside of its range");
      checker.integer(value, loc, number);
      checker.boolean(value, loc, flag);
      checker.texts(value, loc, texts);
      checker.dictionary(value, loc, object);
    }
  }
  if (!checker.good()) check_list(checker.problems());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  if (size == 0) return 0;
  static constexpr const char* kTypes[] = {"application/json", "text/plain", "", "application/x-www-form-urlencoded"};
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto body = fastapi::read_body(bytes, kTypes[data[0] % 4U]);
  if (const auto* problems = std::get_if<fastapi::Problems>(&body)) check_list(*problems);
  if (const auto* value = std::get_if<fastapi::Value>(&body)) {
    check_value(*value);
    check_members(*value);
  }
  read_as_json(fastapi::json_text(bytes), "a text that is not JSON once it is written");
  check_list(fastapi::file_is_text(bytes));
  return 0;
}
