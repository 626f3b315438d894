"""A server process that misbehaves as it is asked to: ``rough.py SOCKET``; the method's name says how.

Every connection is one thread with a blocking socket. What is well-behaved about it comes from h2.
"""

import os
import random
import signal
import socket
import struct
import sys
import threading
from collections import Counter

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, RequestReceived, StreamEnded
from h2.settings import SettingCodes
from hyperframe.frame import GoAwayFrame, HeadersFrame, RstStreamFrame

ANSWER = [(":status", "200"), ("content-type", "application/grpc")]
TRAILERS = [("grpc-status", "0")]


class Server:
    refusals_left = 2
    answered_goaway = False

    def __init__(self, sock):
        self.sock = sock
        self.h2 = H2Connection(
            H2Configuration(
                client_side=False,
                header_encoding="utf-8",
                validate_outbound_headers=False,
                normalize_outbound_headers=False,
            )
        )
        self.paths = {}
        self.deaf = threading.Event()
        self.waiting = []
        self.held = 0
        self.heard = Counter()

    def run(self):
        self.h2.initiate_connection()
        self.flush()
        while data := self.sock.recv(65536):
            for event in self.h2.receive_data(data):
                if isinstance(event, RequestReceived):
                    self.paths[event.stream_id] = dict(event.headers)[":path"].rpartition("/")[2]
                if isinstance(event, StreamEnded) or self.is_too_long(event):
                    getattr(self, self.paths[event.stream_id])(event.stream_id)
            self.flush()

    def is_too_long(self, event):
        """True if a request has used up its window, which is never opened; the connection's is, for the next one."""
        if not isinstance(event, DataReceived):
            return False
        self.heard[event.stream_id] += len(event.data)
        if self.heard[event.stream_id] < 65_535:
            return False
        self.h2.increment_flow_control_window(65_535)
        return True

    def flush(self):
        self.sock.sendall(self.h2.data_to_send())

    def answer(self, stream, message=b"fine"):
        self.h2.send_headers(stream, ANSWER)
        self.h2.send_data(stream, struct.pack(">BI", 0, len(message)) + message)
        self.h2.send_headers(stream, TRAILERS, end_stream=True)

    def well(self, stream):
        self.answer(stream)

    def holds(self, stream):
        """Back its answer, for ever."""
        self.held = stream

    def dies(self, stream):
        """In the middle of a DATA frame, as the kernel's OOM killer would have it."""
        self.h2.send_headers(stream, ANSWER)
        self.flush()
        frame = struct.pack(">I", 1000)[1:] + b"\x00\x00" + struct.pack(">I", stream)
        self.sock.sendall(frame + struct.pack(">BI", 0, 995) + b"only this much")
        os.kill(os.getpid(), signal.SIGKILL)

    def closes(self, stream):
        self.h2.send_headers(stream, ANSWER)
        self.flush()
        self.sock.shutdown(socket.SHUT_RDWR)

    def goes(self, stream):
        """GOAWAY once two calls are there: the first is answered after it, the second was never looked at."""
        if Server.answered_goaway:
            self.answer(stream, b"second connection")
            return
        self.waiting.append(stream)
        if len(self.waiting) == 2:
            Server.answered_goaway = True
            first = self.waiting[0]
            self.flush()
            self.sock.sendall(GoAwayFrame(0, last_stream_id=first, additional_data=b"restarting").serialize())
            self.answer(first, b"first connection")

    def goes_wordily(self, stream):
        """GOAWAY with a long text, after the answer."""
        self.answer(stream, b"an answer")
        self.flush()
        self.sock.sendall(GoAwayFrame(0, last_stream_id=stream, additional_data=b"restarting " * 10_000).serialize())

    def stops(self, stream):
        """Reading, for ever."""
        self.deaf.wait()

    def rubbish(self, stream):
        self.flush()
        self.sock.sendall(random.Random(1).randbytes(5000))

    def trickles(self, stream):
        """The whole answer, a byte at a time."""
        self.flush()
        self.answer(stream, bytes(range(256)) * 4)
        for byte in self.h2.data_to_send():
            self.sock.sendall(bytes([byte]))

    def refuses(self, stream):
        if Server.refusals_left:
            Server.refusals_left -= 1
            self.h2.reset_stream(stream, 7)
        else:
            self.answer(stream)

    def refuses_always(self, stream):
        self.h2.reset_stream(stream, 7)

    def resets(self, stream):
        self.h2.reset_stream(stream, 2)

    def resets_with_a_length(self, stream):
        """And in the same breath the headers of the call it holds. Long ones, which nobody but h2 reads."""
        self.flush()
        headers = [*ANSWER, ("long", "x" * 1000)]
        begun = HeadersFrame(stream, self.h2.encoder.encode([*headers, ("content-length", "9")]), flags=["END_HEADERS"])
        late = HeadersFrame(self.held, self.h2.encoder.encode(headers), flags=["END_HEADERS"])
        reset = RstStreamFrame(stream, error_code=2)
        self.sock.sendall(begun.serialize() + reset.serialize() + late.serialize())

    def http503(self, stream):
        self.h2.send_headers(stream, [(":status", "503")], end_stream=True)

    def html(self, stream):
        self.h2.send_headers(stream, [(":status", "200"), ("content-type", "text/html")])
        self.h2.send_data(stream, b"<html>", end_stream=True)

    def silent_end(self, stream):
        self.h2.send_headers(stream, ANSWER)
        self.h2.end_stream(stream)

    def silent_end_at_its_length(self, stream):
        self.h2.send_headers(stream, [*ANSWER, ("content-length", "9")])
        self.h2.send_data(stream, struct.pack(">BI", 0, 4) + b"fine", end_stream=True)

    def cut_message(self, stream):
        self.h2.send_headers(stream, ANSWER)
        self.h2.send_data(stream, struct.pack(">BI", 0, 10) + b"half")
        self.h2.send_headers(stream, TRAILERS, end_stream=True)

    def compressed(self, stream):
        self.h2.send_headers(stream, ANSWER)
        self.h2.send_data(stream, struct.pack(">BI", 1, 4) + b"zzzz")
        self.h2.send_headers(stream, TRAILERS, end_stream=True)

    def no_message(self, stream):
        self.h2.send_headers(stream, ANSWER)
        self.h2.send_headers(stream, TRAILERS, end_stream=True)

    def two_messages(self, stream):
        self.h2.send_headers(stream, ANSWER)
        self.h2.send_data(stream, (struct.pack(">BI", 0, 1) + b"x") * 2)
        self.h2.send_headers(stream, TRAILERS, end_stream=True)

    def after_the_message(self, stream):
        """Comes something that is no message."""
        self.h2.send_headers(stream, ANSWER)
        self.h2.send_data(stream, struct.pack(">BI", 0, 4) + b"fine" + b"\0\0")
        self.h2.send_headers(stream, TRAILERS, end_stream=True)

    def padded(self, stream):
        self.h2.send_headers(stream, ANSWER)
        for byte in struct.pack(">BI", 0, 4) + b"fine":
            self.h2.send_data(stream, bytes([byte]), pad_length=byte)
        self.h2.send_headers(stream, TRAILERS, end_stream=True)

    def empty_frames(self, stream):
        self.h2.send_headers(stream, ANSWER)
        for part in (b"", struct.pack(">BI", 0, 4), b"", b"fine", b""):
            self.h2.send_data(stream, part)
        self.h2.send_headers(stream, TRAILERS, end_stream=True)

    def with_a_length(self, stream):
        self.h2.send_headers(stream, [*ANSWER, ("content-length", "9")])
        self.h2.send_data(stream, struct.pack(">BI", 0, 4) + b"fine")
        self.h2.send_headers(stream, TRAILERS, end_stream=True)

    def html_with_a_length(self, stream):
        self.h2.send_headers(stream, [(":status", "200"), ("content-type", "text/html"), ("content-length", "6")])
        self.h2.send_data(stream, b"<html>", end_stream=True)

    def floods(self, stream):
        """Whatever window there is."""
        self.h2.send_headers(stream, ANSWER)
        self.flush()
        frame = b"\x00\x40\x00\x00\x00" + struct.pack(">I", stream) + struct.pack(">BI", 0, 16_379) + bytes(16_379)
        for _ in range(1200):
            self.sock.sendall(frame)

    def odd_status(self, stream):
        self.h2.send_headers(stream, [*ANSWER, ("grpc-status", "99")], end_stream=True)

    def blanks(self, stream):
        """At the end of an error text, as runc's errors have them and Go's servers pass them on."""
        self.h2.send_headers(
            stream, [*ANSWER, ("grpc-status", "2"), ("grpc-message", " exit status 1: ")], end_stream=True
        )

    def no_number(self, stream):
        self.h2.send_headers(stream, [*ANSWER, ("grpc-status", "fine")], end_stream=True)

    def long_number(self, stream):
        self.h2.send_headers(stream, [*ANSWER, ("grpc-status", "9" * 10_000)], end_stream=True)

    def one_call_at_a_time(self, stream):
        """From now on; says how many calls it sees open."""
        if self.h2.local_settings.max_concurrent_streams != 1:
            self.h2.update_settings({SettingCodes.MAX_CONCURRENT_STREAMS: 1})
        self.answer(stream, str(self.h2.open_inbound_streams).encode())


def serve(sock):
    try:
        Server(sock).run()
    except OSError:
        pass
    finally:
        sock.close()


listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
listener.listen(16)
print("ready", flush=True)
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
