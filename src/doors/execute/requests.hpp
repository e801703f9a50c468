#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "fastapi/checker.hpp"

namespace cove::doors::execute {

using fastapi::json_text;
using fastapi::Problems;
using fastapi::Value;

// The request bodies of this door. A malformed body gives all its errors, with the messages and in the order of
// pydantic.

struct FileReference {
  std::string path;
  std::string file_id;
};

struct ExecuteRequest {
  std::string code;
  std::optional<std::string> input;
  std::chrono::milliseconds timeout{2000};
  bool echo = true;
  std::vector<FileReference> files;
};

struct SessionRequest {
  std::vector<FileReference> files;
  std::chrono::seconds ttl{900};
};

struct BashRequest {
  std::string command;
  std::chrono::milliseconds timeout{30'000};
};

std::variant<ExecuteRequest, Problems> parse_execute(const Value& body);
std::variant<SessionRequest, Problems> parse_session(const Value& body);
std::variant<BashRequest, Problems> parse_bash(const Value& body);

// A path relative to /workspace, normalized: "a//b/./c/" is "a/b/c"; or the error message.
enum class Entrypoint : std::uint8_t { reserved, allowed };
std::variant<std::string, Problems> staged_path(std::string_view path, Entrypoint entrypoint);

}  // namespace cove::doors::execute
