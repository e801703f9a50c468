#include "journal/entry.hpp"

#include <fmt/format.h>

#include "journal/journal.hpp"

namespace cove::journal {

Entry::Entry(std::weak_ptr<Journal*> journal, std::int64_t seq, std::chrono::milliseconds lasted, Output output)
    : journal_(std::move(journal)), seq_(seq), began_(std::chrono::steady_clock::now() - lasted), known_(output) {}

Entry::~Entry() {
  end({.word = "given up", .good = false});
}

void Entry::set_reference(std::string reference) {
  if (const auto journal = journal_.lock()) (*journal)->set_reference(seq_, std::move(reference));
}

void Entry::add_content(std::string_view bytes) {
  if (const auto journal = journal_.lock()) (*journal)->add_content(seq_, bytes);
}

void Entry::end(Outcome outcome) {
  if (std::exchange(ended_, true)) return;
  const auto journal = journal_.lock();
  if (!journal) return;
  for (const auto& [stream, digest] : known_ == Output::whole ? output_ : std::map<std::string, OutputDigest>()) {
    outcome.result[stream] =
        boost::json::object{{"bytes", digest.bytes()}, {"fingerprint", fmt::format("{:016x}", digest.fingerprint())}};
  }
  const auto lasted = std::chrono::steady_clock::now() - began_;
  (*journal)->end(seq_, std::chrono::duration_cast<std::chrono::milliseconds>(lasted), std::move(outcome));
}

}  // namespace cove::journal
