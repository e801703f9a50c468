#include "doors/mcp/execution_outputs.hpp"

#include <fmt/format.h>

#include "base/text.hpp"

namespace cove::doors::mcp {
namespace {

namespace json = boost::json;
using cove::mcp::Call;
using cove::mcp::Fault;
using cove::mcp::Or;

constexpr std::string_view kScheme = "execution://";
constexpr std::size_t kMax = std::size_t{4} << 20;  // in one answer, so that clients can read it as one line

}  // namespace

bool ExecutionOutputs::knows(std::string_view uri) const {
  return uri.starts_with(kScheme);
}

json::array ExecutionOutputs::templates() const {
  json::array all;
  for (const auto* stream : {"stdout", "stderr"}) {
    all.push_back(json::object{{"uriTemplate", fmt::format("execution://{{id}}/{}", stream)},
                               {"name", fmt::format("execution-{}", stream)},
                               {"title", fmt::format("Whole {} of an execution", stream)},
                               {"description", "The whole output of a recent run, kept for up to an hour"},
                               {"mimeType", "text/plain"}});
  }
  return all;
}

Task<Or<Resources::Page>> ExecutionOutputs::list(Call&, std::string, std::size_t) {
  co_return Page{};
}

Task<Or<json::array>> ExecutionOutputs::read(Call& call, std::string uri) {
  std::string_view rest = uri;
  rest.remove_prefix(kScheme.size());
  const auto id = take_until(rest, '/');
  const auto output = context_.outputs.find(call.tenant, id);
  if (!output || (rest != "stdout" && rest != "stderr")) co_return tl::unexpected<Fault>(no_resource(call, uri));
  auto bytes = rest == "stdout" ? output->out : output->err;
  json::array contents;
  if (bytes.size() > kMax) bytes.resize(kMax - unfinished_utf8(std::string_view(bytes).substr(0, kMax)));
  contents.push_back(content_of(uri, "text/plain", std::move(bytes)));
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
