#include "store/secret_box.hpp"

#include <fcntl.h>
#include <nettle/gcm.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <span>

#include "base/io.hpp"
#include "base/random.hpp"
#include "base/sha256.hpp"
#include "base/text.hpp"

namespace cove::store {
namespace {

constexpr std::string_view kSealed = "sealed:";

const std::uint8_t* bytes_of(std::string_view text) {
  return reinterpret_cast<const std::uint8_t*>(text.data());
}
std::uint8_t* bytes_of(std::string& text) {
  return reinterpret_cast<std::uint8_t*>(text.data());
}

std::string random_bytes(std::size_t count) {
  std::string bytes(count, '\0');
  fill_random(std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

gcm_aes256_ctx cipher(const std::string& key, std::string_view nonce, std::string_view owner) {
  gcm_aes256_ctx context{};
  gcm_aes256_set_key(&context, bytes_of(key));
  gcm_aes256_set_iv(&context, nonce.size(), bytes_of(nonce));
  gcm_aes256_update(&context, owner.size(), bytes_of(owner));
  return context;
}

std::string tag_of(gcm_aes256_ctx& context) {
  std::string tag(GCM_DIGEST_SIZE, '\0');
  gcm_aes256_digest(&context, tag.size(), bytes_of(tag));
  return tag;
}

Result<std::string> read_key(int dir_fd, const std::string& path) {
  struct stat file{};
  COVE_TRY(const auto fd, open_at(dir_fd, kSecretKeyFile, O_RDONLY | O_NOFOLLOW));
  if (::fstat(fd.get(), &file) != 0) return fail_errno(errno, "stat {}", path);
  if ((file.st_mode & 0077) != 0)
    return fail(Errc::denied, fmt::format("{} is readable by others; run chmod 600 on it", path));
  COVE_TRY(auto key, read_all(fd.get(), AES256_KEY_SIZE));
  if (key.size() != AES256_KEY_SIZE)
    return fail(Errc::io, fmt::format("{} is no key; remove it, and callbacks that wait for it fail", path));
  return key;
}

// Complete under its name or not there at all, also when two programs do this at once.
Result<> make_key(int dir_fd, const std::string& path) {
  const auto name = fmt::format("{}.{}", kSecretKeyFile, ::getpid());
  COVE_TRY(const auto fd, open_at(dir_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0600));
  Result<> made = write_all(fd.get(), random_bytes(AES256_KEY_SIZE));
  struct stat dir{};
  if (made && ::geteuid() == 0 && ::fstat(dir_fd, &dir) == 0 && dir.st_uid != 0 &&
      ::fchown(fd.get(), dir.st_uid, dir.st_gid) != 0)
    made = fail_errno(errno, "give {} to the owner of its directory", path);
  if (made && ::fsync(fd.get()) != 0) made = fail_errno(errno, "write {}", path);
  if (made && ::linkat(dir_fd, name.c_str(), dir_fd, kSecretKeyFile, 0) != 0 && errno != EEXIST)
    made = fail_errno(errno, "make {}", path);
  ::unlinkat(dir_fd, name.c_str(), 0);
  return made;
}

}  // namespace

bool SecretBox::is_sealed(std::string_view text) {
  return text.starts_with(kSealed);
}

Result<const std::string*> SecretBox::key() {
  if (!key_) {
    COVE_TRY(const auto dir, open_at(AT_FDCWD, dir_, O_RDONLY | O_DIRECTORY));
    const auto path = fmt::format("{}/{}", dir_, kSecretKeyFile);
    if (::faccessat(dir.get(), kSecretKeyFile, F_OK, AT_SYMLINK_NOFOLLOW) != 0) COVE_CHECK(make_key(dir.get(), path));
    COVE_TRY(key_, read_key(dir.get(), path));
  }
  return &*key_;
}

Result<std::string> SecretBox::seal(std::string_view owner, std::string_view secret) {
  if (secret.empty()) return std::string();
  COVE_TRY(const auto* const key, this->key());
  auto sealed = random_bytes(GCM_IV_SIZE);
  auto context = cipher(*key, sealed, owner);
  std::string text(secret.size(), '\0');
  gcm_aes256_encrypt(&context, text.size(), bytes_of(text), bytes_of(secret));
  sealed += text + tag_of(context);
  return std::string(kSealed) + base64(sealed);
}

Result<std::string> SecretBox::open(std::string_view owner, std::string_view sealed) {
  if (!is_sealed(sealed)) return std::string(sealed);
  const auto denied = [this] {
    return fail(Errc::denied,
                fmt::format("the secret was sealed with another key than the one in {}/{}", dir_, kSecretKeyFile));
  };
  const auto bytes = from_base64(sealed.substr(kSealed.size()));
  if (!bytes || bytes->size() < GCM_IV_SIZE + GCM_DIGEST_SIZE) return denied();
  COVE_TRY(const auto* const key, this->key());
  const std::string_view all = *bytes;
  const auto text = all.substr(GCM_IV_SIZE, all.size() - GCM_IV_SIZE - GCM_DIGEST_SIZE);
  auto context = cipher(*key, all.substr(0, GCM_IV_SIZE), owner);
  std::string secret(text.size(), '\0');
  gcm_aes256_decrypt(&context, text.size(), bytes_of(secret), bytes_of(text));
  if (!equal_in_constant_time(tag_of(context), all.substr(all.size() - GCM_DIGEST_SIZE))) return denied();
  return secret;
}

}  // namespace cove::store
