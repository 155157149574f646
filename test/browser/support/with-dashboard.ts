/** A gateway with its dashboard, for the length of one test file, and the Chromium that all files of a process share. */
import type { Browser, BrowserContext } from 'playwright-core';
import { afterAll, afterEach, beforeAll, describe, it } from 'vitest';
import { killAll, type ServeOptions, temporaryFolder } from '../../e2e/gateway-process.ts';
import { findChromium, launchChromium, withoutChromium } from './chromium.ts';
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
   * A gateway of this file with a copy of the seeded history (default) or an empty folder, or one of the gateways that
   * the files of a process share:
   * - `shared`: the seeded history with every feature. Tests only read it.
   * - `shared changes`: the same. Each test changes objects of its own.
   * - `shared empty`: no request and no change, without features. Tests only read it.
   */
  readonly data?: 'seeded' | 'empty' | SharedName;
}

type SharedName = 'shared' | 'shared changes' | 'shared empty';

interface ServedData {
  readonly gateway: DashboardGateway;
  readonly seeded: SeededFolder | undefined;
}

const everyFeature = { GUARDRAILS_ENABLED: 'true', PLUGINS_ENABLED: 'true', RESPONSE_CACHE_ENABLED: 'true' };

/** They end with this process. */
const sharedGateways = new Map<SharedName, Promise<ServedData>>();

async function startShared(name: SharedName): Promise<ServedData> {
  const seeded = name === 'shared empty' ? undefined : await seededFolder();
  const folder = seeded === undefined ? temporaryFolder() : undefined;
  process.once('exit', () => (seeded ?? folder)?.remove());
  const dataDir = seeded?.dataDir ?? folder?.path ?? '';
  const env = seeded === undefined ? {} : everyFeature;
  return { seeded, gateway: await serveDashboard({ dataDir, shared: true, env }) };
}

function sharedGateway(name: SharedName): Promise<ServedData> {
  const started = sharedGateways.get(name) ?? startShared(name);
  sharedGateways.set(name, started);
  return started;
}

let chromium: Promise<Browser> | undefined;
/** Contexts without a page, by their options. A new one costs more than most pages. */
const unusedContexts = new Map<string, BrowserContext[]>();

function sharedChromium(): Promise<Browser> {
  chromium ??= launchChromium();
  return chromium;
}

/** Call it within `describeInChromium`. */
export function withDashboard(options: DashboardOptions | (() => Promise<DashboardOptions>) = {}): Dashboard {
  let gateway: DashboardGateway | undefined;
  let own: DashboardGateway | undefined;
  let browser: Browser | undefined;
  let seeded: SeededFolder | undefined;
  const afterTest: (() => Promise<void>)[] = [];
  const folder = temporaryFolder();
  const started = <T>(value: T | undefined): T => {
    if (value === undefined) throw new Error('it runs only within tests');
    return value;
  };
  beforeAll(async () => {
    const { data = 'seeded', ...serve } = typeof options === 'function' ? await options() : options;
    if (data === 'seeded' || data === 'empty') {
      if (data === 'seeded') seeded = await seededFolder();
      own = await serveDashboard({ dataDir: seeded?.dataDir ?? folder.path, ...serve });
      gateway = own;
    } else ({ gateway, seeded } = await sharedGateway(data));
    browser = await sharedChromium();
  });
  afterEach(async () => {
    for (const finish of afterTest.splice(0)) await finish();
  });
  afterAll(async () => {
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
      const name = JSON.stringify(wanted ?? {});
      const unused = unusedContexts.get(name) ?? [];
      unusedContexts.set(name, unused);
      const within = unused.pop() ?? (await newContext(started(browser), wanted));
      afterTest.push(async () => {
        await within.unrouteAll({ behavior: 'ignoreErrors' });
        for (const page of within.pages()) await page.close();
        unused.push(within);
      });
      return openDashboard(started(browser), started(gateway).url, path, { ...given, within });
    },
  };
}
