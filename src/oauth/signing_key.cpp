#include "oauth/signing_key.hpp"

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ecdsa.h>
#include <openssl/evp.h>
#include <openssl/param_build.h>

#include "base/text.hpp"
#include "json/fields.hpp"

namespace cove::oauth {
namespace {

namespace json = boost::json;
using cove::json::text_of;

constexpr std::size_t kCoordinate = 32;          // of P-256, and of a key of Ed25519
constexpr std::size_t kLeastModulus = 2048 / 8;  // of RSA
constexpr std::size_t kMaxModulus = 8192 / 8;

template <auto Free>
struct Freed {
  template <typename T>
  void operator()(T* thing) const {
    Free(thing);
  }
};
using PKey = std::unique_ptr<EVP_PKEY, Freed<EVP_PKEY_free>>;
using Number = std::unique_ptr<BIGNUM, Freed<BN_free>>;
using Builder = std::unique_ptr<OSSL_PARAM_BLD, Freed<OSSL_PARAM_BLD_free>>;
using Params = std::unique_ptr<OSSL_PARAM, Freed<OSSL_PARAM_free>>;
using PKeyContext = std::unique_ptr<EVP_PKEY_CTX, Freed<EVP_PKEY_CTX_free>>;
using DigestContext = std::unique_ptr<EVP_MD_CTX, Freed<EVP_MD_CTX_free>>;
using EcSignature = std::unique_ptr<ECDSA_SIG, Freed<ECDSA_SIG_free>>;

const unsigned char* bytes(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

Number number_of(std::string_view text) {
  return Number(BN_bin2bn(bytes(text), static_cast<int>(text.size()), nullptr));
}

Result<std::string> bytes_of(const json::object& jwk, std::string_view name) {
  auto decoded = from_base64url(text_of(jwk, name));
  if (!decoded || decoded->empty()) return fail(Errc::invalid, fmt::format("{} is not base64url", name));
  return std::move(*decoded);
}

Result<PKey> key_from(const char* kind, const Builder& builder) {
  const Params params(OSSL_PARAM_BLD_to_param(builder.get()));
  const PKeyContext context(EVP_PKEY_CTX_new_from_name(nullptr, kind, nullptr));
  EVP_PKEY* made = nullptr;
  if (!params || !context || EVP_PKEY_fromdata_init(context.get()) != 1 ||
      EVP_PKEY_fromdata(context.get(), &made, EVP_PKEY_PUBLIC_KEY, params.get()) != 1)
    return fail(Errc::invalid, fmt::format("not a public key of type {}", kind));
  return PKey(made);
}

Result<PKey> rsa_key(const json::object& jwk) {
  COVE_TRY(const auto modulus, bytes_of(jwk, "n"));
  COVE_TRY(const auto exponent, bytes_of(jwk, "e"));
  if (modulus.size() < kLeastModulus || modulus.size() > kMaxModulus || exponent.size() > 8)
    return fail(Errc::invalid, "an RSA key must have 2048 to 8192 bits");
  const auto n = number_of(modulus);
  const auto e = number_of(exponent);
  const Builder builder(OSSL_PARAM_BLD_new());
  OSSL_PARAM_BLD_push_BN(builder.get(), OSSL_PKEY_PARAM_RSA_N, n.get());
  OSSL_PARAM_BLD_push_BN(builder.get(), OSSL_PKEY_PARAM_RSA_E, e.get());
  return key_from("RSA", builder);
}

Result<PKey> ec_key(const json::object& jwk) {
  COVE_TRY(const auto x, bytes_of(jwk, "x"));
  COVE_TRY(const auto y, bytes_of(jwk, "y"));
  if (x.size() != kCoordinate || y.size() != kCoordinate) return fail(Errc::invalid, "x and y must have 32 bytes each");
  const auto point = "\x04" + x + y;  // not compressed
  const Builder builder(OSSL_PARAM_BLD_new());
  OSSL_PARAM_BLD_push_utf8_string(builder.get(), OSSL_PKEY_PARAM_GROUP_NAME, "prime256v1", 0);
  OSSL_PARAM_BLD_push_octet_string(builder.get(), OSSL_PKEY_PARAM_PUB_KEY, point.data(), point.size());
  return key_from("EC", builder);
}

Result<PKey> ed_key(const json::object& jwk) {
  COVE_TRY(const auto x, bytes_of(jwk, "x"));
  PKey key(x.size() == kCoordinate ? EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr, bytes(x), x.size())
                                   : nullptr);
  if (!key) return fail(Errc::invalid, "x is not an Ed25519 key");
  return key;
}

// JOSE writes r and s side by side; OpenSSL wants them as DER.
std::string der_of(std::string_view signature) {
  if (signature.size() != 2 * kCoordinate) return "";
  const EcSignature both(ECDSA_SIG_new());
  if (!both || ECDSA_SIG_set0(both.get(), number_of(signature.substr(0, kCoordinate)).release(),
                              number_of(signature.substr(kCoordinate)).release()) != 1)
    return "";
  unsigned char* der = nullptr;
  const int size = i2d_ECDSA_SIG(both.get(), &der);
  std::string out(reinterpret_cast<const char*>(der), size > 0 ? static_cast<std::size_t>(size) : 0);
  OPENSSL_free(der);
  return out;
}

struct Kind {
  std::string_view type;
  std::string_view curve;
  std::string_view algorithm;
  Result<PKey> (*read)(const json::object&);
};
constexpr std::array kKinds{Kind{"RSA", "", "RS256", rsa_key}, Kind{"EC", "P-256", "ES256", ec_key},
                            Kind{"OKP", "Ed25519", "EdDSA", ed_key}};

}  // namespace

struct SigningKey::Key {
  PKey key;
};

SigningKey::SigningKey(std::unique_ptr<Key> key, std::string id, std::string_view algorithm)
    : key_(std::move(key)), id_(std::move(id)), algorithm_(algorithm) {}
SigningKey::SigningKey(SigningKey&&) noexcept = default;
SigningKey& SigningKey::operator=(SigningKey&&) noexcept = default;
SigningKey::~SigningKey() = default;

Result<SigningKey> SigningKey::from_jwk(const json::object& jwk) {
  const auto type = text_of(jwk, "kty");
  const auto curve = text_of(jwk, "crv");
  const auto use = text_of(jwk, "use");
  const auto algorithm = text_of(jwk, "alg");
  for (const auto& kind : kKinds) {
    if (type != kind.type || curve != kind.curve || (!use.empty() && use != "sig")) continue;
    if (!algorithm.empty() && algorithm != kind.algorithm) continue;
    COVE_TRY(auto key, kind.read(jwk));
    return SigningKey(std::make_unique<Key>(Key{.key = std::move(key)}), text_of(jwk, "kid"), kind.algorithm);
  }
  return fail(Errc::unsupported, fmt::format("keys of type {} {} are not supported", type, curve));
}

bool SigningKey::signed_this(std::string_view text, std::string_view signature) const {
  const auto der = algorithm_ == "ES256" ? der_of(signature) : std::string(signature);
  const DigestContext context(EVP_MD_CTX_new());
  const auto* digest = algorithm_ == "EdDSA" ? nullptr : EVP_sha256();
  return context && EVP_DigestVerifyInit(context.get(), nullptr, digest, nullptr, key_->key.get()) == 1 &&
         EVP_DigestVerify(context.get(), bytes(der), der.size(), bytes(text), text.size()) == 1;
}

Result<std::vector<SigningKey>> read_key_set(std::string_view text) {
  boost::system::error_code failed;
  const auto value = json::parse(text, failed);
  const auto* set = failed ? nullptr : value.if_object();
  const auto* keys = set != nullptr ? set->if_contains("keys") : nullptr;
  if (keys == nullptr || !keys->is_array()) return fail(Errc::invalid, "not a JWK set: {\"keys\": […]}");
  std::vector<SigningKey> out;
  std::string why = "it is empty";
  for (const auto& one : keys->as_array()) {
    auto key = one.is_object() ? SigningKey::from_jwk(one.as_object()) : fail(Errc::invalid, "a key is not an object");
    if (key)
      out.push_back(std::move(*key));
    else
      why = key.error().message;
  }
  if (out.empty()) return fail(Errc::invalid, fmt::format("the JWK set has no usable key: {}", why));
  return out;
}

}  // namespace cove::oauth
