#include "egress/edge_ca.hpp"

#include <openssl/bn.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <cstring>

namespace cove::egress {
namespace {

namespace ssl = boost::asio::ssl;

constexpr long kBackdated = 24L * 3600;  // for clocks that are late
constexpr long kLifetime = 825L * 24 * 3600;

struct Free {
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(BIO* bio) const { BIO_free(bio); }
  void operator()(X509_EXTENSION* extension) const { X509_EXTENSION_free(extension); }
  void operator()(BIGNUM* number) const { BN_free(number); }
};
using Key = std::unique_ptr<EVP_PKEY, Free>;
using Certificate = std::unique_ptr<X509, Free>;

tl::unexpected<Error> unmade() {
  return fail(Errc::io, "a certificate for the sandbox could not be made");
}

bool add_extension(X509* certificate, X509* issuer, int kind, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const std::unique_ptr<X509_EXTENSION, Free> extension(X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str()));
  return extension && X509_add_ext(certificate, extension.get(), -1) == 1;
}

// Without a signature.
Certificate begin_certificate(EVP_PKEY* key, std::string_view subject) {
  Certificate certificate(X509_new());
  const std::unique_ptr<BIGNUM, Free> serial(BN_new());
  if (!certificate || !serial || BN_rand(serial.get(), 120, BN_RAND_TOP_ANY, BN_RAND_BOTTOM_ANY) != 1) return nullptr;
  auto* name = X509_get_subject_name(certificate.get());
  const bool made =
      X509_set_version(certificate.get(), 2) == 1 &&
      BN_to_ASN1_INTEGER(serial.get(), X509_get_serialNumber(certificate.get())) != nullptr &&
      X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -kBackdated) != nullptr &&
      X509_gmtime_adj(X509_getm_notAfter(certificate.get()), kLifetime) != nullptr &&
      X509_set_pubkey(certificate.get(), key) == 1 &&
      X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>(subject.data()),
                                 static_cast<int>(subject.size()), -1, 0) == 1;
  return made ? std::move(certificate) : nullptr;
}

std::string pem_of(X509* certificate) {
  const std::unique_ptr<BIO, Free> bio(BIO_new(BIO_s_mem()));
  if (!bio || PEM_write_bio_X509(bio.get(), certificate) != 1) return {};
  char* bytes = nullptr;
  const auto size = BIO_get_mem_data(bio.get(), &bytes);
  return {bytes, static_cast<std::size_t>(size)};
}

// The one protocol that is spoken.
int choose_protocol(SSL* /*ssl*/, const unsigned char** out, unsigned char* out_size, const unsigned char* offered,
                    unsigned offered_size, void* /*unused*/) {
  constexpr std::string_view kOnly("\x08http/1.1", 9);
  const auto* only = reinterpret_cast<const unsigned char*>(kOnly.data());
  unsigned char* chosen = nullptr;
  if (SSL_select_next_proto(&chosen, out_size, only, static_cast<unsigned>(kOnly.size()), offered, offered_size) !=
      OPENSSL_NPN_NEGOTIATED)
    return SSL_TLSEXT_ERR_NOACK;
  *out = chosen;
  return SSL_TLSEXT_ERR_OK;
}

}  // namespace

struct EdgeCa::Keys {
  Key authority;
  Key server;  // of all names
  Certificate certificate;
};

EdgeCa::EdgeCa() : keys_(std::make_unique<Keys>()) {}
EdgeCa::~EdgeCa() = default;

Result<std::shared_ptr<EdgeCa>> EdgeCa::create(std::vector<std::string> names) {
  std::shared_ptr<EdgeCa> ca(new EdgeCa());
  auto& keys = *ca->keys_;
  keys.authority.reset(EVP_EC_gen("P-256"));
  keys.server.reset(EVP_EC_gen("P-256"));
  if (!keys.authority || !keys.server) return unmade();
  keys.certificate = begin_certificate(keys.authority.get(), "Cove sandbox");
  auto* certificate = keys.certificate.get();
  if (certificate == nullptr || X509_set_issuer_name(certificate, X509_get_subject_name(certificate)) != 1)
    return unmade();
  std::string constraints = "critical";
  for (const auto& name : names) constraints += ",permitted;DNS:" + name;
  const bool made = add_extension(certificate, certificate, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
                    add_extension(certificate, certificate, NID_key_usage, "critical,keyCertSign") &&
                    add_extension(certificate, certificate, NID_subject_key_identifier, "hash") &&
                    add_extension(certificate, certificate, NID_name_constraints, constraints) &&
                    X509_sign(certificate, keys.authority.get(), EVP_sha256()) > 0;
  if (!made) return unmade();
  ca->pem_ = pem_of(certificate);
  ca->names_ = std::move(names);
  return ca;
}

Result<std::shared_ptr<ssl::context>> EdgeCa::context_for(const std::string& name) {
  if (const auto known = contexts_.find(name); known != contexts_.end()) return known->second;
  if (std::ranges::find(names_, name) == names_.end()) return unmade();
  auto& keys = *keys_;
  // A subject may be 64 bytes long; who verifies looks at the alternative name.
  auto leaf = begin_certificate(keys.server.get(), name.size() <= 64 ? name : "Cove sandbox server");
  if (!leaf || X509_set_issuer_name(leaf.get(), X509_get_subject_name(keys.certificate.get())) != 1) return unmade();
  auto* issuer = keys.certificate.get();
  const bool made = add_extension(leaf.get(), issuer, NID_basic_constraints, "critical,CA:FALSE") &&
                    add_extension(leaf.get(), issuer, NID_key_usage, "critical,digitalSignature") &&
                    add_extension(leaf.get(), issuer, NID_ext_key_usage, "serverAuth") &&
                    add_extension(leaf.get(), issuer, NID_authority_key_identifier, "keyid") &&
                    add_extension(leaf.get(), issuer, NID_subject_alt_name, "DNS:" + name) &&
                    X509_sign(leaf.get(), keys.authority.get(), EVP_sha256()) > 0;
  if (!made) return unmade();
  auto context = std::make_shared<ssl::context>(ssl::context::tls_server);
  auto* native = context->native_handle();
  if (SSL_CTX_set_min_proto_version(native, TLS1_2_VERSION) != 1 || SSL_CTX_use_certificate(native, leaf.get()) != 1 ||
      SSL_CTX_use_PrivateKey(native, keys.server.get()) != 1)
    return unmade();
  SSL_CTX_set_alpn_select_cb(native, choose_protocol, nullptr);
  contexts_[name] = context;
  return context;
}

}  // namespace cove::egress
