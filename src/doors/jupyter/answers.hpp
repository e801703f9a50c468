#pragma once

#include <boost/json.hpp>
#include <memory>
#include <optional>
#include <string>

#include "doors/jupyter/door.hpp"
#include "egress/policy.hpp"
#include "http/response.hpp"

namespace cove::doors::jupyter {

// The one place where errors become statuses.
http::Response answer_to(const Error& error);
// {"message", "reason"}: the form of this API's errors.
http::Response in_our_form(http::Response response);

using Answer = Result<std::optional<http::Response>>;
Task<> send_answer(Services& services, http::Exchange& exchange, Answer answer);

// Adapts a handler to a route.
template <auto handler>
Task<> answered(Services& services, http::Exchange& exchange) {
  Answer answer = co_await handler(services, exchange);
  co_await send_answer(services, exchange, std::move(answer));
}

// A JSON object; an empty body is an empty object.
Task<Result<boost::json::object>> read_object(const Services& services, http::Exchange& exchange);

// The sandbox that the request is limited to, by its path, its listener, its header or its user; null for none.
Task<Result<std::shared_ptr<sandbox::Sandbox>>> scope_of(Services& services, const http::Request& request);
// The kernel that the path names, in the caller's tenant and scope.
Task<Result<NamedKernel>> find_kernel(Services& services, const http::Request& request);

// A kernel as clients see it.
boost::json::object to_json(const Services& services, const NamedKernel& named);

// What a client asks for when it starts a kernel.
struct KernelWish {
  sandbox::KernelLanguage language = sandbox::KernelLanguage::python;
  std::vector<std::string> variables = {};     // "K=V"
  std::string id = {};                         // of the client's choice; "": none
  std::optional<egress::Policy> network = {};  // of a sandbox that is made for it
};
// `name`, `env` and `kernel_id` of the object.
Result<KernelWish> parse_kernel(const Services& services, const boost::json::object& body);
// In the sandbox, or in one that is made for it.
Task<Result<NamedKernel>> start_kernel(Services& services, http::Exchange& exchange,
                                       std::shared_ptr<sandbox::Sandbox> sandbox, KernelWish wish);

}  // namespace cove::doors::jupyter
