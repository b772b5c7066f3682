// A shop in one file, with what Node has alone: the lab sends it a crowd and counts what it sold.
//
//   miaosha lab --mine "node seckill/lab/starters/node/shop.js" --processes 2
//
// It oversells. Your work is buy(), below. 本文件是一个店铺，只用 Node 自带的模块。实验室派一群买家来抢，再数它卖出了什么。它会超卖，要改的是 buy()。
'use strict';
const crypto = require('node:crypto');
const http = require('node:http');
const net = require('node:net');

// ---- your way to sell: from here ----

// Runs once in each process when it starts, also in one that takes the place of a killed one.
async function prepare() {}

// One click: return true if the buyer gets a unit, false if not. There is one thread, but at each await another click goes on,
// and other processes run beside it.
async function buy(user) {
  return withConnection(async (db) => {
    const { rows } = await db.query('select stock from item');
    const stock = Number(rows[0][0]);
    if (stock <= 0) return false;
    await lookUpPrice(); // meanwhile other buyers read the same stock
    // HERE is the mistake: the stock was read before, and is written as if no one had written it since.
    // 错在这里：库存是先前读的，写的时候却当作没有别人改过。
    await db.query(`update item set stock = ${stock - 1}`);
    await db.query(`insert into orders (user_id) values (${user})`);
    return true;
  });
}

// ---- your way to sell: to here ----

const lookUpPrice = () => new Promise((done) => setTimeout(done, 1));

const server = http.createServer(async (request, reply) => {
  const url = new URL(request.url, 'http://shop');
  const end = (status) => reply.writeHead(status, { 'Content-Length': 0 }).end();
  if (request.method === 'GET' && url.pathname === '/ready') return end(200);
  // Every click is answered after its work is done, so nothing is left to finish.
  if (request.method === 'POST' && url.pathname === '/end') return end(200);
  if (request.method !== 'POST' || url.pathname !== '/buy') return end(404);
  const user = Number(url.searchParams.get('user')); // a number: it may stand in the text of a statement
  if (!Number.isSafeInteger(user)) return end(400);
  try {
    end((await buy(user)) ? 200 : 409);
  } catch (err) { // the buyer gets no answer and clicks again
    console.log('user', user, err.message);
    end(500);
  }
});

// Postgres is one connection: the part of Postgres' protocol that this shop needs. A real shop takes a driver, such as pg.
class Postgres {
  constructor(url) {
    const u = new URL(url);
    this.user = decodeURIComponent(u.username);
    this.password = decodeURIComponent(u.password);
    this.input = Buffer.alloc(0);
    this.socket = net.connect(Number(u.port) || 5432, u.hostname);
    this.socket.setNoDelay(true);
    this.socket.on('data', (data) => this.read(data));
    this.socket.on('error', (err) => this.fail(err));
    this.socket.on('close', () => this.fail(new Error('Postgres has closed the connection')));
    const text = Buffer.from(['user', this.user, 'database', u.pathname.slice(1) || this.user, '', ''].join('\0'));
    const start = Buffer.alloc(8);
    start.writeInt32BE(text.length + 8, 0);
    start.writeInt32BE(196608, 4); // protocol 3.0
    this.socket.write(Buffer.concat([start, text]));
    this.ready = this.wait();
  }

  // query runs statements. It resolves to the rows, each a list of texts (null for null), and how many rows the last one touched.
  query(sql) {
    this.send('Q', Buffer.from(sql + '\0'));
    return this.wait();
  }

  // wait resolves when Postgres is ready for the next query.
  wait() {
    this.result = { rows: [], affected: 0 };
    this.error = null;
    return new Promise((resolve, reject) => {
      if (this.closed) reject(this.closed);
      Object.assign(this, { resolve, reject });
    });
  }

  fail(err) {
    this.closed ??= err;
    this.reject?.(err);
  }

  send(kind, body) {
    const head = Buffer.alloc(5);
    head.write(kind);
    head.writeInt32BE(body.length + 4, 1);
    this.socket.write(Buffer.concat([head, body]));
  }

  read(data) {
    this.input = Buffer.concat([this.input, data]);
    while (this.input.length >= 5) {
      const size = this.input.readInt32BE(1) + 1;
      if (this.input.length < size) return;
      const kind = String.fromCharCode(this.input[0]), body = this.input.subarray(5, size);
      this.input = this.input.subarray(size);
      if (kind === 'R') this.authenticate(body.readInt32BE(0), body.subarray(4));
      else if (kind === 'D') this.result.rows.push(readRow(body));
      else if (kind === 'C') this.result.affected = Number(body.toString('utf8', 0, body.length - 1).split(' ').pop()) || 0;
      else if (kind === 'E') {
        const fields = Object.fromEntries(body.toString().split('\0').filter(Boolean).map((part) => [part[0], part.slice(1)]));
        this.error = Object.assign(new Error(fields.M), { code: fields.C }); // the SQLSTATE, such as 23505 for a unique index
        if (fields.S === 'FATAL') this.fail(this.error);
      } else if (kind === 'Z') this.error ? this.reject(this.error) : this.resolve(this.result);
    }
  }

  authenticate(method, data) {
    const hash = (name, ...parts) => parts.reduce((h, part) => h.update(part), crypto.createHash(name));
    const mac = (key, text) => crypto.createHmac('sha256', key).update(text).digest();
    if (method === 3) this.send('p', Buffer.from(this.password + '\0')); // password in the clear
    else if (method === 5) this.send('p', Buffer.from('md5' + hash('md5', hash('md5', this.password, this.user).digest('hex'), data).digest('hex') + '\0'));
    else if (method === 10) { // SCRAM-SHA-256 (RFC 5802): the first message
      this.nonce = crypto.randomBytes(18).toString('base64');
      const first = Buffer.from(`n,,n=,r=${this.nonce}`), size = Buffer.alloc(4);
      size.writeInt32BE(first.length);
      this.send('p', Buffer.concat([Buffer.from('SCRAM-SHA-256\0'), size, first]));
    } else if (method === 11) { // SCRAM: the proof
      const parts = Object.fromEntries(data.toString().split(',').map((part) => [part[0], part.slice(2)]));
      const salted = crypto.pbkdf2Sync(this.password, Buffer.from(parts.s, 'base64'), Number(parts.i), 32, 'sha256');
      const key = mac(salted, 'Client Key'), final = `c=biws,r=${parts.r}`;
      const signature = mac(hash('sha256', key).digest(), `n=,r=${this.nonce},${data},${final}`);
      this.send('p', Buffer.from(`${final},p=${key.map((byte, i) => byte ^ signature[i]).toString('base64')}`));
    }
  }
}

function readRow(body) {
  const row = [];
  for (let at = 2, n = body.readInt16BE(0); n > 0; n--) {
    const size = body.readInt32BE(at);
    at += 4;
    row.push(size < 0 ? null : body.toString('utf8', at, at + size));
    at += Math.max(size, 0);
  }
  return row;
}

const pool = []; // connections that no click uses
const waiting = []; // clicks that wait for one

async function connect() {
  const db = new Postgres(process.env.DATABASE_URL);
  await db.ready;
  return db;
}

// withConnection lends a connection to one click. After an error it takes a new one: a transaction may be open in the old one.
async function withConnection(work) {
  let db = pool.pop() ?? await new Promise((lent) => waiting.push(lent));
  try {
    return await work(db);
  } catch (err) {
    db.socket.destroy();
    db = await connect();
    throw err;
  } finally {
    const next = waiting.shift();
    next ? next(db) : pool.push(db);
  }
}

(async () => {
  for (let i = Number(process.env.DATABASE_CONNECTIONS); i > 0; i--) pool.push(await connect());
  await prepare();
  server.listen(Number(process.env.PORT), '127.0.0.1');
})();
