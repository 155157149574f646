/** A gateway as `npm start` runs it, and pages of its dashboard in Chromium, for the length of one test file. */
import { deepEqual } from 'node:assert/strict';
import type { Browser, BrowserContext, BrowserContextOptions, Locator, Page } from 'playwright-core';
import { ask, type GatewayProcess, MASTER_KEY, root, type ServeOptions, serve } from '../../e2e/gateway-process.ts';
import { hasOpenRequests, watchRequests } from './open-requests.ts';
import { until } from './until.ts';
import { type WatchedPage, watchedPage } from './watched-page.ts';

/** How long a page may take for anything, also beside other tests. */
const PATIENCE_MS = 20_000;

export interface DashboardGateway {
  readonly url: string;
  readonly process: GatewayProcess;
  stop(): Promise<void>;
}

/** The gateway with the embedded log and the analytics process; resolves once both answer the master key. */
export async function serveDashboard(options: ServeOptions): Promise<DashboardGateway> {
  const { url, process } = await serve({
    ...options,
    command: [globalThis.process.execPath, `${root}/scripts/run.mjs`, 'src/main.ts', 'serve'],
    env: {
      ...{ ANALYTICS_ENABLED: 'true', ANALYTICS_SANDBOX: 'off' },
      // Vitest kills its workers: none of their handlers ends a gateway that files share.
      NODE_OPTIONS: `--import=${root}/scripts/stop-with-parent.mjs`,
      ...options.env,
    },
  });
  // The first answer of analytics comes when ClickHouse has started.
  await until('analytics answers', async () => (await ask(url, '/admin/usage/summary')).status === 200);
  return {
    url,
    process,
    async stop() {
      process.kill('SIGTERM');
      await process.exited;
    },
  };
}

export interface OpenPage extends WatchedPage {
  readonly context: BrowserContext;
  /** Opens a page of the dashboard, such as `/audit`, and waits until it shows its data. */
  visit(path: string): Promise<void>;
  close(): Promise<void>;
}

export interface OpenOptions {
  /** The key of the tab; the master key unless given; `null`: the page asks for one. */
  readonly key?: string | null;
  /** Enters the key in the dialog, to be kept in the browser, so that further tabs have it. */
  readonly keep?: boolean;
  readonly context?: BrowserContextOptions;
  /** The context, instead of a new one: what it has stored is removed. */
  readonly within?: BrowserContext;
}

export async function newContext(browser: Browser, given: BrowserContextOptions = {}): Promise<BrowserContext> {
  const context = await browser.newContext({
    viewport: { width: 1440, height: 900 },
    locale: 'en-GB',
    timezoneId: 'UTC',
    ...given,
  });
  context.setDefaultTimeout(PATIENCE_MS);
  watchRequests(context);
  return context;
}

/** A page of the dashboard, such as `/audit`, in a context of its own; with a key, it shows its data. */
export async function openDashboard(
  browser: Browser,
  url: string,
  path = '/',
  { key = MASTER_KEY, keep = false, context: given, within }: OpenOptions = {},
): Promise<OpenPage> {
  const context = within ?? (await newContext(browser, given));
  const watched = await watchedPage(context, new URL(url).origin);
  const { page } = watched;
  await page.addInitScript(beginTab, { origin: new URL(url).origin, key: keep ? null : key });
  await page.goto(`${url}/admin/dashboard${path}`);
  if (keep && key !== null) {
    await page.getByLabel('Keep the key in this browser').check();
    await logIn(page, key);
  } else if (key !== null) await settled(page);
  return {
    ...watched,
    get findings() {
      return watched.findings;
    },
    context,
    async visit(to) {
      await page.goto(`${url}/admin/dashboard${to}`);
      await settled(page);
    },
    close: () => context.close(),
  };
}

interface StoredTexts {
  getItem(name: string): string | null;
  setItem(name: string, text: string): void;
  clear(): void;
}
declare const location: { readonly origin: string };
declare const localStorage: StoredTexts;
declare const sessionStorage: StoredTexts;

/** Run in the page, before each document: the first one of the tab begins with nothing stored but the key. */
function beginTab({ origin, key }: { readonly origin: string; readonly key: string | null }): void {
  if (location.origin !== origin || sessionStorage.getItem('test.began') !== null) return;
  localStorage.clear();
  sessionStorage.setItem('test.began', 'true');
  if (key !== null) sessionStorage.setItem('chancery.key', JSON.stringify(key));
}

/** Enters a key in the dialog that asks for it. */
export async function logIn(page: Page, key: string): Promise<void> {
  const field = keyField(page);
  await field.fill(key);
  await field.press('Enter');
  await field.waitFor({ state: 'detached' });
  await settled(page);
}

export function keyField(page: Page): Locator {
  return page.getByLabel('Key', { exact: true });
}

/** A test that holds an answer back does not wait for it here. */
const ANSWERED_WITHIN_MS = 3_000;

/** Resolves once the page of the address is loaded, shows no loading state, and has its answers. */
export async function settled(page: Page): Promise<void> {
  await page.locator('main h1:not(.visually-hidden)').first().waitFor();
  const late = performance.now() + ANSWERED_WITHIN_MS;
  for (let isQuiet = false; ; ) {
    await page.waitForFunction(() => document.querySelector('.pending') === null);
    const wasQuiet = isQuiet;
    isQuiet = !hasOpenRequests(page);
    // Twice: an answer can lead to the next request.
    if ((isQuiet && wasQuiet) || performance.now() > late) return;
    // A time: between two looks at what the page shows.
    await page.evaluate(() => new Promise((resolve) => setTimeout(resolve, 10)));
  }
}

/** The text as a person sees it: without what is hidden. */
export function shownText(element: Locator): Promise<string> {
  // biome-ignore lint/performance/useDomNodeTextContent: textContent has hidden texts, too
  return element.innerText();
}

declare const document: {
  querySelector(selector: string): object | null;
  readonly documentElement: { readonly scrollWidth: number; readonly clientWidth: number };
};

/** How many pixels the page is wider than the window. */
export function overflowOf(page: Page): Promise<number> {
  return page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
}

/** Fails with every finding of a page. */
export function expectClean({ findings }: WatchedPage): void {
  deepEqual(findings, []);
}
