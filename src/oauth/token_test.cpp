#include "oauth/token.hpp"

#include <gtest/gtest.h>
#include <openssl/core_names.h>
#include <openssl/ecdsa.h>
#include <openssl/evp.h>
#include <openssl/rsa.h>

#include <array>
#include <boost/json.hpp>

#include "base/text.hpp"

namespace cove::oauth {
namespace {

namespace json = boost::json;
using std::chrono::system_clock;

constexpr std::int64_t kNow = 1'800'000'000;

std::string bytes_of(EVP_PKEY* key, const char* name) {
  BIGNUM* number = nullptr;
  EXPECT_EQ(EVP_PKEY_get_bn_param(key, name, &number), 1);
  std::string out(static_cast<std::size_t>(BN_num_bytes(number)), '\0');
  BN_bn2bin(number, reinterpret_cast<unsigned char*>(out.data()));
  BN_free(number);
  return out;
}

// Signs as an authorization server does.
class Signer {
 public:
  explicit Signer(std::string algorithm) : algorithm_(std::move(algorithm)) {
    if (algorithm_ == "RS256") key_ = EVP_RSA_gen(2048);
    if (algorithm_ == "ES256") key_ = EVP_EC_gen("P-256");
    if (algorithm_ == "EdDSA") key_ = EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519");
  }
  Signer(const Signer&) = delete;
  Signer& operator=(const Signer&) = delete;
  ~Signer() { EVP_PKEY_free(key_); }

  [[nodiscard]] json::object jwk(std::string id = "one") const {
    json::object out{{"kid", id}, {"use", "sig"}};
    if (algorithm_ == "RS256") {
      out["kty"] = "RSA";
      out["n"] = to_base64url(bytes_of(key_, OSSL_PKEY_PARAM_RSA_N));
      out["e"] = to_base64url(bytes_of(key_, OSSL_PKEY_PARAM_RSA_E));
    } else if (algorithm_ == "ES256") {
      const auto padded = [](std::string text) { return std::string(32 - text.size(), '\0') + text; };
      out["kty"] = "EC";
      out["crv"] = "P-256";
      out["x"] = to_base64url(padded(bytes_of(key_, OSSL_PKEY_PARAM_EC_PUB_X)));
      out["y"] = to_base64url(padded(bytes_of(key_, OSSL_PKEY_PARAM_EC_PUB_Y)));
    } else {
      std::string raw(32, '\0');
      std::size_t size = raw.size();
      EVP_PKEY_get_raw_public_key(key_, reinterpret_cast<unsigned char*>(raw.data()), &size);
      out["kty"] = "OKP";
      out["crv"] = "Ed25519";
      out["x"] = to_base64url(raw);
    }
    return out;
  }

  [[nodiscard]] std::string sign(const json::object& header, const json::object& claims) const {
    const auto text = to_base64url(json::serialize(header)) + "." + to_base64url(json::serialize(claims));
    auto* context = EVP_MD_CTX_new();
    EVP_DigestSignInit(context, nullptr, algorithm_ == "EdDSA" ? nullptr : EVP_sha256(), nullptr, key_);
    std::array<unsigned char, 1024> out{};
    std::size_t size = out.size();
    EXPECT_EQ(
        EVP_DigestSign(context, out.data(), &size, reinterpret_cast<const unsigned char*>(text.data()), text.size()),
        1);
    EVP_MD_CTX_free(context);
    std::string signature(reinterpret_cast<const char*>(out.data()), size);
    if (algorithm_ == "ES256") signature = joined(signature);
    return text + "." + to_base64url(signature);
  }
  [[nodiscard]] std::string sign(const json::object& claims) const {
    return sign({{"alg", algorithm_}, {"kid", "one"}, {"typ", "at+jwt"}}, claims);
  }

 private:
  static std::string joined(const std::string& der) {
    const auto* at = reinterpret_cast<const unsigned char*>(der.data());
    auto* both = d2i_ECDSA_SIG(nullptr, &at, static_cast<long>(der.size()));
    std::string out(64, '\0');
    auto* to = reinterpret_cast<unsigned char*>(out.data());
    BN_bn2binpad(ECDSA_SIG_get0_r(both), to, 32);
    BN_bn2binpad(ECDSA_SIG_get0_s(both), to + 32, 32);
    ECDSA_SIG_free(both);
    return out;
  }

  std::string algorithm_;
  EVP_PKEY* key_ = nullptr;
};

json::object good_claims() {
  return {{"iss", "https://auth.example"},
          {"sub", "anna"},
          {"aud", "https://cove.example/mcp"},
          {"exp", kNow + 300},
          {"scope", "other cove"}};
}

TokenCheck check_with(const Signer& signer) {
  const json::object set{{"keys", json::array{signer.jwk()}}};
  return {read_key_set(json::serialize(set)).value(),
          {.issuers = {"https://auth.example"}, .audience = "https://cove.example/mcp", .scopes = {"cove"}}};
}

Result<Holder> check(const TokenCheck& with, std::string_view token) {
  return with.check(token, system_clock::time_point(std::chrono::seconds(kNow)));
}

class Algorithm : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(All, Algorithm, testing::Values("RS256", "ES256", "EdDSA"));

TEST_P(Algorithm, ATokenIsItsSubjects) {
  const Signer signer(GetParam());
  const auto holder = check(check_with(signer), signer.sign(good_claims()));
  ASSERT_TRUE(holder) << holder.error().message;
  EXPECT_EQ(holder->subject, "anna");
  EXPECT_EQ(holder->issuer, "https://auth.example");
  EXPECT_TRUE(holder->has_scopes);
}

TEST_P(Algorithm, AnotherKeyOrAnotherTextIsRefused) {
  const Signer signer(GetParam());
  const Signer stranger(GetParam());
  const auto with = check_with(signer);
  EXPECT_FALSE(check(with, stranger.sign(good_claims())));
  auto token = signer.sign(good_claims());
  const auto dot = token.find('.');
  token[dot + 3] = token[dot + 3] == 'A' ? 'B' : 'A';
  EXPECT_FALSE(check(with, token));
}

TEST(Token, ClaimsThatDoNotFitAreRefused) {
  const Signer signer("ES256");
  const auto with = check_with(signer);
  const auto refused = [&](std::string_view name, json::value value) {
    auto claims = good_claims();
    claims[name] = std::move(value);
    return !check(with, signer.sign(claims));
  };
  EXPECT_TRUE(refused("exp", kNow - 61));
  EXPECT_TRUE(refused("exp", "soon"));
  EXPECT_TRUE(refused("nbf", kNow + 61));
  EXPECT_TRUE(refused("iss", "https://evil.example"));
  EXPECT_TRUE(refused("aud", "https://other.example"));
  EXPECT_TRUE(refused("aud", json::array{"https://other.example"}));
  EXPECT_TRUE(refused("sub", ""));
  EXPECT_FALSE(refused("aud", json::array{"https://other.example", "https://cove.example/mcp"}));
  EXPECT_FALSE(refused("exp", kNow - 59));
  auto claims = good_claims();
  claims.erase("exp");
  EXPECT_FALSE(check(with, signer.sign(claims)));
}

TEST(Token, ScopesMayBeMissing) {
  const Signer signer("ES256");
  const auto with = check_with(signer);
  auto claims = good_claims();
  claims["scope"] = "covert";
  EXPECT_FALSE(check(with, signer.sign(claims))->has_scopes);
  claims.erase("scope");
  claims["scp"] = json::array{"cove"};
  EXPECT_TRUE(check(with, signer.sign(claims))->has_scopes);
}

TEST(Token, NoOtherAlgorithmIsBelieved) {
  const Signer signer("RS256");
  const auto with = check_with(signer);
  for (const auto* algorithm : {"none", "HS256", "ES256", "RS512", ""}) {
    EXPECT_FALSE(check(with, signer.sign({{"alg", algorithm}}, good_claims()))) << algorithm;
  }
  EXPECT_FALSE(check(with, signer.sign({{"alg", "RS256"}, {"kid", "two"}}, good_claims())));
  EXPECT_FALSE(check(with, signer.sign({{"alg", "RS256"}, {"crit", json::array{"b64"}}}, good_claims())));
  EXPECT_TRUE(check(with, signer.sign({{"alg", "RS256"}}, good_claims())));
}

TEST(Token, WhatIsNoTokenIsRefused) {
  const auto with = check_with(Signer("ES256"));
  for (const auto* text : {"", "a", "a.b", "a.b.c.d", "..", "e30.e30.", "!!.e30.AA", "e30.!!.AA"})
    EXPECT_FALSE(check(with, text)) << text;
  EXPECT_FALSE(check(with, std::string(9000, 'a') + ".b.c"));
}

TEST(KeySet, SaysWhatIsWrongWithIt) {
  EXPECT_FALSE(read_key_set("{"));
  EXPECT_FALSE(read_key_set(R"({"keys":[]})"));
  EXPECT_FALSE(read_key_set(R"({"keys":[{"kty":"oct","k":"c2VjcmV0"}]})"));
  EXPECT_FALSE(read_key_set(R"({"keys":[{"kty":"RSA","n":"AQAB","e":"AQAB"}]})"));
  EXPECT_FALSE(read_key_set(R"({"keys":[{"kty":"EC","crv":"P-256","x":"AA","y":"AA"}]})"));
}

}  // namespace
}  // namespace cove::oauth
