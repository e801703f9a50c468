#pragma once

#include <boost/asio/ssl/context.hpp>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace cove::egress {

// The authority of one sandbox, for the names whose HTTPS requests headers are added to. It lives in this process
// alone, and its certificate says that it speaks for these names and no others.
class EdgeCa {
 public:
  // `names`: canonical, at least one.
  static Result<std::shared_ptr<EdgeCa>> create(std::vector<std::string> names);
  ~EdgeCa();
  EdgeCa(const EdgeCa&) = delete;
  EdgeCa& operator=(const EdgeCa&) = delete;

  // Its certificate, which the sandbox is to trust.
  [[nodiscard]] const std::string& pem() const { return pem_; }
  [[nodiscard]] const std::vector<std::string>& names() const { return names_; }
  // What a server of one of the names is in the eyes of the sandbox. HTTP/1.1 alone.
  Result<std::shared_ptr<boost::asio::ssl::context>> context_for(const std::string& name);

 private:
  struct Keys;
  EdgeCa();
  std::unique_ptr<Keys> keys_;
  std::string pem_;
  std::vector<std::string> names_;
  std::map<std::string, std::shared_ptr<boost::asio::ssl::context>> contexts_;
};

}  // namespace cove::egress
