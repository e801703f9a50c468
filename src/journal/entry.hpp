#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "journal/act.hpp"
#include "journal/output_digest.hpp"

namespace cove::journal {

class Journal;

// One act that goes on. Its destruction without end() says that it was given up.
class Entry {
 public:
  enum class Output : bool { partial, whole };
  // `lasted`: since when it goes on. Partial: what a server before us saw of its output is not known.
  Entry(std::weak_ptr<Journal*> journal, std::int64_t seq, std::chrono::milliseconds lasted, Output output);
  Entry(const Entry&) = delete;
  Entry& operator=(const Entry&) = delete;
  ~Entry();

  [[nodiscard]] std::int64_t seq() const { return seq_; }
  // Before it is written: by this name a later server finds the act again.
  void set_reference(std::string reference);
  void add_output(std::string_view stream, std::string_view bytes) { output_[std::string(stream)].add(bytes); }
  // Content of a file that is written: kept for doing it again, as far as the limit goes.
  void add_content(std::string_view bytes);
  // Its output is added to the result. Once; later calls do nothing.
  void end(Outcome outcome);

 private:
  std::weak_ptr<Journal*> journal_;  // null once the server shuts down
  std::int64_t seq_;
  std::chrono::steady_clock::time_point began_;
  Output known_;
  std::map<std::string, OutputDigest> output_;
  bool ended_ = false;
};

}  // namespace cove::journal
