/** A gateway with its dashboard and a Chromium, for the length of one test file. */
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
  /** The data: the seeded history, or an empty folder. */
  readonly data?: 'seeded' | 'empty';
  readonly browser?: LaunchOptions;
}

/** Call it within `describeInChromium`. */
export function withDashboard(options: DashboardOptions | (() => Promise<DashboardOptions>) = {}): Dashboard {
  let gateway: DashboardGateway | undefined;
  let browser: Browser | undefined;
  let seeded: SeededFolder | undefined;
  const opened: OpenPage[] = [];
  const folder = temporaryFolder();
  const started = <T>(value: T | undefined): T => {
    if (value === undefined) throw new Error('it runs only within tests');
    return value;
  };
  beforeAll(async () => {
    const { data = 'seeded', browser: launch, ...serve } = typeof options === 'function' ? await options() : options;
    if (data === 'seeded') seeded = await seededFolder();
    gateway = await serveDashboard({ dataDir: seeded?.dataDir ?? folder.path, ...serve });
    browser = await launchChromium(launch);
  });
  afterEach(async () => {
    for (const page of opened.splice(0)) await page.close();
  });
  afterAll(async () => {
    await browser?.close();
    await gateway?.stop();
    killAll();
    seeded?.remove();
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
