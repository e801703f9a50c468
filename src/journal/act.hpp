#pragma once

#include <boost/json.hpp>
#include <string>
#include <string_view>

#include "base/principal.hpp"

namespace cove::journal {

// Who acts, as far as the server knows. `client` is what the client calls itself.
struct Actor {
  std::string door = {};  // "": the server itself
  std::string client = {};
  std::string key_id = {};
};

// The sandbox in which something is done.
struct Subject {
  std::string sandbox;  // SandboxRow::id
  std::string name;
  std::string tenant;
};

// The kinds of acts.
namespace kind {
inline constexpr std::string_view kLifecycle = "lifecycle";  // made, changed, paused, ended
inline constexpr std::string_view kCommand = "command";
inline constexpr std::string_view kProgram = "program";  // of a language, or a handler
inline constexpr std::string_view kCell = "cell";
inline constexpr std::string_view kKernel = "kernel";  // started, restarted, interrupted, ended
inline constexpr std::string_view kFile = "file";
inline constexpr std::string_view kPackages = "packages";
inline constexpr std::string_view kNetwork = "network";
inline constexpr std::string_view kTool = "tool";
}  // namespace kind
[[nodiscard]] bool is_kind(std::string_view name);
// All of them, for messages.
[[nodiscard]] std::string kinds();

// What is done.
struct Act {
  std::string_view kind;
  std::string summary;              // one line for people
  boost::json::object detail = {};  // for programs
  boost::json::object repeat = {};  // all that it takes to do it again; empty: it cannot be done again
  std::string reference = {};       // "process 3", "cell k1/12"
  bool brief = false;               // written when it has ended, with the content it was given
};

// How an act ended.
struct Outcome {
  std::string word;  // "ok", "exit 1", "oom"
  bool good = true;
  boost::json::object result = {};  // for programs, and to compare with when it is done again
};

// Of a program: its first line that says something; and what is shown of it, its beginning where it is long.
std::string first_line(std::string_view code);
std::string excerpt(std::string_view code);

// Who sent a request.
Actor actor_of(const Principal& principal);

}  // namespace cove::journal
