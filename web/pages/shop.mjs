// A shop to measure: its own sandbox in a folder that goes with it, a buyer with a paid order and one to pay, an administrator.
import { spawn } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const BUYER = '13800000000', ADMIN = '13900000000', PASSWORD = 'miaosha-demo'; // of every sandbox
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

// openShop starts the program and returns {url, pages, close}. A page is {name, path, token, missing}: one with a token
// is for that session, and a missing one has the status 404.
export async function openShop(program) {
  const data = await mkdtemp(join(tmpdir(), 'miaosha-pages-'));
  const { DATABASE_URL: _, REDIS_URL: __, ...env } = process.env; // it runs its own stores
  const shop = spawn(program, ['serve', '--data-dir', data, '--addr', '127.0.0.1:0', '--ops-addr', 'off', '--captcha', 'off', '--rate', 'off',
    '--pay-within', '12h', '--live-view', 'public'], { stdio: ['ignore', 'pipe', 'inherit'], env });
  const ended = new Promise((done) => shop.on('exit', done));
  const close = async () => {
    shop.kill('SIGTERM');
    await ended;
    await rm(data, { recursive: true, force: true });
  };
  try {
    const url = await Promise.race([address(shop.stdout), ended.then((code) => { throw new Error(`the shop ended with ${code}`); })]);
    for (let tries = 0; !(await fetch(url).catch(() => null))?.ok; tries++) {
      if (tries > 100) throw new Error('the shop does not answer');
      await sleep(100);
    }
    return { url, pages: await pagesOf(url), close };
  } catch (error) {
    await close();
    throw error;
  }
}

async function address(output) {
  let text = '';
  for await (const part of output) {
    text += part;
    const found = /is open at (\S+)/.exec(text);
    if (found) {
      output.resume();
      return found[1];
    }
  }
  throw new Error('the shop named no address');
}

async function pagesOf(url) {
  const call = async (method, path, token, body) => {
    const reply = await fetch(url + path, { method, body: body && JSON.stringify(body),
      headers: { ...(body && { 'Content-Type': 'application/json' }), ...(token && { Authorization: 'Bearer ' + token }) } });
    const { code, data } = await reply.json();
    if (code !== 'ok') throw new Error(`${method} ${path}: ${code}`);
    return data;
  };
  const logIn = async (phone) => (await call('POST', '/api/login', null, { phone, password: PASSWORD })).token;
  const buyer = await logIn(BUYER), admin = await logIn(ADMIN);
  const buy = async (sale) => {
    const { path } = await call('POST', `/api/sales/${sale}/path`, buyer);
    await call('POST', `/api/sales/${sale}/buy/${path}`, buyer);
    for (;;) {
      const result = await call('GET', `/api/sales/${sale}/result`, buyer);
      if (result.state === 'ordered') return result.order_id;
      if (result.state !== 'queued') throw new Error(`sale ${sale}: ${result.state}`);
      await sleep(100);
    }
  };
  let open = [];
  while (open.length < 3) { // the demo sales are in the list within a second
    await sleep(100);
    open = (await call('GET', '/api/sales')).filter((s) => s.state === 'open').map((s) => s.id);
  }
  await buy(open[0]);
  const order = await buy(open[1]);
  const { pay_url: pay } = await call('POST', `/api/orders/${order}/pay`, buyer);
  const all = [
    { name: 'home', path: '/' },
    { name: 'sale', path: '/sale.html?id=' + open[2] },
    { name: 'login', path: '/login.html' },
    { name: 'account', path: '/account.html', token: buyer },
    { name: 'orders', path: '/orders.html', token: buyer },
    { name: 'order', path: '/order.html?id=' + order, token: buyer },
    { name: 'pay', path: pay, token: buyer },
    { name: 'admin', path: '/admin.html', token: admin },
    { name: 'live', path: '/live.html' },
    { name: 'lab', path: '/lab.html' },
    { name: 'mine', path: '/mine.html' },
    { name: 'courses', path: '/courses.html' },
    { name: 'handout', path: '/handout.html?lesson=1' },
    { name: 'class', path: '/class.html' },
    { name: 'teach', path: '/teach.html', token: admin },
  ];
  const there = [];
  for (const page of all) if ((await fetch(url + page.path)).ok) there.push(page);
  return [...there, { name: 'no page', path: '/no-such-page', missing: true }];
}
