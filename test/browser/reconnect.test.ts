/** Live while the gateway is killed and started again: every request is shown once. */
import { expect, it } from 'vitest';
import { createSimulatedProvider } from '../../infra/simulated-provider/server.ts';
import { ask } from '../e2e/gateway-process.ts';
import { type DashboardGateway, serveDashboard, shownText } from './support/dashboard.ts';
import { freePort } from './support/free-port.ts';
import { linkTo, shownExchanges } from './support/rows.ts';
import { describeInChromium, withDashboard } from './support/with-dashboard.ts';

describeInChromium('Live, when the gateway is killed and started again', () => {
  const provider = createSimulatedProvider({ models: ['small'], paceMs: 20 });
  let env: Record<string, string>;
  const dashboard = withDashboard(async () => {
    env = { PORT: await freePort(), LLAMACPP_BASE_URL: await provider.listen() };
    return { data: 'empty', env };
  });

  async function send(count: number, stream = false): Promise<string[]> {
    const sent: string[] = [];
    for (let n = 0; n < count; n++) {
      const messages = [{ role: 'user', content: `question ${n} ${performance.now()}` }];
      const answer = await ask(dashboard.url, '/v1/chat/completions', {
        json: { model: 'llamacpp/small', messages, stream },
      });
      expect(answer.status).toBe(200);
      sent.push(answer.headers.get('x-exchange-id') ?? '');
      if (!stream) await answer.arrayBuffer();
    }
    return sent;
  }

  it('loses no request, shows none twice, and states the lost connection', async () => {
    const opened = await dashboard.open('/live');
    const { page } = opened;
    const before = await send(5);
    for (const id of before) await linkTo(page, id).waitFor();

    // One stream is in flight when the gateway is killed.
    const [cut = ''] = await send(1, true);
    await linkTo(page, cut).waitFor();
    const { process } = dashboard.gateway;
    const dataDir = dashboard.dataDir;
    process.kill('SIGKILL');
    await process.exited;
    await expect.poll(() => shownText(page.locator('main'))).toMatch(/Disconnected|Connecting/);

    const again: DashboardGateway = await serveDashboard({ dataDir, env });
    try {
      const during = await send(3);
      for (const id of [...before, cut, ...during]) await linkTo(page, id).waitFor();
      const after = await send(2);
      for (const id of after) await linkTo(page, id).waitFor();
      const shown = await shownExchanges(page);
      const sent = [...before, cut, ...during, ...after];
      expect(shown.toSorted()).toEqual(sent.toSorted());
      opened.expectFindings(({ kind, text }) => kind === 'console' && /ERR_|Failed to load/.test(text));
      expect(opened.findings).toEqual([]);
    } finally {
      await again.stop();
      await provider.close();
    }
  });
});
