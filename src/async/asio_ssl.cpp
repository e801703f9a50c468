// The body of Asio's TLS, compiled once, as in asio.cpp.
#include <boost/asio/ssl/impl/src.hpp>
