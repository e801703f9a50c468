#pragma once

#include <boost/json.hpp>
#include <cstddef>
#include <optional>
#include <string>

namespace cove::schema {

struct Limits {
  std::size_t steps = 2'000'000;  // of checking; about as many comparisons
  std::size_t depth = 128;
};

// Whether a value fits a JSON Schema of 2020-12, or of draft-07 where the schema says so. nullopt: it fits; else the
// place and the reason: ".items[3] must be a string". Nothing is ever fetched: a $ref to what is not within the schema
// says nothing, and so does a pattern that cannot be checked in bounded time. A format is a remark, not a rule. A
// schema that costs more than the limits fits nothing.
std::optional<std::string> find_fault(const boost::json::object& schema, const boost::json::value& value,
                                      Limits limits = {});

}  // namespace cove::schema
