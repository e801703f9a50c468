#pragma once

#include <boost/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "cli/command.hpp"
#include "client/http_client.hpp"
#include "json/fields.hpp"

namespace cove::cli {

// The options of every command that talks to a server.
struct ClientOptions {
  std::string url = "http://127.0.0.1:8000";
  std::string key;
  bool json = false;
};

// --url and --key alone, in the words of the command.
struct ServerHelp {
  const char* url;
  const char* key;
};
void describe_server(App& command, ClientOptions& options, const ServerHelp& help);

// `words` follows the options in the usage line.
void describe(App& command, ClientOptions& options, const std::string& words);
Result<client::Client> connect(const ClientOptions& options, const client::Waiting& waiting = {});

// Every client command, in the order the help shows them.
void add_client_commands(App& app, Commands& commands);

// A sentence of the server's with our flags in the place of its fields: --memory for memoryLimit.
std::string in_flags(std::string_view sentence);
// Reports an error (as JSON too, with --json) and returns `status`.
int report_error(const ClientOptions& options, const Error& error, int status = 1);
// The exit status: 0, or 1 with the error reported.
int told(const ClientOptions& options, const Result<>& done);

// Indented JSON, a field on each line.
std::string pretty(const boost::json::value& value);

// The JSON object in an answer; Errc::io for anything else.
Result<boost::json::object> object_of(const std::string& body);
// Fields of an answer, with a harmless default when they are missing, as from a server of another version.
using cove::json::text_of;
std::int64_t number_of(const boost::json::object& object, std::string_view name);
// Says on stderr what the server notes about the end of a command: a limit that was met, a crash.
void tell_note(const boost::json::object& end);
client::Request json_request(std::string method, std::string target, const boost::json::object& body);

// "K=V" texts as an object. Errc::invalid names the option.
Result<boost::json::object> pairs(std::string_view option, const Words& texts);
// The code to run: from --code, from a file, or from standard input. Errc::invalid for both --code and a file.
Result<std::string> code_from(const std::string& code, const std::string& file);
// --timeout, if it was given, as the body's "timeoutSeconds".
Result<> set_timeout(boost::json::object& body, const std::string& text);
// Makes an option repeatable, with one value each time.
Option* again(Option* option);

}  // namespace cove::cli
