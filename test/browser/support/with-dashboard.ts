/** A gateway with its dashboard, for the length of one test file, and the Chromium that all files of a process share. */
import type { Browser } from 'playwright-core';
import { afterAll, afterEach, beforeAll, describe, it } from 'vitest';
import { killAll, type ServeOptions, temporaryFolder } from '../../e2e/gateway-process.ts';
import { findChromium, type LaunchOptions, launchChromium, withoutChromium } from './chromium.ts';
import { type DashboardGateway, type OpenOptions, type OpenPage, openDashboard, serveDashboard } from './dashboard.ts';
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
  /** Opens the dashboard in a context of its own, which is closed after the test. */
  open(options?: OpenOptions): Promise<OpenPage>;
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

/** Ends with this process. */
async function startReading(): Promise<Reading> {
  const seeded = await seededFolder();
  process.once('exit', seeded.remove);
  return { seeded, gateway: await serveDashboard({ dataDir: seeded.dataDir, shared: true }) };
}

/** Call it within `describeInChromium`. */
export function withDashboard(options: DashboardOptions | (() => Promise<DashboardOptions>) = {}): Dashboard {
  let gateway: DashboardGateway | undefined;
  let own: DashboardGateway | undefined;
  let browser: Browser | undefined;
  let ownBrowser: Browser | undefined;
  let seeded: SeededFolder | undefined;
  const opened: OpenPage[] = [];
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
    for (const page of opened.splice(0)) await page.close();
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
    async open(given) {
      const page = await openDashboard(started(browser), started(gateway).url, given);
      opened.push(page);
      return page;
    },
  };
}
