#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "http/request.hpp"
#include "http/response.hpp"

namespace cove::http {

// The request's one Origin, if it is among `listed`: a page of another site that the operator lets in. "": no such
// page. The server's own pages need nothing of this.
std::string page_origin(const Request& request, const std::vector<std::string>& listed);

// The answer to a browser that asks, before it sends a request of that page, whether it may. Browsers ask without a
// key, so it is the same whatever the path: it tells nobody which routes there are. Nothing: the request is not one.
std::optional<Response> preflight_answer(const Request& request, std::string_view page);

// Lets that page read the answer, with every one of its headers. Nothing is said of credentials: there are no cookies
// here, and keys come in headers.
void admit_page(std::string_view page, NameValues& headers);

}  // namespace cove::http
