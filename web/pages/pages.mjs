// Lighthouse and axe on every page of the shop, in both themes, on a phone and on a desktop; axe in both languages too. It prints
// tables in Markdown and ends with 1 if a median is below the threshold or axe finds anything. `make pages` runs it:
//
//   make pages                    five runs of Lighthouse each, an hour
//   make pages runs=1             one run each
//   make pages runs=0             axe alone, a minute
//   make pages only=home,lab      some pages
//   make pages least=90           another threshold
import { readFile, mkdtemp, rm } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import puppeteer from 'puppeteer-core';
import lighthouse, { desktopConfig } from 'lighthouse';
import { findChromium } from './chromium.mjs';
import { openShop } from './shop.mjs';

const { RUNS = '5', ONLY = '', LEAST = '98', MIAOSHA = '../../miaosha' } = process.env;
const THEMES = ['light', 'dark'];
const LANGUAGES = ['zh-CN', 'en'];
const DEVICES = { phone: { width: 390, height: 844, isMobile: true, hasTouch: true }, desktop: { width: 1280, height: 800 } };
const SIZES = { small: { width: 320, height: 568, isMobile: true, hasTouch: true }, ...DEVICES }; // of axe
const CATEGORIES = ['performance', 'accessibility', 'best-practices', 'seo'];
const OF_404 = ['http-status-code', 'errors-in-console', 'is-crawlable']; // audits for which a status of 404 is a fault

const axe = await readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const median = (numbers) => numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)];
const say = (text) => process.stderr.write(text + '\n');

// inTab opens a tab of its own for a page, with its session, theme and language, and returns what use(tab) returns.
async function inTab(browser, shop, page, { theme, language }, use) {
  const context = await browser.createBrowserContext();
  try {
    const tab = await context.newPage();
    await tab.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: theme }]);
    await tab.setExtraHTTPHeaders({ 'Accept-Language': language });
    await tab.evaluateOnNewDocument((l) => { try { localStorage.setItem('miaosha.lang', l); } catch { /* about:blank */ } }, language.slice(0, 2));
    if (page.token) await context.setCookie({ name: 'session', value: page.token, domain: new URL(shop.url).hostname, path: '/', httpOnly: true });
    return await use(tab);
  } finally {
    await context.close();
  }
}

// audit returns the report of one run of Lighthouse. On a busy machine a run sometimes fails by itself, so there is a second try.
const audit = (...args) => auditOnce(...args).catch((error) => { say(error.message); return auditOnce(...args); });

const auditOnce = (browser, shop, page, device, theme) => inTab(browser, shop, page, { theme, language: 'zh-CN' }, async (tab) => {
  const flags = { output: 'json', logLevel: 'silent', onlyCategories: CATEGORIES, disableStorageReset: true,
    ...(page.missing && { ignoreStatusCode: true, skipAudits: OF_404 }) };
  const { lhr } = await lighthouse(shop.url + page.path, flags, device === 'desktop' ? desktopConfig : undefined, tab);
  if (lhr.runtimeError) throw new Error(`${page.name}: ${lhr.runtimeError.message}`);
  return lhr;
});

// findings returns what axe finds on a page, a line each.
const findings = (browser, shop, page, size, theme, language) => inTab(browser, shop, page, { theme, language }, async (tab) => {
  await tab.setViewport(SIZES[size]);
  await tab.goto(shop.url + page.path);
  await tab.waitForSelector('main:not([aria-busy])');
  await tab.waitForNetworkIdle({ idleTime: 300, concurrency: 2 }); // event streams go on
  await tab.evaluate(axe);
  const { violations } = await tab.evaluate(() => globalThis.axe.run());
  return violations.map((v) => `${page.name}, ${size}, ${theme}, ${language}: ${v.id}: ${v.nodes.map((n) => n.target.join(' ')).slice(0, 3).join('; ')}`);
});

const row = (cells) => `| ${cells.join(' | ')} |`;
const table = (head, rows) => [row(head), row(head.map(() => '---')), ...rows.map(row)].join('\n');

const profile = await mkdtemp(join(tmpdir(), 'miaosha-chromium-'));
const browser = await puppeteer.launch({ executablePath: findChromium(), userDataDir: profile,
  args: ['--no-sandbox', '--disable-gpu', '--disable-component-update', '--disable-sync', '--hide-scrollbars'] });
const shop = await openShop(MIAOSHA).catch(async (error) => { await browser.close(); throw error; });
const failures = [];
try {
  const pages = shop.pages.filter(({ name }) => !ONLY || ONLY.split(',').includes(name));
  const scores = [], figures = [], found = [], audits = new Map();
  for (const page of pages) {
    const scoreCells = [], figureCells = [];
    let findingsOfPage = 0;
    for (const size of Object.keys(SIZES)) {
      for (const theme of THEMES) {
        for (const language of LANGUAGES) {
          const lines = await findings(browser, shop, page, size, theme, language);
          findingsOfPage += lines.length;
          failures.push(...lines);
        }
      }
    }
    for (const device of Object.keys(DEVICES)) {
      for (const theme of THEMES) {
        if (RUNS === '0') {
          scoreCells.push('');
          figureCells.push('');
          continue;
        }
        const reports = [];
        while (reports.length < Number(RUNS)) reports.push(await audit(browser, shop, page, device, theme));
        const medians = CATEGORIES.map((c) => median(reports.map((r) => Math.round(r.categories[c].score * 100))));
        const figure = (name, digits) => median(reports.map((r) => r.audits[name].numericValue)).toFixed(digits);
        scoreCells.push(medians.join(' '));
        figureCells.push(`${figure('first-contentful-paint', 0)} ${figure('largest-contentful-paint', 0)} ${figure('total-blocking-time', 0)} ${figure('cumulative-layout-shift', 3)}`);
        CATEGORIES.forEach((c, i) => { if (medians[i] < Number(LEAST)) failures.push(`${page.name}, ${device}, ${theme}: ${c} ${medians[i]}`); });
        const low = new Set(); // audits that cost points
        for (const r of reports) {
          for (const c of CATEGORIES) {
            for (const { id, weight } of r.categories[c].auditRefs) {
              const { score } = r.audits[id];
              if (weight > 0 && score !== null && score < 0.9) {
                audits.set(`${page.name}: ${id}`, Math.min(score, audits.get(`${page.name}: ${id}`) ?? 1));
                low.add(id);
              }
            }
          }
        }
        say(`${page.name}, ${device}, ${theme}: ${medians.join(' ')} ${figureCells.at(-1)} ${[...low].join(' ')}`);
      }
    }
    say(`${page.name}: ${findingsOfPage} findings of axe`);
    scores.push([page.name, ...scoreCells]);
    figures.push([page.name, ...figureCells]);
    found.push([page.name, findingsOfPage]);
  }
  const columns = Object.keys(DEVICES).flatMap((device) => THEMES.map((theme) => `${device}, ${theme}`));
  if (RUNS !== '0') {
    console.log(`Lighthouse, medians of ${RUNS}: performance, accessibility, best practices, SEO\n\n${table(['page', ...columns], scores)}\n`);
    console.log(`First and largest contentful paint and blocking time (ms), layout shift\n\n${table(['page', ...columns], figures)}\n`);
    console.log(`What costs points: audits below 0.9, and their worst score\n\n${[...audits].map(([name, score]) => `- ${name} ${score}`).join('\n')}\n`);
  }
  console.log(`axe, findings in both themes and languages, at 320, 390 and 1280 pixels\n\n${table(['page', 'findings'], found)}\n`);
} finally {
  await browser.close();
  await shop.close();
  await rm(profile, { recursive: true, force: true });
}
if (failures.length) {
  console.log(`Below ${LEAST}, or found by axe:\n\n${failures.map((f) => '- ' + f).join('\n')}`);
  process.exitCode = 1;
}
