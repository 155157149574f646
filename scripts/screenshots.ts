/**
 * `npm run screenshots`: the pictures of docs/dashboard, from the seeded history. With `--png <folder>`, every page instead,
 * light and dark, in a wide and in a narrow window, as PNG to that folder. `--only <name>` takes some of the pages.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { parseArgs } from 'node:util';
import type { Browser, Page } from 'playwright-core';
import { launchChromium } from '../test/browser/support/chromium.ts';
import { openDashboard, serveDashboard, settled } from '../test/browser/support/dashboard.ts';
import { type HistoryFacts, seededProviders } from '../test/browser/support/history/build-history.ts';
import { seededFolder } from '../test/browser/support/history/seeded-history.ts';
import { killAll } from '../test/e2e/gateway-process.ts';

const folder = join(dirname(import.meta.dirname), 'docs', 'dashboard');
const QUALITY = 72;
const PATIENCE_MS = 5000;

interface View {
  readonly name: string;
  readonly address: (facts: HistoryFacts) => string;
  /** Done after the page is shown. */
  readonly prepare?: (page: Page) => Promise<unknown>;
  readonly locked?: boolean;
}

const ofExchange = (name: string, exchange: keyof HistoryFacts['shown'], tab: RegExp): View => ({
  name: `exchange-${name}`,
  address: ({ shown }) => `/exchange/${shown[exchange]}`,
  prepare: (page) => page.getByRole('tab', { name: tab }).click(),
});

const views: readonly View[] = [
  { name: 'key', address: () => '/', locked: true },
  { name: 'overview', address: () => '/' },
  { name: 'live', address: () => '/live', prepare: (page) => page.waitForTimeout(3000) },
  { name: 'audit', address: () => '/audit' },
  { name: 'sessions', address: () => '/sessions' },
  { name: 'chain', address: ({ shown }) => `/sessions/${shown.tuesday}` },
  { name: 'usage', address: () => '/usage' },
  ofExchange('timeline', 'failover', /timeline/i),
  ofExchange('conversation', 'tuesday', /conversation/i),
  ofExchange('request', 'anonymised', /request/i),
  ofExchange('response', 'stream', /response/i),
  ofExchange('diff', 'changedYesterday', /diff/i),
  ofExchange('events', 'failover', /events/i),
  ofExchange('cost', 'stream', /cost/i),
  ofExchange('replay', 'stream', /replay/i),
  { name: 'exchange-refused', address: ({ shown }) => `/exchange/${shown.budget}` },
  { name: 'keys', address: () => '/', prepare: (page) => page.keyboard.press('?') },
  { name: 'users', address: () => '/keys' },
  { name: 'explain', address: ({ keys }) => `/keys?tab=explain&key=${keys.website.id}&model=openai/gpt-5-mini` },
  { name: 'managed-key', address: ({ keys }) => `/keys/${keys.website.id}` },
  { name: 'budgets', address: () => '/budgets' },
  { name: 'models', address: () => '/models' },
  { name: 'providers', address: () => '/models?tab=providers' },
  { name: 'workflows', address: () => '/workflows' },
  { name: 'plugins', address: () => '/plugins' },
  { name: 'cache', address: () => '/cache' },
  { name: 'history', address: () => '/history' },
  { name: 'sql', address: () => '/sql', prepare: runQuery },
  { name: 'log', address: () => '/log' },
  { name: 'gateways', address: () => '/log?tab=gateways' },
  { name: 'settings', address: () => '/settings' },
  { name: 'palette', address: () => '/audit', prepare: (page) => page.keyboard.press('Control+k') },
];

async function runQuery(page: Page): Promise<void> {
  const query = 'SELECT provider, count() AS requests, round(avg(duration_ms)) AS ms FROM exchanges GROUP BY provider';
  await page.getByLabel('Query', { exact: true }).fill(query);
  await page.keyboard.press('Control+Enter');
}

/** The pictures of the guide: by name without extension, of a view in a window and a colour scheme. */
const pictures: Readonly<Record<string, string>> = {
  'overview-wide-light': 'overview',
  'overview-wide-dark': 'overview-dark',
  'live-wide-light': 'live',
  'audit-wide-light': 'audit',
  'audit-narrow-light': 'audit-narrow',
  'exchange-timeline-wide-light': 'exchange-timeline',
  'exchange-diff-wide-light': 'exchange-diff',
  'budgets-wide-light': 'budgets',
};

const windows = { wide: { width: 1440, height: 900 }, narrow: { width: 360, height: 740 } } as const;

async function takeAll(browser: Browser, url: string, facts: HistoryFacts, options: Options): Promise<void> {
  for (const [size, viewport] of Object.entries(windows)) {
    for (const colorScheme of ['light', 'dark'] as const) {
      const shown = ({ name }: View) => `${name}-${size}-${colorScheme}`;
      const wanted = views.filter(
        (view) =>
          (options.only.length === 0 || options.only.includes(view.name)) &&
          (options.png !== undefined || shown(view) in pictures),
      );
      if (wanted.length === 0) continue;
      const key = wanted.every(({ locked }) => locked) ? null : undefined;
      const opened = await openDashboard(browser, url, '/settings', {
        key,
        context: { viewport, colorScheme, reducedMotion: 'reduce' },
      });
      opened.page.setDefaultTimeout(PATIENCE_MS);
      for (const view of wanted) {
        const name = shown(view);
        await show(opened.page, url, view, facts).catch((error) => console.log(`${name}: ${error}`));
        await take(opened.page, name, options);
      }
      for (const { kind, text } of opened.findings) console.log(`${size} ${colorScheme}: ${kind} ${text}`);
      await opened.close();
    }
  }
}

async function show(page: Page, url: string, { address, prepare, locked }: View, facts: HistoryFacts): Promise<void> {
  if (locked) {
    // The key is kept per tab: a new one has none.
    const stored = await page.evaluate('JSON.stringify(sessionStorage)');
    await page.evaluate('sessionStorage.clear()');
    await page.goto(`${url}/admin/dashboard`);
    await page.getByLabel('Key', { exact: true }).waitFor();
    await page.evaluate(`Object.assign(sessionStorage, JSON.parse(${JSON.stringify(stored)}))`);
    return;
  }
  await page.goto(`${url}/admin/dashboard${address(facts)}`);
  await settled(page);
  await prepare?.(page);
  await settled(page);
}

interface Options {
  readonly only: readonly string[];
  readonly png: string | undefined;
}

async function take(page: Page, name: string, { png }: Options): Promise<void> {
  if (png !== undefined) {
    await page.screenshot({ path: join(png, `${name}.png`) });
    return;
  }
  const session = await page.context().newCDPSession(page);
  const { data } = await session.send('Page.captureScreenshot', { format: 'webp', quality: QUALITY });
  await session.detach();
  writeFileSync(join(folder, `${pictures[name]}.webp`), Buffer.from(data, 'base64'));
}

/** Requests while the pictures are taken, so that Live has rows in each state. @returns stops them */
function traffic(url: string, facts: HistoryFacts): () => void {
  let stopped = false;
  let n = 0;
  const send = async (model: string, stream: boolean): Promise<void> => {
    while (!stopped) {
      n += 1;
      const key = [facts.keys.website, facts.keys.support, facts.keys.research][n % 3];
      const messages = [{ role: 'user', content: `Write a product description of chair number ${n}.` }];
      const answer = await fetch(`${url}/v1/chat/completions`, {
        method: 'POST',
        headers: { authorization: `Bearer ${key?.value}`, 'content-type': 'application/json' },
        body: JSON.stringify({ model, stream, messages }),
      }).catch(() => undefined);
      await answer?.arrayBuffer().catch(() => undefined);
      await new Promise((resolve) => setTimeout(resolve, 400));
    }
  };
  void send('openai/gpt-5-mini', true);
  void send('groq/llama-3.3-70b-versatile', true);
  void send('llamacpp/qwen3-32b', false);
  return () => {
    stopped = true;
  };
}

async function main(): Promise<void> {
  const { values } = parseArgs({ options: { png: { type: 'string' }, only: { type: 'string', multiple: true } } });
  const options: Options = { only: values.only ?? [], png: values.png };
  mkdirSync(folder, { recursive: true });
  if (options.png !== undefined) mkdirSync(options.png, { recursive: true });
  const seeded = await seededFolder(20_000);
  const { providers, env, close } = await seededProviders();
  for (const name of ['openai', 'groq'] as const) providers[name].control.always({ paceMs: 120, words: 60 });
  const gateway = await serveDashboard({ dataDir: seeded.dataDir, env });
  const browser = await launchChromium();
  const stop = traffic(gateway.url, seeded.facts);
  try {
    await takeAll(browser, gateway.url, seeded.facts, options);
  } finally {
    stop();
    await browser.close();
    await gateway.stop();
    await close();
    killAll();
    seeded.remove();
  }
}

await main();
