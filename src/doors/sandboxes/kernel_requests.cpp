#include "doors/sandboxes/kernel_requests.hpp"

#include <cmath>

namespace cove::doors::sandboxes {
namespace {

namespace json = boost::json;

constexpr double kMaxWhole = 9'007'199'254'740'991;  // what every JSON parser counts exactly

}  // namespace

Task<Result<NamedKernel>> find_kernel(Services& services, const http::Request& request, Need need) {
  COVE_CO_TRY(auto found, co_await find_sandbox(services, request));
  COVE_CO_TRY(auto kernel, services.registry.kernels().find(*found, request.param("kid")));
  if (need == Need::to_speak && found->state() == sandbox::State::paused)
    co_return fail(Errc::conflict, "the sandbox is paused: resume it first");
  co_return NamedKernel{.sandbox = found, .kernel = std::move(kernel)};
}

Result<std::optional<std::int64_t>> whole_field(const json::object& object, std::string_view name, double least) {
  COVE_TRY(const auto number, number_field(object, name));
  if (!number) return std::optional<std::int64_t>();
  if (*number < least || *number > kMaxWhole || *number != std::floor(*number))
    return fail(Errc::invalid, fmt::format("{} must be a whole number of at least {}", name, least));
  return std::optional(static_cast<std::int64_t>(*number));
}

Result<json::object> object_field(const json::object& object, std::string_view name) {
  const auto* value = object.if_contains(name);
  if (value == nullptr || value->is_null()) return json::object();
  if (!value->is_object()) return fail(Errc::invalid, fmt::format("{} must be an object", name));
  return value->as_object();
}

Result<std::string> code_field(const json::object& object) {
  COVE_TRY(const auto code, text_field(object, "code"));
  if (!code) return fail(Errc::invalid, "code must be a string");
  return *code;
}

}  // namespace cove::doors::sandboxes
