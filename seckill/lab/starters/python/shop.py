"""A shop in one file, with Python's standard library alone: the lab sends it a crowd and counts what it sold.

    miaosha lab --mine "python3 seckill/lab/starters/python/shop.py" --processes 2

It oversells. Your work is buy(), further down.
本文件是一个店铺，只用 Python 标准库。实验室派一群买家来抢，再数它卖出了什么。它会超卖，要改的是 buy()。
"""

import base64
import hashlib
import hmac
import os
import queue
import socket
import struct
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit


# ---- your way to sell: from here ----

def prepare():
    """Runs once in each process when it starts, also in one that takes the place of a killed one."""


def buy(user):
    """One click: return True if the buyer gets a unit, False if not. It runs in many threads and processes at once."""
    with connection() as db:
        rows, _ = db.query("select stock from item")
        stock = int(rows[0][0])
        if stock <= 0:
            return False
        look_up_price()  # meanwhile other buyers read the same stock
        # HERE is the mistake: the stock was read before, and is written as if no one had written it since.
        # 错在这里：库存是先前读的，写的时候却当作没有别人改过。
        db.query(f"update item set stock = {stock - 1}")
        db.query(f"insert into orders (user_id) values ({user})")
        return True

# ---- your way to sell: to here ----


def look_up_price():
    time.sleep(0.001)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # connections are used again

    def do_GET(self):
        self.reply(200 if self.path == "/ready" else 404)

    def do_POST(self):
        url = urlsplit(self.path)
        if url.path == "/end":  # every click is answered after its work is done, so nothing is left to finish
            return self.reply(200)
        if url.path != "/buy":
            return self.reply(404)
        user = int(parse_qs(url.query)["user"][0])  # a number: it may stand in the text of a statement
        try:
            self.reply(200 if buy(user) else 409)
        except (PostgresError, OSError) as err:  # the buyer gets no answer and clicks again
            print("user", user, err, flush=True)
            self.reply(500)

    def reply(self, status):
        self.send_response_only(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    request_queue_size = 128
    daemon_threads = True


class PostgresError(Exception):
    def __init__(self, fields):
        super().__init__(fields.get("M", ""))
        self.code = fields.get("C", "")  # the SQLSTATE, such as 23505 for a unique index


class Postgres:
    """One connection: the part of Postgres' protocol that this shop needs. A real shop takes a driver, such as psycopg."""

    def __init__(self, url):
        u = urlsplit(url)
        user, self.password = unquote(u.username), unquote(u.password or "")
        self.socket = socket.create_connection((u.hostname, u.port or 5432))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.input = self.socket.makefile("rb")
        start = struct.pack("!i", 196608)  # protocol 3.0
        for text in ("user", user, "database", u.path.lstrip("/") or user):
            start += text.encode() + b"\0"
        self.socket.sendall(struct.pack("!i", len(start) + 5) + start + b"\0")
        while True:
            kind, body = self.receive()
            if kind == b"Z":
                return
            if kind == b"R":
                self.authenticate(user, struct.unpack("!i", body[:4])[0], body[4:])

    def authenticate(self, user, method, data):
        if method == 3:  # password in the clear
            self.send(b"p", self.password.encode() + b"\0")
        elif method == 5:  # md5
            inner = hashlib.md5((self.password + user).encode()).hexdigest().encode()
            self.send(b"p", b"md5" + hashlib.md5(inner + data).hexdigest().encode() + b"\0")
        elif method == 10:  # SCRAM-SHA-256 (RFC 5802): the first message
            self.nonce = base64.b64encode(os.urandom(18)).decode()
            first = f"n,,n=,r={self.nonce}".encode()
            self.send(b"p", b"SCRAM-SHA-256\0" + struct.pack("!i", len(first)) + first)
        elif method == 11:  # SCRAM: the proof
            server = data.decode()
            parts = dict(part.split("=", 1) for part in server.split(","))
            salted = hashlib.pbkdf2_hmac("sha256", self.password.encode(), base64.b64decode(parts["s"]), int(parts["i"]))
            key = hmac.digest(salted, b"Client Key", "sha256")
            final = "c=biws,r=" + parts["r"]
            message = f"n=,r={self.nonce},{server},{final}".encode()
            signature = hmac.digest(hashlib.sha256(key).digest(), message, "sha256")
            proof = bytes(a ^ b for a, b in zip(key, signature))
            self.send(b"p", f"{final},p={base64.b64encode(proof).decode()}".encode())

    def query(self, sql):
        """Runs statements. Returns the rows, each a list of texts (None for null), and how many rows the last one touched."""
        self.send(b"Q", sql.encode() + b"\0")
        rows, affected, error = [], 0, None
        while True:
            try:
                kind, body = self.receive()
            except PostgresError as err:
                error = err  # ReadyForQuery (Z) still follows
                continue
            if kind == b"D":
                rows.append(read_row(body))
            elif kind == b"C":
                last = body[:-1].split()[-1]
                affected = int(last) if last.isdigit() else 0
            elif kind == b"Z":
                if error:
                    raise error
                return rows, affected

    def send(self, kind, body):
        self.socket.sendall(kind + struct.pack("!i", len(body) + 4) + body)

    def receive(self):
        head = self.input.read(5)
        if len(head) < 5:
            raise ConnectionError("Postgres has closed the connection")
        kind, size = head[:1], struct.unpack("!i", head[1:])[0]
        body = self.input.read(size - 4)
        if kind == b"E":
            raise PostgresError({part[:1].decode(): part[1:].decode() for part in body.split(b"\0") if part})
        return kind, body


def read_row(body):
    row, at = [], 2
    for _ in range(struct.unpack("!h", body[:2])[0]):
        size = struct.unpack("!i", body[at:at + 4])[0]
        at += 4
        row.append(None if size < 0 else body[at:at + size].decode())
        at += max(size, 0)
    return row


pool = queue.SimpleQueue()  # of connections that no click uses


@contextmanager
def connection():
    """Lends a connection to one click. After an error it takes a new one: a transaction may be open in the old one."""
    db = pool.get()
    try:
        yield db
    except BaseException:
        db.socket.close()
        db = None
        raise
    finally:
        pool.put(db or Postgres(os.environ["DATABASE_URL"]))


if __name__ == "__main__":
    for _ in range(int(os.environ["DATABASE_CONNECTIONS"])):
        pool.put(Postgres(os.environ["DATABASE_URL"]))
    prepare()
    Server(("127.0.0.1", int(os.environ["PORT"])), Handler).serve_forever()
