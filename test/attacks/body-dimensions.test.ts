/**
 * Bodies of random routes, members and dimensions, up to several megabytes: each is answered, with 400 where a bound is
 * exceeded, and the gateway answers others between them. `ATTACK_CASES` sets the number of requests.
 */
import { expect, it } from 'vitest';
import { newKey } from '../support/managed-keys.ts';
import { countOf } from '../support/seed.ts';
import { withGateway } from '../support/with-gateway.ts';
import { newRandom, type Random } from './random.ts';

const gateway = withGateway();

const routes = [
  '/v1/chat/completions',
  '/v1/responses',
  '/v1/messages',
  '/v1/messages/count_tokens',
  '/v1/embeddings',
  '/v1/conversations',
  '/v1/batches',
  '/p/llamacpp/v1/chat/completions',
] as const;
const members = ['messages', 'input', 'tools', 'metadata', 'items', 'requests', 'x'] as const;
const elements = [
  '{"role":"user","content":"a"}',
  '{"role":"system","content":"a"}',
  '{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":"x"}]}',
  '{"role":"tool","tool_call_id":"c","content":"x"}',
  '{"role":"assistant","content":[{"type":"text","text":"a"}],"extra_content":{"v":[1]}}',
  '{"type":"function_call","call_id":"c","name":"f","arguments":"{}"}',
  '{"type":"function_call_output","call_id":"c","output":[{"type":"input_text","text":"a"}]}',
  '{"type":"function","name":"f","function":{"name":"f"}}',
  '"a"',
  '1',
  '[1]',
] as const;

/** The text of one member whose size is `size` in one dimension. */
function grown({ pick, int }: Random, size: number): string {
  const element = pick(elements);
  switch (int(5)) {
    case 0:
      return `${'['.repeat(size)}${']'.repeat(size)}`;
    case 1:
      return `{${Array.from({ length: size }, (_, at) => `"m${at}":${element}`).join(',')}}`;
    case 2:
      return JSON.stringify('\\"'.repeat(size));
    case 3:
      return `[{"role":"user","content":[${Array.from({ length: size }, () => '{"type":"text","text":"a"}').join(',')}]}]`;
    default:
      return `[${Array.from({ length: size }, () => element).join(',')}]`;
  }
}

it('every request is answered', { timeout: 600_000 }, async () => {
  const random = newRandom();
  const key = await newKey(gateway, { user_path: '/team' });
  const cases = countOf(40, 400, 'ATTACK_CASES');
  for (let one = 0; one < cases; one++) {
    const path = random.pick(routes);
    const size = 2 ** random.int(17);
    const others = '"model":"llamacpp/simulated-small","max_tokens":1';
    const given = new Map<string, string>([
      [path === '/v1/responses' || path === '/v1/embeddings' ? 'input' : 'messages', '[{"role":"user","content":"a"}]'],
    ]);
    given.set(random.pick(members), grown(random, size));
    const body = `{${others},${[...given].map(([name, text]) => `"${name}":${text}`).join(',')}}`;
    const headers = { 'content-type': 'application/json' };
    const [answer, health] = await Promise.all([
      key.fetch(path, { method: 'POST', headers, body }),
      gateway.fetch('/health'),
    ]);
    const text = await answer.text();
    const context = `seed ${random.seed}, request ${one}: POST ${path} ${body.slice(0, 200)} (${body.length} bytes) → ${text.slice(0, 300)}`;
    expect(health.status).toBe(200);
    expect(answer.status, context).toBeLessThan(502);
    expect(answer.status, context).not.toBe(500);
  }
});
