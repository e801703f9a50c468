#include "mcp/request_memory.hpp"

namespace cove::mcp {

namespace json = boost::json;

std::size_t bytes_of(const json::value& value) {
  std::size_t bytes = sizeof(json::value);
  if (const auto* text = value.if_string()) bytes += text->capacity();
  if (const auto* list = value.if_array()) {
    for (const auto& element : *list) bytes += bytes_of(element);
  }
  if (const auto* object = value.if_object()) {
    for (const auto& [key, element] : *object) bytes += key.size() + sizeof(json::value) + bytes_of(element);
  }
  return bytes;
}

std::shared_ptr<void> RequestMemory::take(const std::string& tenant, std::size_t bytes) {
  const auto held = held_;
  auto& now = (*held)[tenant];
  if (now + bytes > kMax) {
    if (now == 0) held->erase(tenant);
    return nullptr;
  }
  now += bytes;
  return {held.get(), [held, tenant, bytes](void*) {
            const auto found = held->find(tenant);
            if ((found->second -= bytes) == 0) held->erase(found);
          }};
}

}  // namespace cove::mcp
