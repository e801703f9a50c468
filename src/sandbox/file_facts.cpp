#include "sandbox/file_facts.hpp"

#include <algorithm>
#include <boost/json.hpp>

namespace cove::sandbox {

namespace json = boost::json;

Result<FileFacts> parse_facts(const std::string& line) {
  boost::system::error_code failed;
  const auto value = json::parse(line, failed);
  if (failed || !value.is_object()) return fail(Errc::io, "the sandbox's file helper broke the protocol");
  const auto number = [&](std::string_view name) {
    const auto* field = value.as_object().if_contains(name);
    boost::system::error_code ec;
    return field == nullptr ? 0 : field->to_number<std::int64_t>(ec);
  };
  return FileFacts{.size = static_cast<std::uint64_t>(std::max<std::int64_t>(0, number("size"))),
                   .mtime_ns = number("mtime_ns"),
                   .inode = static_cast<std::uint64_t>(number("inode"))};
}

std::string etag_of(const FileFacts& facts) {
  return fmt::format("\"{:x}-{:x}-{:x}\"", facts.inode, facts.size, facts.mtime_ns);
}

}  // namespace cove::sandbox
