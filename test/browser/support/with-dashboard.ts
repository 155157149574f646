/** A gateway with its dashboard, for the length of one test file, and the Chromium that all files of a process share. */
import type { Browser, BrowserContext } from 'playwright-core';
import { afterAll, afterEach, beforeAll, describe, it } from 'vitest';
import { killAll, type ServeOptions, temporaryFolder } from '../../e2e/gateway-process.ts';
import { findChromium, type LaunchOptions, launchChromium, withoutChromium } from './chromium.ts';
import {
  type DashboardGateway,
  newContext,
  type OpenOptions,
  type OpenPage,
  openDashboard,
  serveDashboard,
} from './dashboard.ts';
import type { HistoryFacts } from './history/build-history.ts';
import { type SeededFolder, seededFolder } from './history/seeded-history.ts';

/** `describe`, skipped with the reason on a machine without Chromium. */
export function describeInChromium(name: string, body: () => void): void {
  if (findChromium() === undefined) describe.skip(name, () => it(withoutChromium, () => {}));
  else describe(name, body);
}

export interface Dashboard {
  readonly url: string;
  readonly browser: Browser;
  readonly gateway: DashboardGateway;
  readonly dataDir: string;
  /** Of the seeded history. @throws Error for a gateway with an empty data folder */
  readonly facts: HistoryFacts;
  /**
   * Opens a page of the dashboard, the Overview unless given, for the length of the test. No other page shares its
   * context, which has nothing stored; files of the dashboard may be cached.
   */
  open(path?: string, options?: Omit<OpenOptions, 'within'>): Promise<OpenPage>;
}

export interface DashboardOptions extends Partial<ServeOptions> {
  /**
   * The data: a copy of the seeded history, an empty folder, or the gateway with the seeded history that is shared with
   * other files. Tests with a shared one change nothing, and start no other requests than reads.
   */
  readonly data?: 'seeded' | 'empty' | 'shared';
  /** A Chromium of its own. */
  readonly browser?: LaunchOptions;
}

interface Reading {
  readonly gateway: DashboardGateway;
  readonly seeded: SeededFolder;
}

/** Contexts without a page, by browser and options. A new one costs more than most pages. */
const unused = new WeakMap<Browser, Map<string, BrowserContext[]>>();

function unusedContexts(browser: Browser, options: OpenOptions['context']): BrowserContext[] {
  const ofBrowser = unused.get(browser) ?? new Map<string, BrowserContext[]>();
  unused.set(browser, ofBrowser);
  const name = JSON.stringify(options ?? {});
  const contexts = ofBrowser.get(name) ?? [];
  ofBrowser.set(name, contexts);
  return contexts;
}

let chromium: Promise<Browser> | undefined;
let reading: Promise<Reading> | undefined;

function sharedChromium(): Promise<Browser> {
  chromium ??= launchChromium();
  return chromium;
}

function sharedReading(): Promise<Reading> {
  reading ??= startReading();
  return reading;
}

/** So that every part of every page is shown. */
const everyFeature = { GUARDRAILS_ENABLED: 'true', PLUGINS_ENABLED: 'true', RESPONSE_CACHE_ENABLED: 'true' };

/** Ends with this process. */
async function startReading(): Promise<Reading> {
  const seeded = await seededFolder();
  process.once('exit', seeded.remove);
  return { seeded, gateway: await serveDashboard({ dataDir: seeded.dataDir, shared: true, env: everyFeature }) };
}

/** Call it within `describeInChromium`. */
export function withDashboard(options: DashboardOptions | (() => Promise<DashboardOptions>) = {}): Dashboard {
  let gateway: DashboardGateway | undefined;
  let own: DashboardGateway | undefined;
  let browser: Browser | undefined;
  let ownBrowser: Browser | undefined;
  let seeded: SeededFolder | undefined;
  const afterTest: (() => Promise<void>)[] = [];
  const folder = temporaryFolder();
  const started = <T>(value: T | undefined): T => {
    if (value === undefined) throw new Error('it runs only within tests');
    return value;
  };
  beforeAll(async () => {
    const { data = 'seeded', browser: launch, ...serve } = typeof options === 'function' ? await options() : options;
    if (data === 'shared') ({ gateway, seeded } = await sharedReading());
    else {
      if (data === 'seeded') seeded = await seededFolder();
      own = await serveDashboard({ dataDir: seeded?.dataDir ?? folder.path, ...serve });
      gateway = own;
    }
    if (launch !== undefined) ownBrowser = await launchChromium(launch);
    browser = ownBrowser ?? (await sharedChromium());
  });
  afterEach(async () => {
    for (const finish of afterTest.splice(0)) await finish();
  });
  afterAll(async () => {
    await ownBrowser?.close();
    await own?.stop();
    killAll();
    if (own !== undefined) seeded?.remove();
    folder.remove();
  });
  return {
    get url() {
      return started(gateway).url;
    },
    get browser() {
      return started(browser);
    },
    get gateway() {
      return started(gateway);
    },
    get dataDir() {
      return seeded?.dataDir ?? folder.path;
    },
    get facts() {
      return started(seeded).facts;
    },
    async open(path, { context: wanted, ...given } = {}) {
      const contexts = unusedContexts(started(browser), wanted);
      const within = contexts.pop() ?? (await newContext(started(browser), wanted));
      afterTest.push(async () => {
        await within.unrouteAll({ behavior: 'ignoreErrors' });
        for (const page of within.pages()) await page.close();
        contexts.push(within);
      });
      return openDashboard(started(browser), started(gateway).url, path, { ...given, within });
    },
  };
}
