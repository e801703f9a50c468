#include "http/auth.hpp"

#include <algorithm>
#include <charconv>

#include "base/text.hpp"
#include "http/encoding.hpp"

namespace cove::http {
namespace {

constexpr std::string_view kKeyPrefix = "cove_";
constexpr std::size_t kLongestKey = 8192;

bool looks_like_key(std::string_view text) {
  return text.starts_with(kKeyPrefix);
}

bool key_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
         c == '.' || c == '~' || c == '%';
}

// The value of `Authorization: token …`, which may be empty; nothing for another scheme.
std::optional<std::string_view> jupyter_token(std::string_view value) {
  constexpr std::string_view kScheme = "token";
  if (!value.starts_with(kScheme)) return std::nullopt;
  value.remove_prefix(kScheme.size());
  if (!value.empty() && !value.starts_with(' ')) return std::nullopt;
  return trim(value);
}

// One character as a log's reader could decode it: "%63", "%2563" and "c" are all 'c'. `used`: how much of `text` it
// is.
char decoded(std::string_view text, std::size_t& used) {
  char c = text.front();
  used = 1;
  while (c == '%') {
    const auto digits = text.substr(used, 2);
    unsigned value = 0;
    const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
    if (digits.size() != 2 || read.ptr != digits.data() + 2 || value > 0x7f) break;
    used += 2;
    c = static_cast<char>(value);
  }
  return c;
}

// Of the key's prefix at the beginning of `text`; 0 when there is none.
std::size_t prefix_length(std::string_view text) {
  std::size_t at = 0;
  for (const char wanted : kKeyPrefix) {
    if (at >= text.size()) return 0;
    std::size_t used = 0;
    const char c = decoded(text.substr(at), used);
    const char lower = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    if (lower != wanted) return 0;
    at += used;
  }
  return at;
}

}  // namespace

Credentials parse_credentials(const KeyPlaces& places) {
  const auto& authorization = places.authorization;
  const auto& api_key = places.api_key;
  Credentials credentials;
  const auto conflict = [&] {
    credentials.conflicting = true;
    credentials.keys.clear();
    credentials.user.clear();
    return credentials;
  };
  if (authorization.size() > 1 || api_key.size() > 1) return conflict();

  // All places that name a key must name the same one.
  std::vector<std::string> weak;
  const auto offer = [&](std::string_view key) {
    if (credentials.keys.empty()) credentials.keys.emplace_back(key);
    return credentials.keys.front() == key;
  };
  if (!places.prefix.empty()) offer(places.prefix);
  if (!api_key.empty() && !offer(api_key.front())) return conflict();
  for (const auto& token : places.query_tokens) {
    if (!token.empty() && !offer(token)) return conflict();
  }
  if (!authorization.empty()) {
    const auto value = authorization.front();
    std::optional<std::string> pair;
    // The scheme is taken as it is written in our documentation, case and all.
    if (value.starts_with("Bearer ")) {
      if (!offer(trim(value.substr(7)))) return conflict();
    } else if (const auto token = jupyter_token(value)) {
      // Clients of Jupyter servers without a token send the scheme alone.
      if (!token->empty() && !offer(*token)) return conflict();
    } else if (value.starts_with("Basic ")) {
      pair = from_base64(trim(value.substr(6)));
      credentials.unreadable = !pair || pair->find(':') == std::string::npos;
    } else {
      credentials.unreadable = true;
    }
    if (pair && !credentials.unreadable) {
      const std::string user = pair->substr(0, pair->find(':'));
      const std::string password = pair->substr(pair->find(':') + 1);
      if (!looks_like_key(user)) credentials.user = user;
      bool found = false;
      for (const auto& part : {user, password}) {
        if (!looks_like_key(part)) continue;
        if (!offer(part)) return conflict();
        found = true;
      }
      // A name and password that are no keys may be meant for a proxy in front; they count when nothing else is there.
      if (!found) weak = {password, user};
    }
  }
  if (credentials.keys.empty()) {
    std::ranges::copy_if(weak, std::back_inserter(credentials.keys), [](const auto& key) { return !key.empty(); });
  }
  return credentials;
}

Decision authenticate(Authenticator& authenticator, const Credentials& credentials) {
  Decision decision;
  if (credentials.conflicting) {
    decision.verdict = Verdict::wrong;
    return decision;
  }
  bool key_offered = false;
  for (const auto& key : credentials.keys) {
    key_offered = key_offered || looks_like_key(key);
    if (key.empty() || key.size() > kLongestKey) continue;
    if (auto principal = authenticator.check(key)) {
      decision.verdict = principal->in_scope ? Verdict::allowed : Verdict::out_of_scope;
      decision.principal = std::move(*principal);
      decision.key = key;
      return decision;
    }
  }
  if (authenticator.open() && !key_offered) {
    decision.verdict = Verdict::allowed;
  } else {
    decision.verdict = credentials.keys.empty() && !credentials.unreadable ? Verdict::missing : Verdict::wrong;
  }
  return decision;
}

std::string redact_keys(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    // A key may be written with percent signs, and those with percent signs again.
    const auto prefix = prefix_length(text);
    if (prefix == 0) {
      out += text.front();
      text.remove_prefix(1);
      continue;
    }
    out += "cove_***";
    text.remove_prefix(prefix);
    const auto end = std::ranges::find_if_not(text, key_char);
    text.remove_prefix(static_cast<std::size_t>(end - text.begin()));
  }
  return out;
}

std::string redact_target(std::string_view target) {
  const auto question = target.find('?');
  auto out = redact_keys(target.substr(0, question));
  if (question == std::string_view::npos) return out;
  target.remove_prefix(question + 1);
  for (char before = '?';; before = '&') {
    const auto pair = target.substr(0, target.find('&'));
    const auto name = pair.substr(0, pair.find('='));
    const auto decoded_name = form_decode(name);
    out += before;
    if (name.size() < pair.size() && (!decoded_name || *decoded_name == "token")) {
      out.append(redact_keys(name)).append("=***");
    } else {
      out += redact_keys(pair);
    }
    if (pair.size() == target.size()) return out;
    target.remove_prefix(pair.size() + 1);
  }
}

double FailureThrottle::tokens_at(const Bucket& bucket, std::chrono::steady_clock::time_point now) const {
  const std::chrono::duration<double> passed = now - bucket.seen;
  return std::min(options_.burst, bucket.tokens + passed.count() * options_.per_second);
}

bool FailureThrottle::admit(const std::string& peer, std::chrono::steady_clock::time_point now) {
  if (buckets_.size() >= options_.peers && !buckets_.contains(peer)) {
    std::erase_if(buckets_, [&](const auto& entry) { return tokens_at(entry.second, now) >= options_.burst; });
    // As many peers as that failing at once: none of them is worth a place of its own.
    if (buckets_.size() >= options_.peers) return false;
  }
  const auto [at, inserted] = buckets_.try_emplace(peer, Bucket{.tokens = options_.burst, .seen = now});
  auto& bucket = at->second;
  bucket.tokens = tokens_at(bucket, now);
  bucket.seen = now;
  if (bucket.tokens < 1) return false;
  bucket.tokens -= 1;
  return true;
}

}  // namespace cove::http
