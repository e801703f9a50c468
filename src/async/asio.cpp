// The body of Asio, compiled once: in headers alone, every source that includes them would compile its share anew.
#include <boost/asio/impl/src.hpp>
