#pragma once

#include <boost/json.hpp>
#include <map>
#include <string>

#include "mcp/message.hpp"
#include "mcp/revision.hpp"

namespace cove::mcp {

// Something a server wants of its client: to say something (`elicitation/create`), to have its model say something
// (`sampling/createMessage`), or where it works (`roots/list`).
struct Question {
  std::string key;  // unique among those of one call
  std::string method;
  boost::json::object params;
};

using Answers = std::map<std::string, Or<>>;  // by key; a client may answer with an error
using Asked = tl::expected<Answers, Or<>>;    // or what the call is to be answered with instead

// A form of plain fields.
Question elicitation(std::string key, std::string message, boost::json::object schema);

// The capabilities that a client must have declared to be asked this.
boost::json::object needed_for(const Question& question);
bool declared(const boost::json::object& capabilities, const boost::json::object& needed);
bool known_in(Revision revision, const Question& question);

// What was filled into a form, when it was.
const boost::json::object* accepted(const Answers& answers, const std::string& key);

}  // namespace cove::mcp
