/** Live at 1,000 events per second for 30 seconds, in several tabs that share one stream. */
import type { Page } from 'playwright-core';
import { afterAll, expect, it } from 'vitest';
import { createSimulatedProvider } from '../../infra/simulated-provider/server.ts';
import { ask } from '../e2e/gateway-process.ts';
import { memoryOf, recordTasks } from './support/busy-browser.ts';
import { expectClean, settled } from './support/dashboard.ts';
import { shownExchanges } from './support/rows.ts';
import { describeInChromium, withDashboard } from './support/with-dashboard.ts';

const SECONDS = 30;
const EVENTS_PER_SECOND = 1000;
const MB = 1024 * 1024;
/** Streams at the same time. The page gets the answer so far of each about twice a second: an event for each frame. */
const STREAMS = 470;

describeInChromium('Live at 1,000 events per second', () => {
  const provider = createSimulatedProvider({ models: ['small'], words: 20, paceMs: 470, remember: 1 });
  const dashboard = withDashboard(async () => ({
    data: 'empty',
    env: { LLAMACPP_BASE_URL: await provider.listen(), ANALYTICS_ENABLED: 'true' },
  }));
  afterAll(() => provider.close());

  async function head(): Promise<number> {
    const text = await (await ask(dashboard.url, '/metrics')).text();
    return Number(/^gateway_log_head_position(?:\{[^}]*\})? (\d+)/m.exec(text)?.[1]);
  }

  /** Streams one after the other, until `until`. @returns the exchanges */
  async function stream(until: number, n: number): Promise<string[]> {
    const sent: string[] = [];
    while (performance.now() < until) {
      const messages = [{ role: 'user', content: `stream ${n}.${sent.length}` }];
      const answer = await ask(dashboard.url, '/v1/chat/completions', {
        json: { model: 'llamacpp/small', stream: true, messages },
      });
      sent.push(answer.headers.get('x-exchange-id') ?? '');
      await answer.arrayBuffer();
    }
    return sent;
  }

  it(
    'has no task over 50 ms, keeps its memory, and uses one stream for all tabs',
    async () => {
      const opened = await dashboard.open('/live', { keep: true });
      await opened.page.locator('[data-connection=live][data-leader=true]').waitFor();
      const streams = new Set<string>();
      const others: Page[] = [];
      for (const tab of ['second', 'third']) {
        const page = await opened.context.newPage();
        page.on('request', (request) => {
          if (request.url().includes('/admin/live/logs')) streams.add(tab);
        });
        await page.goto(`${dashboard.url}/admin/dashboard/live`);
        await settled(page);
        others.push(page);
      }
      await opened.page.bringToFront();

      const began = await head();
      const start = performance.now();
      const until = start + SECONDS * 1000;
      const sending = Promise.all(Array.from({ length: STREAMS }, (_, n) => stream(until, n)));
      await waitUntil(start + 5000);
      const rates: number[] = [];
      const rateRead = setInterval(async () => {
        const text = await opened.page.locator('.live-rate').textContent();
        rates.push(Number(text?.replaceAll(',', '')));
      }, 1000);
      const early = await memoryOf(opened.page);
      const tasks = await recordTasks(opened.page);
      await waitUntil(until);
      clearInterval(rateRead);
      const took = await tasks.stop();
      const rate = ((await head()) - began) / SECONDS;
      const late = await memoryOf(opened.page);
      const exchanges = (await sending).flat();

      console.log(
        `${Math.round(rate)} events/s in the log, ${Math.round(Math.max(...rates))} events/s on the page, ${exchanges.length} exchanges; ${took.count} tasks, longest ${took.longest.toFixed(1)} ms; ` +
          `heap ${(early.heap / MB).toFixed(1)} → ${(late.heap / MB).toFixed(1)} MB; nodes ${early.nodes} → ${late.nodes}`,
      );
      expect(rate).toBeGreaterThan(EVENTS_PER_SECOND * 0.9);
      expect(Math.max(...rates)).toBeGreaterThan(EVENTS_PER_SECOND * 0.9);
      expect(took.long).toEqual([]);
      expect(took.count).toBeGreaterThan(SECONDS);
      expect(late.heap - early.heap).toBeLessThan(20 * MB);
      expect(late.nodes - early.nodes).toBeLessThan(3000);
      expect([...streams], 'tabs that read a stream of their own').toEqual([]);
      await expect
        .poll(() => opened.page.locator('tr[data-state="in_flight"], tr[data-state="streaming"]').count())
        .toBe(0);
      const shown = await shownExchanges(opened.page);
      expect(new Set(shown).size).toBe(shown.length);
      const sent = new Set(exchanges);
      expect(shown.filter((id) => sent.has(id)).length).toBeGreaterThan(10);
      for (const page of others) {
        await page.bringToFront();
        await expect.poll(() => shownExchanges(page)).toEqual(shown);
      }
      expectClean(opened);
    },
    (SECONDS + 60) * 1000,
  );
});

async function waitUntil(at: number): Promise<void> {
  // A time: requests are sent at a rate.
  await new Promise((resolve) => setTimeout(resolve, Math.max(0, at - performance.now())));
}
