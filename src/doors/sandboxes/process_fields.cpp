#include "doors/sandboxes/process_fields.hpp"

#include <signal.h>

#include <cmath>

#include "doors/sandboxes/answers.hpp"

namespace cove::doors::sandboxes {

namespace json = boost::json;

Result<std::uint16_t> size_field(const json::object& object, std::string_view name, std::uint16_t usual) {
  COVE_TRY(const auto number, number_field(object, name));
  if (!number) return usual;
  if (*number < 1 || *number > 4096 || *number != std::floor(*number))
    return fail(Errc::invalid, fmt::format("{} must be a whole number between 1 and 4096", name));
  return static_cast<std::uint16_t>(*number);
}

Result<int> signal_field(const json::object& body) {
  const auto* value = body.if_contains("signal");
  if (value != nullptr && value->is_number()) {
    const auto number = value->to_number<double>();
    if (number >= 1 && number <= 64 && number == std::floor(number)) return static_cast<int>(number);
  }
  if (value != nullptr && value->is_string()) {
    for (int number = 1; number < 65; ++number) {
      const auto name = guest::signal_name(number);
      if (value->as_string() == name || value->as_string() == std::string_view(name).substr(3)) return number;
    }
  }
  return fail(Errc::invalid, "signal must be a name such as \"SIGTERM\" or a number from 1 to 64");
}

}  // namespace cove::doors::sandboxes
