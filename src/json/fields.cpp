#include "json/fields.hpp"

namespace cove::json {

std::string text_of(const boost::json::object& object, std::string_view name) {
  const auto* value = object.if_contains(name);
  return value != nullptr && value->is_string() ? std::string(value->as_string()) : std::string();
}

const boost::json::value* given_field(const boost::json::object& object, std::string_view name) {
  const auto* value = object.if_contains(name);
  return value == nullptr || value->is_null() ? nullptr : value;
}

Result<std::optional<std::string>> text_field(const boost::json::object& object, std::string_view name) {
  const auto* value = given_field(object, name);
  if (value == nullptr) return std::optional<std::string>();
  if (!value->is_string()) return wrong_field(name, "must be a string");
  return std::optional(std::string(value->as_string()));
}

Result<std::optional<double>> number_field(const boost::json::object& object, std::string_view name) {
  const auto* value = given_field(object, name);
  if (value == nullptr) return std::optional<double>();
  if (!value->is_number()) return wrong_field(name, "must be a number");
  return std::optional(value->to_number<double>());
}

Result<std::optional<bool>> bool_field(const boost::json::object& object, std::string_view name) {
  const auto* value = given_field(object, name);
  if (value == nullptr) return std::optional<bool>();
  if (!value->is_bool()) return wrong_field(name, "must be true or false");
  return std::optional(value->as_bool());
}

Result<const boost::json::object*> object_field(const boost::json::object& object, std::string_view name) {
  const auto* value = given_field(object, name);
  if (value == nullptr) return static_cast<const boost::json::object*>(nullptr);
  if (!value->is_object()) return wrong_field(name, "must be an object");
  return &value->as_object();
}

tl::unexpected<Error> wrong_field(std::string_view name, std::string_view why) {
  return fail(Errc::invalid, fmt::format("{} {}", name, why));
}

}  // namespace cove::json
