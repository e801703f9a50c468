#include "oauth/token.hpp"

#include <algorithm>
#include <array>
#include <boost/json.hpp>

#include "base/text.hpp"
#include "json/fields.hpp"

namespace cove::oauth {
namespace {

namespace json = boost::json;
using cove::json::text_of;

constexpr std::size_t kLongest = 8192;
constexpr std::size_t kLongestSubject = 256;
constexpr std::int64_t kLeeway = 60;  // seconds that clocks may differ
constexpr double kLastSecond = 9e9;   // in the year 2255

tl::unexpected<Error> refuse(std::string_view why) {
  return fail(Errc::denied, fmt::format("the token {}", why));
}

Result<json::object> object_in(std::string_view part) {
  const auto text = from_base64url(part);
  if (!text) return refuse("is not base64url");
  json::parse_options options;
  options.max_depth = 8;
  boost::system::error_code failed;
  auto value = json::parse(*text, failed, {}, options);
  if (failed || !value.is_object()) return refuse("has a part that is not a JSON object");
  return std::move(value.as_object());
}

std::optional<double> time_of(const json::object& claims, std::string_view name) {
  const auto* value = claims.if_contains(name);
  if (value == nullptr || !value->is_number()) return std::nullopt;
  return value->to_number<double>();
}

// A text of words, or a list of them.
std::vector<std::string> words_of(const json::object& claims, std::string_view name) {
  std::vector<std::string> out;
  const auto* value = claims.if_contains(name);
  if (value != nullptr && value->is_array()) {
    for (const auto& one : value->as_array()) {
      if (one.is_string()) out.emplace_back(one.as_string());
    }
  } else {
    const auto text = text_of(claims, name);
    for (std::size_t at = 0; at < text.size();) {
      const auto end = std::min(text.find(' ', at), text.size());
      if (end > at) out.push_back(text.substr(at, end - at));
      at = end + 1;
    }
  }
  return out;
}

bool has(const std::vector<std::string>& all, const std::string& one) {
  return std::ranges::find(all, one) != all.end();
}

}  // namespace

TokenCheck::TokenCheck(std::vector<SigningKey> keys, Demands demands)
    : keys_(std::move(keys)), demands_(std::move(demands)) {}

Result<Holder> TokenCheck::check(std::string_view token, std::chrono::system_clock::time_point now) const {
  const auto first = token.find('.');
  const auto second = first == std::string_view::npos ? first : token.find('.', first + 1);
  if (token.size() > kLongest || second == std::string_view::npos ||
      token.find('.', second + 1) != std::string_view::npos)
    return refuse("is not a JWT");
  COVE_TRY(const auto header, object_in(token.substr(0, first)));
  const auto written = token.substr(second + 1);
  const auto signature = written.ends_with('=') ? std::nullopt : from_base64url(written);
  if (!signature) return refuse("has a signature that is not base64url");
  if (header.contains("crit")) return refuse("has a \"crit\" header, which is not supported");
  const auto algorithm = text_of(header, "alg");
  const auto id = text_of(header, "kid");
  const auto signs = [&](const SigningKey& key) {
    return key.algorithm() == algorithm && (id.empty() || key.id().empty() || key.id() == id) &&
           key.signed_this(token.substr(0, second), *signature);
  };
  if (std::ranges::none_of(keys_, signs)) return refuse("is not signed by a known key");

  COVE_TRY(const auto claims, object_in(token.substr(first + 1, second - first - 1)));
  const auto seconds =
      static_cast<double>(std::chrono::duration_cast<std::chrono::seconds>(now.time_since_epoch()).count());
  const auto expires = time_of(claims, "exp");
  if (!expires || *expires + kLeeway <= seconds) return refuse("has expired or has no \"exp\"");
  const auto begins = claims.contains("nbf") ? time_of(claims, "nbf") : 0;
  if (!begins || *begins - kLeeway > seconds) return refuse("is not valid yet");
  const Holder holder{.issuer = text_of(claims, "iss"), .subject = text_of(claims, "sub")};
  if (!has(demands_.issuers, holder.issuer)) return refuse("is from an untrusted issuer");
  const auto audience = claims.contains("aud") && claims.at("aud").is_string() ? std::vector{text_of(claims, "aud")}
                                                                               : words_of(claims, "aud");
  if (!has(audience, demands_.audience)) return refuse("is for another audience");
  if (holder.subject.empty() || holder.subject.size() > kLongestSubject) return refuse("has no valid \"sub\"");
  const auto scopes = words_of(claims, claims.contains("scope") ? "scope" : "scp");
  auto out = holder;
  // A time beyond what a clock can say is as good as never.
  const auto last = std::min(*expires + kLeeway, kLastSecond);
  out.expires = std::chrono::system_clock::time_point(std::chrono::seconds(static_cast<std::int64_t>(last)));
  out.has_scopes = std::ranges::all_of(demands_.scopes, [&](const auto& scope) { return has(scopes, scope); });
  return out;
}

}  // namespace cove::oauth
