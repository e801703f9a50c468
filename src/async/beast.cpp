// The body of Beast, compiled once, as in asio.cpp.
#include <boost/beast/src.hpp>
