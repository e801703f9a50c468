#pragma once

#include <boost/json.hpp>
#include <span>
#include <string_view>

#include "doors/sandboxes/door.hpp"

namespace cove::doors::sandboxes {

using FieldNames = std::span<const std::string_view>;

// A sentence for each field of a request that nobody reads, with the name that was probably meant.
boost::json::array unknown_fields(const boost::json::object& body, FieldNames known);

// A sentence about what a request asks for and a sandbox that was there already does not have. None when it has all.
boost::json::array not_applied(const boost::json::object& body, const sandbox::CreateRequest& asked,
                               const sandbox::Sandbox& sandbox);

// Both as part of an answer: its `notes`, to which these are added.
void add_notes(boost::json::object& answer, const boost::json::array& notes);

// Reads the whole body, and parses it. Fields other than these are ignored and named in the header Cove-Notes.
Task<Result<boost::json::object>> read_object(const Services& services, http::Exchange& exchange, FieldNames known);

}  // namespace cove::doors::sandboxes
