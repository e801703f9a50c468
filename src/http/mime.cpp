#include "http/mime.hpp"

#include <array>

namespace cove::http {
namespace {

struct Kind {
  std::string_view extension;
  std::string_view mime;
};
constexpr auto kKinds = std::to_array<Kind>({
    {".txt", "text/plain"},        {".md", "text/markdown"},
    {".csv", "text/csv"},          {".tsv", "text/csv"},
    {".json", "application/json"}, {".html", "text/html"},
    {".xml", "application/xml"},   {".yaml", "application/yaml"},
    {".yml", "application/yaml"},  {".toml", "application/toml"},
    {".log", "text/plain"},        {".py", "text/x-python"},
    {".js", "text/javascript"},    {".ts", "application/typescript"},
    {".sh", "application/x-sh"},   {".png", "image/png"},
    {".jpg", "image/jpeg"},        {".jpeg", "image/jpeg"},
    {".gif", "image/gif"},         {".webp", "image/webp"},
    {".svg", "image/svg+xml"},     {".pdf", "application/pdf"},
    {".zip", "application/zip"},   {".gz", "application/gzip"},
    {".tar", "application/x-tar"}, {".wav", "audio/wav"},
    {".bmp", "image/bmp"},         {".ico", "image/vnd.microsoft.icon"},
    {".mp3", "audio/mpeg"},        {".parquet", "application/vnd.apache.parquet"},
});

}  // namespace

std::string_view mime_of(std::string_view path) {
  for (const auto& kind : kKinds) {
    if (path.ends_with(kind.extension)) return kind.mime;
  }
  return "application/octet-stream";
}

}  // namespace cove::http
