#pragma once

#include <boost/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "cli/command.hpp"
#include "client/http_client.hpp"
#include "json/fields.hpp"

namespace CLI {
class Option;
}

namespace cove::cli {

// What every command that talks to a server takes.
struct ClientOptions {
  std::string url = "http://127.0.0.1:8000";
  std::string key;
  bool json = false;
};

// `words` is what the usage line shows behind the options.
void describe(CLI::App& command, ClientOptions& options, std::string words);
Result<client::Client> connect(const ClientOptions& options, const client::Waiting& waiting = {});

// Every client command, in the order the help shows them.
void add_client_commands(CLI::App& app, Commands& commands);

// Says what failed (as JSON too, when that was asked for), and returns `status`.
int complain(const ClientOptions& options, const Error& error, int status = 1);

// Indented JSON, a field on each line.
std::string pretty(const boost::json::value& value);

// A JSON object of an answer; Errc::io for anything else.
Result<boost::json::object> object_of(const std::string& body);
// Fields of an answer, with something harmless when they are missing: servers may grow and shrink.
using cove::json::text_of;
std::int64_t number_of(const boost::json::object& object, std::string_view name);
client::Request json_request(std::string method, std::string target, const boost::json::object& body);

// "K=V" texts as an object. Errc::invalid names the option.
Result<boost::json::object> pairs(std::string_view option, const Words& texts);
// What is to be run: the code that was given, a file's, or standard input's. Errc::invalid when it is both.
Result<std::string> code_from(const std::string& code, const std::string& file);
// --timeout, if it was given, as the body's "timeoutSeconds".
Result<> set_timeout(boost::json::object& body, const std::string& text);
// An option that may be given again, each time with one value.
CLI::Option* again(CLI::Option* option);

}  // namespace cove::cli
