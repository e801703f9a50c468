#include "cli/command.hpp"

#include <boost/json.hpp>

#include "base/text.hpp"
#include "cli/console.hpp"

namespace cove::cli {

int refuse_usage(const std::string& message, bool as_json) {
  tell("{}", message);
  if (as_json) [[maybe_unused]]
    const auto put = put_line(json_of_error(125, message));
  return 125;
}

std::string json_of_error(int status, const std::string& message) {
  namespace json = boost::json;
  return json::serialize(json::object{{"exit_code", status}, {"error", replace_invalid_utf8(message)}});
}

}  // namespace cove::cli
