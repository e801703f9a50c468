#pragma once

#include <boost/json.hpp>
#include <map>
#include <string>

#include "mcp/message.hpp"
#include "mcp/revision.hpp"

namespace cove::mcp {

// A request to the client: for input of its user (`elicitation/create`), for a completion of its model
// (`sampling/createMessage`), or for its directories (`roots/list`).
struct Question {
  std::string key;  // unique among those of one call
  std::string method;
  boost::json::object params;
};

using Answers = std::map<std::string, Or<>>;  // by key; a client may answer with an error
using Asked = tl::expected<Answers, Or<>>;    // or the result to return from the call

// A form of plain fields.
Question elicitation(std::string key, std::string message, boost::json::object schema);

// The capabilities that a client must have declared to be asked this.
boost::json::object needed_for(const Question& question);
bool declared(const boost::json::object& capabilities, const boost::json::object& needed);
bool known_in(Revision revision, const Question& question);

// The values of a submitted form; null if it was declined.
const boost::json::object* accepted(const Answers& answers, const std::string& key);
// Whether the form was submitted with its field of the same name set to true.
bool agreed(const Answers& answers, const std::string& key);

}  // namespace cove::mcp
