"""A web server on loopback that answers "hello" and remembers what it was asked."""
import http.server
import threading


class Web(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self):
        self.seen = []  # the headers of each request
        self.paths = []
        web = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                web.seen.append(dict(self.headers.items()))
                web.paths.append(self.path)
                self.answer(b"hello")

            def answer(self, body):
                self.send_response(200)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        super().__init__(("127.0.0.1", 0), Handler)
        self.port = self.server_address[1]
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()
