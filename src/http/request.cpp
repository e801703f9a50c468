#include "http/request.hpp"

#include "http/encoding.hpp"

namespace cove::http {

std::optional<std::string> Request::query(std::string_view name) const {
  for (const auto& [key, value] : queries) {
    if (key == name) return value;
  }
  return std::nullopt;
}

std::vector<std::string> Request::query_all(std::string_view name) const {
  std::vector<std::string> all;
  for (const auto& [key, value] : queries) {
    if (key == name) all.push_back(value);
  }
  return all;
}

std::string_view Request::header(std::string_view name) const {
  for (const auto& [key, value] : headers) {
    if (equals_ignoring_case(key, name)) return value;
  }
  return {};
}

std::vector<std::string_view> Request::header_all(std::string_view name) const {
  std::vector<std::string_view> all;
  for (const auto& [key, value] : headers) {
    if (equals_ignoring_case(key, name)) all.emplace_back(value);
  }
  return all;
}

const std::string& Request::param(std::string_view name) const {
  static const std::string kNone;
  for (const auto& [key, value] : params) {
    if (key == name) return value;
  }
  return kNone;
}

}  // namespace cove::http
