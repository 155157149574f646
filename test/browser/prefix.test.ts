/** The dashboard behind a proxy that publishes the gateway below a path. */
import { createServer, request, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { expectClean, openDashboard } from './support/dashboard.ts';
import { describeInChromium, withDashboard } from './support/with-dashboard.ts';

const PREFIX = '/tools/ai';

describeInChromium('the dashboard behind a proxy that removes a prefix', () => {
  const dashboard = withDashboard({ data: 'shared empty' });
  let proxy: Server;
  let published: string;
  const elsewhere: string[] = [];

  beforeAll(async () => {
    proxy = createServer((received, answer) => {
      const { method, headers, url = '' } = received;
      if (!url.startsWith(`${PREFIX}/`)) {
        elsewhere.push(url);
        answer.writeHead(404).end();
        return;
      }
      const { hostname, port } = new URL(dashboard.url);
      const forwarded = request({ hostname, port, method, headers, path: url.slice(PREFIX.length) }, (answered) => {
        answer.writeHead(answered.statusCode ?? 502, answered.headers);
        answered.pipe(answer);
      });
      // A live stream ends with its page.
      answer.on('close', () => forwarded.destroy());
      forwarded.on('error', () => answer.destroy());
      received.pipe(forwarded);
    });
    await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve));
    published = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}${PREFIX}`;
  });
  afterAll(() => {
    proxy.closeAllConnections();
    proxy.close();
  });

  it('loads its assets, data and pages below the prefix, at any depth', async () => {
    const opened = await openDashboard(dashboard.browser, published, '/usage?days=7');
    const { page } = opened;
    for (const title of ['Audit', 'Live', 'Overview']) {
      await page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: title }).click();
      await page.getByRole('heading', { level: 1, name: title }).waitFor();
      expect(page.url()).toContain(`${published}/admin/dashboard`);
    }
    await page.goto(`${published}/admin/dashboard/exchange/none/events`);
    await page.getByRole('navigation', { name: 'Pages' }).waitFor();
    expect(elsewhere).toEqual([]);
    opened.expectFindings(({ text }) => /status of 404.*none/.test(text));
    expectClean(opened);
    await opened.close();
  });
});
