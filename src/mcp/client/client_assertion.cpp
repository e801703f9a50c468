#include "mcp/client/client_assertion.hpp"

#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>

#include <boost/json.hpp>
#include <memory>
#include <vector>

#include "base/clock.hpp"
#include "base/random_name.hpp"
#include "base/text.hpp"

namespace cove::mcp::client {
namespace {

namespace json = boost::json;

constexpr int kCoordinateBytes = 32;
constexpr int kLifeSeconds = 300;

struct FreeCrypto {
  void operator()(BIO* bio) const { BIO_free(bio); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
  void operator()(ECDSA_SIG* signature) const { ECDSA_SIG_free(signature); }
};
template <class T>
using Crypto = std::unique_ptr<T, FreeCrypto>;

tl::unexpected<Error> no_key(std::string_view why) {
  return fail(Errc::invalid, fmt::format("auth.private_key {}", why));
}

Result<std::string> sign(const Credentials& credentials, const std::string& text) {
  const Crypto<BIO> memory(
      BIO_new_mem_buf(credentials.private_key.data(), static_cast<int>(credentials.private_key.size())));
  // A key that wants a password has none here, and nobody is asked.
  const auto no_password = [](char*, int, int, void*) { return 0; };
  const Crypto<EVP_PKEY> key(PEM_read_bio_PrivateKey(memory.get(), nullptr, no_password, nullptr));
  if (!key) return no_key("is no private key in PEM");
  const bool curve = credentials.algorithm == "ES256";
  if (curve != (EVP_PKEY_base_id(key.get()) == EVP_PKEY_EC) || (!curve && EVP_PKEY_base_id(key.get()) != EVP_PKEY_RSA))
    return no_key(fmt::format("is no key for {}", credentials.algorithm));
  const Crypto<EVP_MD_CTX> context(EVP_MD_CTX_new());
  const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
  std::size_t size = 0;
  if (EVP_DigestSignInit(context.get(), nullptr, EVP_sha256(), nullptr, key.get()) != 1 ||
      EVP_DigestSign(context.get(), nullptr, &size, bytes, text.size()) != 1)
    return no_key("cannot sign");
  std::string out(size, '\0');
  if (EVP_DigestSign(context.get(), reinterpret_cast<unsigned char*>(out.data()), &size, bytes, text.size()) != 1)
    return no_key("cannot sign");
  out.resize(size);
  if (!curve) return out;
  // A token has the two numbers side by side, without the frame that OpenSSL puts around them.
  const auto* der = reinterpret_cast<const unsigned char*>(out.data());
  const Crypto<ECDSA_SIG> pair(d2i_ECDSA_SIG(nullptr, &der, static_cast<long>(out.size())));
  std::string plain(2UL * kCoordinateBytes, '\0');
  auto* to = reinterpret_cast<unsigned char*>(plain.data());
  if (!pair || BN_bn2binpad(ECDSA_SIG_get0_r(pair.get()), to, kCoordinateBytes) != kCoordinateBytes ||
      BN_bn2binpad(ECDSA_SIG_get0_s(pair.get()), to + kCoordinateBytes, kCoordinateBytes) != kCoordinateBytes)
    return no_key("is no key on P-256");
  return plain;
}

}  // namespace

Result<std::string> client_assertion(const Credentials& credentials, const std::string& audience) {
  const auto now = unix_millis() / 1000;
  const json::object head{{"alg", credentials.algorithm}, {"typ", "JWT"}};
  const json::object claims{
      {"iss", credentials.client_id}, {"sub", credentials.client_id}, {"aud", audience}, {"iat", now},
      {"exp", now + kLifeSeconds},    {"jti", random_name("")}};
  const auto text = to_base64url(json::serialize(head)) + "." + to_base64url(json::serialize(claims));
  COVE_TRY(const auto signature, sign(credentials, text));
  return text + "." + to_base64url(signature);
}

std::string pkce_challenge(const std::string& verifier) {
  std::string digest(32, '\0');
  unsigned size = 0;
  EVP_Digest(verifier.data(), verifier.size(), reinterpret_cast<unsigned char*>(digest.data()), &size, EVP_sha256(),
             nullptr);
  return to_base64url(digest);
}

}  // namespace cove::mcp::client
