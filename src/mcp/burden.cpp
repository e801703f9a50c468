#include "mcp/burden.hpp"

namespace cove::mcp {

namespace json = boost::json;

std::size_t weight_of(const json::value& value) {
  std::size_t weight = sizeof(json::value);
  if (const auto* text = value.if_string()) weight += text->capacity();
  if (const auto* list = value.if_array()) {
    for (const auto& element : *list) weight += weight_of(element);
  }
  if (const auto* object = value.if_object()) {
    for (const auto& [key, element] : *object) weight += key.size() + sizeof(json::value) + weight_of(element);
  }
  return weight;
}

std::shared_ptr<void> Burden::take(const std::string& tenant, std::size_t weight) {
  const auto held = held_;
  auto& now = (*held)[tenant];
  if (now + weight > kMost) {
    if (now == 0) held->erase(tenant);
    return nullptr;
  }
  now += weight;
  return {held.get(), [held, tenant, weight](void*) {
            const auto found = held->find(tenant);
            if ((found->second -= weight) == 0) held->erase(found);
          }};
}

}  // namespace cove::mcp
