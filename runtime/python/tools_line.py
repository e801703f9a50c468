"""Holds the socket over which processes of this sandbox call tools: one JSON text a line in, one out. Passes them on over the channel on
descriptor 3, each with the number of its connection. Keeps nothing: whoever hangs up gives its call up."""
import json
import os
import selectors
import socket

SOCKET = "/tmp/.cove-tools.sock"
LARGEST = 9 << 20  # of a line
CONNECTIONS = 256
RECORD = 65536
FIRST, LAST = 1, 2


class Connection:
    def __init__(self, number, line):
        self.number, self.line = number, line
        self.received, self.unsent = bytearray(), bytearray()
        self.waits = False  # for an answer: what it sends meanwhile stays where it is


def send(text):
    data = text.encode()
    for at in range(0, len(data), RECORD - 1):
        flags = (FIRST if at == 0 else 0) | (LAST if at + RECORD - 1 >= len(data) else 0)
        os.write(3, bytes([flags]) + data[at:at + RECORD - 1])


class Relay:
    def __init__(self):
        if os.path.lexists(SOCKET):
            os.unlink(SOCKET)
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        self.listener.bind(SOCKET)
        os.chmod(SOCKET, 0o666)
        self.listener.listen(64)
        self.selector = selectors.DefaultSelector()
        self.selector.register(3, selectors.EVENT_READ)
        self.selector.register(self.listener, selectors.EVENT_READ)
        self.connections, self.next = {}, 1
        self.pieces = []

    def run(self):
        while True:
            for key, events in self.selector.select():
                if key.fd == 3:
                    self.answer()
                elif key.fileobj is self.listener:
                    self.accept()
                elif key.data.number in self.connections:
                    self.serve(key.data, events)

    def accept(self):
        try:
            line, _ = self.listener.accept()
        except OSError:
            return
        if len(self.connections) >= CONNECTIONS:
            line.close()
            return
        line.setblocking(False)
        connection = Connection(self.next, line)
        self.next += 1
        self.connections[connection.number] = connection
        self.selector.register(line, selectors.EVENT_READ, connection)

    def serve(self, connection, events):
        try:
            if events & selectors.EVENT_WRITE:
                del connection.unsent[:connection.line.send(connection.unsent)]
            if events & selectors.EVENT_READ:
                data = connection.line.recv(1 << 18)
                if not data:
                    return self.drop(connection)
                connection.received += data
        except BlockingIOError:
            pass
        except OSError:
            return self.drop(connection)
        if len(connection.received) > LARGEST:
            return self.drop(connection)
        self.take(connection)

    def take(self, connection):
        if not connection.waits and not connection.unsent:
            text, end, rest = bytes(connection.received).partition(b"\n") if b"\n" in connection.received else (b"", b"", None)
            if end:
                connection.received = bytearray(rest)
                self.ask(connection, text)
        # One that waits is read from too: its end is how a call is given up.
        self.selector.modify(connection.line, selectors.EVENT_READ | (selectors.EVENT_WRITE if connection.unsent else 0), connection)

    def ask(self, connection, text):
        try:
            content = json.loads(text)
            if not isinstance(content, dict):
                raise ValueError
        except (ValueError, RecursionError):
            connection.unsent += b'{"error":{"type":"error","message":"a line is no JSON object"}}\n'
            return
        connection.waits = True
        send(json.dumps({"type": "tool_call", "parent": connection.number, "content": content}))

    def answer(self):
        record = os.read(3, RECORD)
        if not record:
            os._exit(0)
        if record[0] & FIRST:
            self.pieces.clear()
        self.pieces.append(record[1:])
        if not record[0] & LAST:
            return
        message = json.loads(b"".join(self.pieces))
        connection = self.connections.get(message.get("id"))
        if connection is not None:
            connection.waits = False
            connection.unsent += json.dumps(message.get("content")).encode() + b"\n"
            self.take(connection)

    def drop(self, connection):
        self.selector.unregister(connection.line)
        connection.line.close()
        del self.connections[connection.number]
        if connection.waits:
            send(json.dumps({"type": "tool_cancel", "parent": connection.number, "content": {}}))


os.set_inheritable(3, False)
Relay().run()
