/** The page Live: rows from the first request on, shared by tabs, without loss when the gateway is killed. */
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { createSimulatedProvider, type SimulatedProvider } from '../../infra/simulated-provider/server.ts';
import { ask } from '../e2e/gateway-process.ts';
import { expectClean } from './support/dashboard.ts';
import { describeInChromium, withDashboard } from './support/with-dashboard.ts';

const simulated: SimulatedProvider = createSimulatedProvider({});
let providerUrl = '';

beforeAll(async () => {
  providerUrl = await simulated.listen();
});
afterAll(() => simulated.close());

const rowOf = (page: Page, id: string) => page.locator(`tr[data-exchange="${id}"]`);

/** @returns the id of its exchange */
async function send(url: string, body: object): Promise<string> {
  const answer = await ask(url, '/v1/chat/completions', {
    json: { model: 'llamacpp/simulated-small', messages: [{ role: 'user', content: 'Hello' }], ...body },
  });
  await answer.text();
  return answer.headers.get('x-exchange-id') ?? '';
}

describeInChromium('the page Live', () => {
  const dashboard = withDashboard(async () => ({
    data: 'empty',
    env: { LLAMACPP_BASE_URL: providerUrl, ANALYTICS_ENABLED: 'true' },
  }));

  it('shows how to send the first request, and that request within a second', async () => {
    const opened = await dashboard.open();
    const { page } = opened;
    await opened.visit('/live');
    const command = await page.getByRole('region', { name: 'Request with curl' }).textContent();
    expect(command).toContain(`curl ${dashboard.url}/v1/chat/completions`);
    const sent = send(dashboard.url, {});
    await page.locator('tr[data-exchange]').waitFor({ timeout: 1_000 });
    const id = await sent;
    await rowOf(page, id).getByText('200 completed').waitFor();
    expectClean(opened);
  });
});
