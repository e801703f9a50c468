#include "doors/mcp/execution_outputs.hpp"

#include <fmt/format.h>

#include <charconv>
#include <optional>

#include "base/text.hpp"

namespace cove::doors::mcp {
namespace {

namespace json = boost::json;
using cove::mcp::Call;
using cove::mcp::Fault;
using cove::mcp::Or;

constexpr std::string_view kOutputScheme = "execution://";
constexpr std::size_t kMaxOutputPart = std::size_t{4} << 20;  // in one answer, so that clients can read it as one line

// Of "offset=N"; 0 of "". nullopt for anything else.
std::optional<std::uint64_t> offset_of(std::string_view query) {
  constexpr std::string_view kName = "offset=";
  if (query.empty()) return 0;
  if (!query.starts_with(kName)) return std::nullopt;
  query.remove_prefix(kName.size());
  std::uint64_t value = 0;
  const auto [end, failed] = std::from_chars(query.data(), query.data() + query.size(), value);
  if (query.empty() || failed != std::errc() || end != query.data() + query.size()) return std::nullopt;
  return value;
}

std::string why(const RecentOutputs::Stream& stream) {
  return stream.refusal().empty() ? "more was written than is kept of one stream (mcp.output_size)" : stream.refusal();
}

}  // namespace

bool ExecutionOutputs::knows(std::string_view uri) const {
  return uri.starts_with(kOutputScheme);
}

json::array ExecutionOutputs::templates() const {
  json::array all;
  for (const auto* stream : {"stdout", "stderr"}) {
    all.push_back(json::object{{"uriTemplate", fmt::format("execution://{{id}}/{}", stream)},
                               {"name", fmt::format("execution-{}", stream)},
                               {"title", fmt::format("Whole {} of an execution", stream)},
                               {"description",
                                "The output of a recent run, kept for up to an hour. Of more than 4 MiB the first "
                                "part; _meta of the answer has the URI of the next, and how much is not kept"},
                               {"mimeType", "text/plain"}});
  }
  return all;
}

Task<Or<Resources::Page>> ExecutionOutputs::list(Call&, std::string, std::size_t) {
  co_return Page{};
}

Task<Or<json::array>> ExecutionOutputs::read(Call& call, std::string uri) {
  std::string_view rest = uri;
  rest.remove_prefix(kOutputScheme.size());
  const auto id = take_until(rest, '/');
  const auto output = context_.outputs.find(call.tenant, id);
  const auto stream = take_until(rest, '?');
  const auto offset = offset_of(rest);
  if (!output || !offset || (stream != "stdout" && stream != "stderr"))
    co_return tl::unexpected<Fault>(no_resource(call, uri));
  const auto& whole = stream == "stdout" ? output->out : output->err;
  if (*offset > whole.size()) co_return tl::unexpected<Fault>(no_resource(call, uri));
  auto bytes = whole.read(*offset, kMaxOutputPart);
  if (!bytes)
    co_return cove::mcp::fault(cove::mcp::Code::internal, "The output cannot be read: " + bytes.error().message);
  const bool more = *offset + bytes->size() < whole.size();
  if (more) bytes->resize(bytes->size() - unfinished_utf8(*bytes));
  const auto next = *offset + bytes->size();
  auto content = content_of(uri, "text/plain", std::move(*bytes));
  json::object meta;
  if (more || *offset > 0) {
    json::object place{{"offset", *offset}, {"size", whole.size()}};
    if (more) place["next"] = fmt::format("{}?offset={}", execution_uri(id, stream), next);
    meta["cove/part"] = std::move(place);
  }
  if (whole.left_out() > 0)
    meta["cove/left-out"] = {{"bytes", whole.left_out()}, {"written", whole.written()}, {"reason", why(whole)}};
  if (!meta.empty()) content["_meta"] = std::move(meta);
  json::array contents;
  contents.push_back(std::move(content));
  co_return contents;
}

Task<Or<std::string>> ExecutionOutputs::watch(Call& call, std::string uri) {
  auto there = co_await read(call, uri);
  if (!there) co_return tl::unexpected<Fault>(there.error());
  co_return uri;  // the output of a finished run does not change
}

Task<std::vector<std::string>> ExecutionOutputs::suggest(Call&, std::string, json::object) {
  co_return std::vector<std::string>();
}

}  // namespace cove::doors::mcp
