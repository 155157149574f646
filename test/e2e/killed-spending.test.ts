/** What the requests cost that a gateway was serving when it was killed. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createSimulatedProvider } from '../../infra/simulated-provider/server.ts';
import type { Answered } from '../support/answered.ts';
import { ask, killAll, serve, temporaryFolder } from './gateway-process.ts';

const folder = temporaryFolder();
const provider = createSimulatedProvider({ models: ['m'] });
const MODEL = 'llamacpp/m';
const CHAT = '/v1/chat/completions';
/** US dollars for one token of an answer. */
const TOKEN = 0.001;
let upstream = '';

beforeAll(async () => {
  upstream = await provider.listen();
});
afterAll(async () => {
  killAll();
  await provider.close();
  folder.remove();
});

const start = () => serve({ dataDir: folder.path, env: { LLAMACPP_BASE_URL: upstream, LOG_URL: '' } });

async function put(url: string, path: string, json: object): Promise<void> {
  const answer = await ask(url, path, { method: 'PUT', json });
  expect({ path, ok: answer.ok }).toEqual({ path, ok: true });
}

async function budgetsOf(url: string): Promise<Map<string, Answered>> {
  const { budgets } = (await (await ask(url, '/admin/budgets')).json()) as Answered;
  return new Map(budgets.map((row: Answered) => [row.user_path, row]));
}

describe('requests that a killed gateway was serving', () => {
  it('cost the recorded usage, else the estimate of the recorded text, else what was reserved', async () => {
    const first = await start();
    const { url } = first;
    const pricing = { input_per_mtok: 1, output_per_mtok: TOKEN * 1_000_000 };
    await put(url, '/admin/model-pricing-overrides', { selector: MODEL, pricing });
    for (const path of ['hanging', 'streamed', 'whole'])
      await put(url, `/admin/budgets/%2F${path}/daily`, { amount: 10 });
    const send = (path: string, body: object) =>
      ask(url, CHAT, {
        json: { model: MODEL, max_tokens: 50, messages: [{ role: 'user', content: 'Write 20 words.' }], ...body },
        headers: { 'x-gateway-user-path': path },
      });
    await (await send('/whole', {})).text();
    const streamed = await send('/streamed', { stream: true, simulate: { holdAfterChunks: 8 } });
    await streamed.body?.getReader().read();
    const before = provider.requests.length;
    const hanging = Array.from({ length: 30 }, () => send('/hanging', { simulate: { hang: true } }).catch(() => {}));
    await expect.poll(() => provider.requests.length, { timeout: 15_000 }).toBe(before + 30);
    const reserved = (await budgetsOf(url)).get('/hanging')?.reserved;
    expect(reserved).toBeGreaterThan(30 * 50 * TOKEN);
    const whole = (await budgetsOf(url)).get('/whole')?.spent;
    first.process.kill('SIGKILL');
    await first.process.exited;
    await Promise.all(hanging);

    const second = await start();
    const rows = await budgetsOf(second.url);
    expect(rows.get('/hanging')).toMatchObject({ spent: reserved, reserved: 0 });
    expect(rows.get('/whole')).toMatchObject({ spent: whole, reserved: 0 });
    const estimated = rows.get('/streamed')?.spent;
    expect(estimated).toBeGreaterThan(0);
    expect(estimated).toBeLessThan(50 * TOKEN);
    const again = await ask(second.url, '/admin/usage/recalculate-pricing', { json: { confirmation: 'recalculate' } });
    expect(again.status, await again.text()).toBe(200);
    expect((await budgetsOf(second.url)).get('/hanging')).toMatchObject({ spent: reserved });
    second.process.kill('SIGTERM');
    await second.process.exited;
  }, 60_000);
});
