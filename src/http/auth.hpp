#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/principal.hpp"

namespace cove::http {

using cove::Principal;

// Knows the keys. An implementation compares hashes in constant time.
class Authenticator {
 public:
  virtual ~Authenticator() = default;
  // The owner of this key; nothing for an unknown key.
  virtual std::optional<Principal> check(std::string_view key) = 0;
  // True: this server requires no keys. A wrong key is refused all the same.
  [[nodiscard]] virtual bool open() = 0;
  // Whether the credentials behind `principal` are still valid. Asked repeatedly during long requests.
  [[nodiscard]] virtual bool still_valid(const Principal& principal) = 0;
};

// The credentials of a request, from every header and path segment that may carry one.
struct Credentials {
  bool conflicting = false;       // two headers of one kind, or two keys: refuse
  bool unreadable = false;        // an unknown scheme: counts as a wrong key
  std::vector<std::string> keys;  // candidates; the first known one counts
  std::string user;               // of Basic, if it is no key
};

// Every place of a request that may name a key.
struct KeyPlaces {
  std::vector<std::string_view> authorization;  // all values of this header
  std::vector<std::string_view> api_key;        // and of X-API-Key
  std::string_view prefix = {};                 // the path's first segment, if it is a key
  std::vector<std::string> query_tokens = {};   // all values of `token` in the query, where the route takes them
};
Credentials parse_credentials(const KeyPlaces& places);

enum class Verdict { allowed, missing, wrong, out_of_scope };
struct Decision {
  Verdict verdict = Verdict::missing;
  Principal principal;
  std::string key;  // the one that counted; "" where none is needed
};
Decision authenticate(Authenticator& authenticator, const Credentials& credentials);

// Replaces every key in `text` by `cove_***`, for logs, in any case and any percent-encoding.
std::string redact_keys(std::string_view text);
// A request target for logs: without keys, and without the values of `token` in its query, whatever they look like.
std::string redact_target(std::string_view target);

// Limits wrong keys by peer address, with a token bucket each. Only failures count, so valid clients never notice.
class FailureThrottle {
 public:
  struct Options {
    double burst = 20;
    double per_second = 5;
    std::size_t peers = 16384;  // remembered at most
  };
  FailureThrottle() : FailureThrottle(Options{}) {}
  explicit FailureThrottle(Options options) : options_(options) {}
  // Counts one failure. False: too many; answer 429.
  bool admit(const std::string& peer, std::chrono::steady_clock::time_point now);

 private:
  struct Bucket {
    double tokens = 0;
    std::chrono::steady_clock::time_point seen;
  };
  [[nodiscard]] double tokens_at(const Bucket& bucket, std::chrono::steady_clock::time_point now) const;
  Options options_;
  std::unordered_map<std::string, Bucket> buckets_;
};

}  // namespace cove::http
