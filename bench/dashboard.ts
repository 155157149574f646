/**
 * The dashboard in Chromium beside its gateway: `node scripts/run.mjs bench/dashboard.ts --data FOLDER`.
 *
 * - Overview: from the start of a navigation until every figure is shown and the main thread is idle.
 * - Navigation: from a click in the navigation until the new page is shown, and until it has its data.
 * - Live: processor time of the gateway under a steady load, with ten tabs on Live and without.
 *
 * FOLDER is the data folder of a gateway, such as `bench/analytics/seed.ts` writes. `--keep` leaves the gateway and a
 * Chromium with a debugging port running, for other tools.
 */
import { readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import type { Browser, Page } from 'playwright-core';
import { createSimulatedProvider } from '../infra/simulated-provider/server.ts';
import { launchChromium } from '../test/browser/support/chromium.ts';
import { type DashboardGateway, openDashboard, serveDashboard, settled } from '../test/browser/support/dashboard.ts';
import { until } from '../test/browser/support/until.ts';
import { ask, killAll, MASTER_KEY } from '../test/e2e/gateway-process.ts';
import { describeMachine } from './machine.ts';

const { values: options } = parseArgs({
  options: {
    data: { type: 'string' },
    rounds: { type: 'string', default: '7' },
    tabs: { type: 'string', default: '10' },
    /** Seconds of each measurement of the gateway's processor time. */
    seconds: { type: 'string', default: '15' },
    only: { type: 'string' },
    keep: { type: 'boolean', default: false },
  },
});
if (options.data === undefined) throw new Error('--data FOLDER is needed: the data folder of a gateway');
const dataDir = options.data;
const rounds = Number(options.rounds);
/** Requests per second while the gateway's processor time is measured. */
const RATE = 50;
const titles = [
  'Live',
  'Audit',
  'Sessions',
  'Usage',
  'Users and keys',
  'Budgets and limits',
  'Models and providers',
  'Workflows and guardrails',
  'Plugins',
  'Cache',
  'History',
  'SQL',
  'Log and gateways',
  'Settings and About',
  'Overview',
] as const;

const median = (values: readonly number[]) => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;

interface Row {
  readonly what: string;
  readonly target: string;
  readonly measured: string;
}

function times(what: string, target: string, measured: readonly number[]): Row {
  const text = `${Math.round(median(measured))} ms (longest of ${measured.length}: ${Math.round(Math.max(...measured))} ms)`;
  return { what, target, measured: text };
}

/** Each in a context of its own: nothing is cached. */
async function overview(browser: Browser, url: string): Promise<Row[]> {
  const cold: number[] = [];
  const again: number[] = [];
  for (let round = 0; round < rounds; round++) {
    const opened = await openDashboard(browser, url);
    again.push(await opening(opened.page, `${url}/admin/dashboard`));
    await opened.close();
    const context = await browser.newContext({ viewport: { width: 1440, height: 900 } });
    await context.addInitScript(
      `sessionStorage.setItem('chancery.key', ${JSON.stringify(JSON.stringify(MASTER_KEY))})`,
    );
    const page = await context.newPage();
    cold.push(await opening(page, `${url}/admin/dashboard`));
    await context.close();
  }
  return [
    times('Overview, all figures shown, nothing cached', '≤ 1000 ms', cold),
    times('Overview, all figures shown, files cached', '≤ 1000 ms', again),
  ];
}

async function opening(page: Page, address: string): Promise<number> {
  const began = performance.now();
  await page.goto(address, { waitUntil: 'commit' });
  await settled(page);
  return performance.now() - began;
}

async function navigation(browser: Browser, url: string): Promise<Row[]> {
  const took = new Map<string, number[]>(titles.map((title) => [title, []]));
  const first = new Map<string, number[]>(titles.map((title) => [title, []]));
  const heading: number[] = [];
  for (let round = 0; round < rounds; round++) {
    const opened = await openDashboard(browser, url);
    for (const into of [first, took, took]) {
      for (const title of titles) {
        const { shown, complete } = await clickTo(opened.page, title);
        into.get(title)?.push(complete);
        if (into === took) heading.push(shown);
      }
    }
    await opened.close();
  }
  return [
    times('Navigation, the new page is shown', '≤ 200 ms', heading),
    ...titles.map((title) =>
      times(`Navigation to ${title}, with its data, first time in a tab`, 'measured', first.get(title) ?? []),
    ),
    ...titles.map((title) => times(`Navigation to ${title}, with its data`, 'measured', took.get(title) ?? [])),
  ];
}

/** Milliseconds from the click until the page is shown, and until it has its data. */
async function clickTo(page: Page, title: string): Promise<{ readonly shown: number; readonly complete: number }> {
  const clicked = performance.now();
  await page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: title }).click();
  await page.getByRole('heading', { level: 1, name: title }).waitFor();
  const shown = performance.now() - clicked;
  await settled(page);
  return { shown, complete: performance.now() - clicked };
}

/** Milliseconds of processor time of a process and its threads. */
function processorTime(pid: number): number {
  const [, after = ''] = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ');
  const fields = after.split(' ');
  return (Number(fields[11]) + Number(fields[12])) * 10;
}

interface Load {
  /** Requests so far. */
  readonly sent: number;
  stop(): void;
}

/** Requests at a rate that is steady as far as the machine allows, until it is stopped. */
function steadyLoad(url: string, perSecond: number): Load {
  let stopped = false;
  let sent = 0;
  void (async () => {
    for (let n = 0; !stopped; n++) {
      sent += 1;
      const messages = [{ role: 'user', content: `question ${n}` }];
      void ask(url, '/v1/chat/completions', { json: { model: 'llamacpp/small', stream: n % 2 === 0, messages } })
        .then((answer) => answer.arrayBuffer())
        .catch(() => undefined);
      await delay(1000 / perSecond);
    }
  })();
  return {
    get sent() {
      return sent;
    },
    stop() {
      stopped = true;
    },
  };
}

async function live(browser: Browser, gateway: DashboardGateway): Promise<Row[]> {
  const seconds = Number(options.seconds);
  const tabs = Number(options.tabs);
  const shares: number[] = [];
  const alone: number[] = [];
  const { pid } = gateway.process;
  const load = steadyLoad(gateway.url, RATE);
  // For each request: a machine that others use does not keep the rate.
  const share = async () => {
    const [began, before] = [processorTime(pid), load.sent];
    await delay(seconds * 1000);
    return (((processorTime(pid) - began) / (load.sent - before)) * RATE) / 10;
  };
  await share();
  for (let round = 0; round < 3; round++) {
    alone.push(await share());
    const opened = await openDashboard(browser, gateway.url, '/live', { keep: true });
    for (let tab = 1; tab < tabs; tab++) {
      const page = await opened.context.newPage();
      await page.goto(`${gateway.url}/admin/dashboard/live`);
      await settled(page);
    }
    await delay(2000);
    shares.push((await share()) - (alone.at(-1) ?? 0));
    await opened.close();
  }
  load.stop();
  const percent = (value: number) => `${value.toFixed(1)} % of a core`;
  return [
    { what: `Gateway under ${RATE} requests/s without tabs`, target: 'measured', measured: percent(median(alone)) },
    {
      what: `Added by ${tabs} tabs on Live (one stream)`,
      target: '≤ 2 %',
      measured: `${percent(median(shares))} (${shares.map((one) => one.toFixed(1)).join(', ')})`,
    },
  ];
}

async function main(): Promise<void> {
  const provider = createSimulatedProvider({ models: ['small'], words: 40, paceMs: 10, remember: 1 });
  const gateway = await serveDashboard({
    dataDir,
    env: { LLAMACPP_BASE_URL: await provider.listen(), LOGGING_RETENTION_DAYS: '0', USAGE_RETENTION_DAYS: '0' },
  });
  const browser = await launchChromium(options.keep ? ['--remote-debugging-port=9222'] : []);
  try {
    await until('analytics is up to date', async () => {
      const metrics = await (await ask(gateway.url, '/metrics')).text();
      return /^gateway_projection_lag_events\{[^}]*projection="analytics"[^}]*\} 0$/m.test(metrics);
    });
    const parts = {
      overview: () => overview(browser, gateway.url),
      navigation: () => navigation(browser, gateway.url),
      live: () => live(browser, gateway),
    };
    const { processor, cores, memoryGb, date, commit } = describeMachine(dataDir);
    console.log(`${processor}, ${cores} cores, ${memoryGb} GB; Chromium ${browser.version()}; ${date}; ${commit}\n`);
    console.log('| What | Target | Measured |\n| --- | --- | --- |');
    for (const [name, measure] of Object.entries(parts)) {
      if (options.only !== undefined && options.only !== name) continue;
      for (const { what, target, measured } of await measure()) console.log(`| ${what} | ${target} | ${measured} |`);
    }
    if (options.keep) {
      console.log(`\n${gateway.url}/admin/dashboard, Chromium's debugging port 9222; interrupt to stop`);
      await new Promise((resolve) => process.once('SIGINT', resolve));
    }
  } finally {
    await browser.close();
    await gateway.stop();
    await provider.close();
    killAll();
  }
}

await main();
