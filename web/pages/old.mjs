// Every page in the oldest Chromium in which the pages are to work: the package @sparticuz/chromium has Chromium 92, for Linux on
// x86-64. Another system skips it. `make pages` runs it.
import { createReadStream, createWriteStream } from 'node:fs';
import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { createBrotliDecompress } from 'node:zlib';
import puppeteer from 'puppeteer-core';
import { openShop } from './shop.mjs';

const { MIAOSHA = '../../miaosha', SHOTS = '' } = process.env;

// unpack returns the path of the browser, in a folder.
async function unpack(folder) {
  const bin = join(dirname(createRequire(import.meta.url).resolve('@sparticuz/chromium/package.json')), 'bin');
  const program = join(folder, 'chromium');
  await pipeline(createReadStream(join(bin, 'chromium.br')), createBrotliDecompress(), createWriteStream(program));
  await chmod(program, 0o755);
  return program;
}

// errorsOf opens a page in a tab of its own, and returns what is wrong: errors of scripts, words about a lost part, or a skeleton.
async function errorsOf(browser, shop, { name, path, token }) {
  const errors = [];
  const tab = await browser.newPage();
  tab.on('pageerror', (error) => errors.push(error.message));
  if (token) await tab.setCookie({ name: 'session', value: token, url: shop.url, httpOnly: true });
  try {
    await tab.setViewport({ width: 390, height: 844 });
    await tab.goto(shop.url + path);
    await tab.waitForFunction(() => document.getElementById('main') && !document.querySelector('[aria-busy="true"]'));
    const lost = await tab.evaluate(() => document.documentElement.dataset.lost);
    if (lost) errors.push('it says that it lost its ' + lost);
    const wider = await tab.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    if (wider > 0) errors.push(`it is ${wider} pixels wider than a phone`);
  } catch (error) {
    errors.push(error.message);
  }
  if (SHOTS) await tab.screenshot({ path: join(SHOTS, name.replace(' ', '-') + '.png') });
  await tab.deleteCookie({ name: 'session', url: shop.url });
  await tab.close();
  return errors.map((error) => `${name}: ${error}`);
}

if (process.platform !== 'linux' || process.arch !== 'x64') {
  console.log('There is no Chromium 92 for this system here.');
  process.exit();
}
const folder = await mkdtemp(join(tmpdir(), 'miaosha-old-'));
const browser = await puppeteer.launch({ executablePath: await unpack(folder), userDataDir: join(folder, 'profile'),
  args: ['--no-sandbox', '--disable-gpu', '--hide-scrollbars'], waitForInitialPage: false });
console.log(await browser.version());
const shop = await openShop(MIAOSHA);
const failures = [];
try {
  for (const page of shop.pages) failures.push(...await errorsOf(browser, shop, page));
} finally {
  await shop.close();
  await browser.close();
  await rm(folder, { recursive: true, force: true });
}
console.log(failures.length ? failures.join('\n') : `${shop.pages.length} pages have no errors`);
if (failures.length) process.exitCode = 1;
