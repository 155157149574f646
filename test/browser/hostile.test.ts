/** Recorded content that attacks the reader: nothing of it runs, nothing is loaded, the page stays usable. */
import { beforeAll, expect, it } from 'vitest';
import { createSimulatedProvider } from '../../infra/simulated-provider/server.ts';
import { ask } from '../e2e/gateway-process.ts';
import { someOf } from '../support/seed.ts';
import { processorTimeOf } from './support/busy-browser.ts';
import { type OpenPage, settled } from './support/dashboard.ts';
import { bidi, everything, expectHarmless, handler, links, script, template } from './support/hostile-text.ts';
import { linkTo } from './support/rows.ts';
import { describeInChromium, withDashboard } from './support/with-dashboard.ts';

/** A header value is Latin-1 without control characters. */
const inHeader = `${script}${handler}${template}`;

const FIVE_MB = 5 * 1024 * 1024;
/** A page with a body of 5 MB reacts to a key with so much processor time, in milliseconds. */
const USABLE_WITHIN_MS = 2000;

describeInChromium('hostile content', () => {
  const provider = createSimulatedProvider({ models: ['small', handler], remember: 1 });
  const dashboard = withDashboard(async () => ({
    data: 'empty',
    env: { LLAMACPP_BASE_URL: await provider.listen(), USER_PATH_HEADER_ENABLED: 'true', TAGGING_HEADER_1: 'X-Team' },
  }));
  const exchanges: Record<string, string> = {};

  async function send(name: string, body: object, headers: Record<string, string> = {}, key?: string): Promise<void> {
    const answer = await ask(dashboard.url, '/v1/chat/completions', {
      json: { model: 'llamacpp/small', ...body },
      headers,
      key,
    });
    exchanges[name] = answer.headers.get('x-exchange-id') ?? '';
    await answer.text().catch(() => '');
    expect(exchanges[name], `${name}: ${answer.status}`).not.toBe('');
  }

  beforeAll(async () => {
    const user = (content: unknown) => ({ messages: [{ role: 'user', content }] });
    const created = await ask(dashboard.url, '/admin/auth-keys', {
      json: {
        name: `${script} ${bidi}`,
        description: everything,
        labels: [`${handler}`.slice(0, 120)],
        user_path: '/team',
      },
    });
    expect(created.status, await created.clone().text()).toBe(201);
    const { value: key } = JSON.parse(await created.text());

    provider.control.next({ text: everything });
    await send('text', user(everything), { 'user-agent': inHeader, 'x-session-id': inHeader, 'x-team': script }, key);
    provider.control.next({ text: everything });
    await send('stream', { ...user(everything), stream: true });
    const url = 'https://elsewhere.example/picture.png';
    await send('pictures', {
      messages: [
        { role: 'system', content: everything },
        {
          role: 'user',
          content: [
            { type: 'text', text: links },
            { type: 'image_url', image_url: { url } },
            { type: 'image_url', image_url: { url: 'javascript:window.executed=1' } },
            {
              type: 'image_url',
              image_url: {
                url: `data:image/svg+xml,${encodeURIComponent('<svg xmlns="http://www.w3.org/2000/svg" onload="window.executed=1"><script>window.executed=1</script></svg>')}`,
              },
            },
            { type: 'image_url', image_url: { url: 'data:text/html,<script>parent.executed=1</script>' } },
          ],
        },
      ],
    });
    await send('tools', {
      messages: [
        { role: 'user', content: 'x' },
        {
          role: 'assistant',
          content: null,
          tool_calls: [
            {
              id: handler,
              type: 'function',
              function: {
                name: script,
                arguments: JSON.stringify({ [script]: everything, __proto__: 1, constructor: handler }),
              },
            },
          ],
        },
        { role: 'tool', tool_call_id: handler, content: everything },
      ],
      tools: [
        { type: 'function', function: { name: 'tool', description: everything, parameters: { type: 'object' } } },
      ],
      metadata: { [script]: handler, note: bidi },
      user: everything,
    });
    await send('model', { model: `llamacpp/${handler}`, ...user('x') });
    await send('unknown model', { model: `${script}${bidi}`, ...user('x') });
    provider.control.next({ status: 400, message: everything, type: handler, code: script });
    await send('error', user('x'));
    provider.control.next({ status: 500, body: 'html', message: everything });
    await send('html error', user('x'));
    provider.control.next({ garbage: true });
    await send('garbage', user(everything));
    const deep = `${'['.repeat(3000)}${']'.repeat(3000)}`;
    const nested = JSON.parse(deep);
    await send('nested', { ...user('deep'), metadata: { nested }, nested });
    provider.control.next({ text: `${everything} ${'0123456789abcde '.repeat(FIVE_MB / 16)}` });
    await send('large', user(`${script} ${'lorem ipsum '.repeat(FIVE_MB / 12)}`));
    const lines = `${handler}\n`.repeat(FIVE_MB / (handler.length + 1));
    await send('many lines', user(lines));
  }, 120_000);

  async function expectUsable({ page }: OpenPage): Promise<void> {
    const took = await processorTimeOf(page, async () => {
      await page.keyboard.press('?');
      await page.getByRole('dialog', { name: 'Keys' }).waitFor();
    });
    expect(took).toBeGreaterThan(0);
    expect(took).toBeLessThan(USABLE_WITHIN_MS);
    await page.keyboard.press('Escape');
    await page.getByRole('dialog').waitFor({ state: 'detached' });
  }

  it.each(['/', '/live', '/audit', '/sessions', '/usage'])('does nothing on %s', async (path) => {
    const opened = await dashboard.open(path);
    if (path === '/audit') {
      await expect
        .poll(async () => {
          await opened.visit(path);
          return linkTo(opened.page, exchanges.text ?? '').count();
        })
        .toBeGreaterThan(0);
    }
    if (path === '/live') {
      provider.control.next({ text: everything });
      await send(
        'live',
        { messages: [{ role: 'user', content: everything }], stream: true },
        { 'x-session-id': inHeader },
      );
      await linkTo(opened.page, exchanges.live ?? '').waitFor();
    }
    await expectHarmless(opened, dashboard.url);
    await expectUsable(opened);
  });

  const recorded = [
    ...['text', 'stream', 'pictures', 'tools', 'model', 'unknown model', 'error', 'html error', 'garbage', 'nested'],
    ...['large', 'many lines'],
  ];

  it.each(someOf(recorded, undefined, 5))('does nothing in any tab of the exchange: %s', async (name) => {
    const opened = await dashboard.open(`/exchange/${exchanges[name]}`);
    const { page } = opened;
    await expectHarmless(opened, dashboard.url);
    const tabs = page.locator('main').getByRole('tab');
    for (let at = 0; at < (await tabs.count()); at++) {
      await tabs.nth(at).click();
      await settled(page);
      await openFolded(opened);
      await expectHarmless(opened, dashboard.url);
      await expectUsable(opened);
    }
  });

  it('in a search is text', async () => {
    const opened = await dashboard.open(`/audit?search=${encodeURIComponent(handler)}`);
    await expectHarmless(opened, dashboard.url);
    await opened.visit(`/exchange/${encodeURIComponent(handler)}`);
    opened.expectFindings(({ kind, text }) => kind === 'console' && /40[04]/.test(text));
    await expectHarmless(opened, dashboard.url);
  });
});

/** Opens what is folded: tools, long texts, members of JSON. At most some of each. */
async function openFolded({ page }: OpenPage): Promise<void> {
  const folded = page.locator('main').locator('summary:visible, [aria-expanded=false]:visible');
  for (let opened = 0; opened < 10 && (await folded.count()) > opened; opened++) {
    await folded
      .nth(opened)
      .click({ timeout: 1000 })
      .catch(() => {});
  }
}
