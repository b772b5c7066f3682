// The pictures of the READMEs, taken anew from a shop of its own: `make shots` writes them into ../shots.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import puppeteer from 'puppeteer-core';
import { findChromium } from './chromium.mjs';
import { openShop } from './shop.mjs';

const { MIAOSHA = '../../miaosha', SHOTS = '../shots' } = process.env;
const DESKTOP = { width: 1280, height: 900 };

const profile = await mkdtemp(join(tmpdir(), 'miaosha-chromium-'));
const browser = await puppeteer.launch({ executablePath: findChromium(), userDataDir: profile, args: ['--no-sandbox', '--disable-gpu', '--hide-scrollbars'] });
const shop = await openShop(MIAOSHA).catch(async (error) => { await browser.close(); throw error; });
const tokenOf = (name) => shop.pages.find((page) => page.name === name).token;

// shoot opens a page with a session and in a language, prepares it with steps(tab), and writes its picture.
async function shoot(name, path, token, language, steps = () => {}) {
  const context = await browser.createBrowserContext();
  const tab = await context.newPage();
  await tab.setViewport(DESKTOP);
  await tab.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: 'light' }]);
  await tab.evaluateOnNewDocument((l) => { localStorage.setItem('miaosha.lang', l); localStorage.setItem('miaosha.tour', '0'); }, language);
  if (token) await context.setCookie({ name: 'session', value: token, domain: new URL(shop.url).hostname, path: '/', httpOnly: true });
  await tab.goto(shop.url + path);
  await tab.waitForSelector('main:not([aria-busy])');
  await steps(tab);
  await new Promise((done) => setTimeout(done, 500));
  await tab.screenshot({ path: join(SHOTS, name + '.png') });
  await context.close();
}

try {
  const buyer = tokenOf('order'), admin = tokenOf('admin');
  await shoot('home', '/', null, 'zh', (tab) => tab.waitForSelector('[data-test="sale-card"]'));
  await shoot('lab', '/lab.html#bench', null, 'en', async (tab) => {
    for (const name of ['lua-channel', 'shop']) await tab.locator(`[data-test="strategy-${name}"]`).click();
    await tab.locator('[data-test="bench-run"]').click();
    await tab.waitForSelector('[data-test="run"][data-state="done"] [data-test="results"]');
    await tab.$eval('[data-test="results"]', (results) => results.scrollIntoView({ block: 'end' }));
    await tab.evaluate(() => scrollBy(0, 60));
  });
  const sales = await (await fetch(shop.url + '/api/sales')).json();
  const sale = sales.data.filter((s) => s.state === 'open').toSorted((a, b) => b.left - a.left)[0].id;
  await shoot('live', '/admin.html#live/' + sale, admin, 'zh', async (tab) => {
    await tab.waitForSelector('[data-test="live-left"]');
    await tab.evaluate((id) => fetch('/api/sandbox/bots', { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify({ sale: id }) }), sale);
    await tab.waitForFunction(() => document.querySelector('[data-test="live-left"]').innerText === '0');
    await new Promise((done) => setTimeout(done, 4000)); // the charts show what came before and after
  });
  await shoot('sales', '/admin.html#sales', admin, 'zh', (tab) => tab.waitForSelector('[data-test="sales"]'));
  const order = new URLSearchParams(shop.pages.find((page) => page.name === 'order').path.split('?')[1]).get('id');
  await shoot('ticket', '/admin.html#ticket=' + order, buyer, 'en', async (tab) => {
    await tab.waitForSelector('details');
    await tab.$$eval('details', (all) => {
      const step = all.find((details) => details.innerText.includes('lanes.serve'));
      step.open = true;
      step.scrollIntoView({ block: 'center' });
    });
  });
} finally {
  await browser.close();
  await shop.close();
  await rm(profile, { recursive: true, force: true });
}
