/** A managed key with every kind of restriction: a list of models, a budget, rate limits. */
import { GATEWAY_KEY } from './gateway.ts';
import type { Server } from './launch.ts';

/** High enough that no request is refused. */
const AMOUNT = 1_000_000_000;
const USER_PATH = '/bench/team/alpha';

/** `selectors`: the models that it may use, such as `openai/`. */
export async function governedKey({ origin }: Pick<Server, 'origin'>, selectors: readonly string[]): Promise<string> {
  const send = async (method: string, path: string, body: unknown): Promise<unknown> => {
    const headers = { authorization: `Bearer ${GATEWAY_KEY}`, 'content-type': 'application/json' };
    const response = await fetch(`${origin}/admin/${path}`, { method, headers, body: JSON.stringify(body) });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} /admin/${path}: ${response.status} ${text}`);
    return JSON.parse(text);
  };
  for (const selector of selectors) {
    await send('PUT', 'model-pricing-overrides', { selector, pricing: { input_per_mtok: 1, output_per_mtok: 2 } });
  }
  await send('PUT', 'users', { user_path: '/bench', allowed_models: selectors });
  const limits = { max_requests: AMOUNT, max_tokens: AMOUNT };
  for (const path of ['/bench', USER_PATH]) {
    await send('PUT', 'budgets', { user_path: path, budget_key: { period: 'monthly' }, amount: AMOUNT });
    await send('PUT', 'rate-limits', { user_path: path, limit_key: { period: 'minute' }, ...limits });
  }
  const created = await send('POST', 'auth-keys', {
    name: 'bench',
    user_path: USER_PATH,
    labels: ['bench'],
    allowed_models: selectors,
  });
  if (typeof created === 'object' && created !== null && 'value' in created) return String(created.value);
  throw new Error('the key that was made has no value');
}
