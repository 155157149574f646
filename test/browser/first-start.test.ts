/** From `npm start` in a fresh clone to the first row. */
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { ask, type GatewayProcess, killAll, root, startProcess, temporaryFolder } from '../e2e/gateway-process.ts';
import { launchChromium } from './support/chromium.ts';
import { expectClean, logIn, openDashboard, settled, shownText } from './support/dashboard.ts';
import { linkTo } from './support/rows.ts';
import { describeInChromium } from './support/with-dashboard.ts';

/** From the end of the request to its row. */
const ROW_WITHIN_MS = 1000;

describeInChromium('a first start', () => {
  const folder = temporaryFolder();
  let browser: Browser;
  let gateway: GatewayProcess;
  beforeAll(async () => {
    browser = await launchChromium();
    gateway = startProcess({
      command: [process.execPath, join(root, 'scripts/run.mjs'), 'src/main.ts', 'serve'],
      env: { DATA_DIR: join(folder.path, 'data'), ANALYTICS_ENABLED: 'true' },
    });
  });
  afterAll(async () => {
    await browser?.close();
    gateway?.kill('SIGTERM');
    await gateway?.exited;
    killAll();
    folder.remove();
  });

  /** The printed address and key: all that a new user has. */
  async function printed(): Promise<{ address: string; key: string }> {
    await gateway.listening;
    await expect.poll(() => gateway.stdout).toMatch(/sk-chancery-[\w-]{20,}\s/);
    const address = /http:\/\/\S+\/admin\/dashboard\b/.exec(gateway.stdout)?.[0];
    const key = /sk-chancery-[\w-]{20,}/.exec(gateway.stdout)?.[0];
    expect(address, gateway.stdout).toBeDefined();
    return { address: address ?? '', key: key ?? '' };
  }

  it('prints the address of the dashboard, which opens with the printed key', async () => {
    const { address, key } = await printed();
    const url = address.replace('/admin/dashboard', '');
    const opened = await openDashboard(browser, url, '/', { key: null });
    await logIn(opened.page, key);
    await opened.page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
    expectClean(opened);
    await opened.close();
  });

  it('shows how to send the first request, as a command that works', async () => {
    const { address, key } = await printed();
    const opened = await openDashboard(browser, address.replace('/admin/dashboard', ''), '/live', { key });
    const shown = opened.page.locator('main pre', { hasText: 'curl' }).first();
    await expect.poll(() => shownText(shown)).toContain('demo/simulated-small');
    const command = await shownText(shown);
    expect(command).not.toContain(key);
    const env = { PATH: process.env.PATH, GATEWAY_KEY: key };
    const { stdout } = await promisify(execFile)('/bin/sh', ['-c', command], { env });
    expect(JSON.parse(stdout)).toMatchObject({ object: 'chat.completion' });
    expectClean(opened);
    await opened.close();
  });

  it('shows a request in Live within a second of its end, and then in Audit', async () => {
    const { address, key } = await printed();
    const url = address.replace('/admin/dashboard', '');
    const opened = await openDashboard(browser, url, '/live', { key });
    const messages = [{ role: 'user', content: 'Hello!' }];
    const answer = await ask(url, '/v1/chat/completions', { key, json: { model: 'demo/simulated-small', messages } });
    expect(answer.status).toBe(200);
    const exchange = answer.headers.get('x-exchange-id') ?? '';
    await answer.arrayBuffer();
    const answered = performance.now();
    await linkTo(opened.page, exchange).waitFor();
    expect(performance.now() - answered).toBeLessThan(ROW_WITHIN_MS);

    await linkTo(opened.page, exchange).click();
    await opened.page.waitForURL(`**/admin/dashboard/exchange/${exchange}**`);
    await settled(opened.page);
    // Analytics has it a second or two later.
    await expect
      .poll(async () => {
        await opened.visit('/audit');
        return linkTo(opened.page, exchange).count();
      })
      .toBe(1);
    expectClean(opened);
    await opened.close();
  });
});
