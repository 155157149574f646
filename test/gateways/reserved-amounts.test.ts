/** Budgets over two gateways: which amounts requests reserve in the log. */
import { beforeAll, describe, expect, it } from 'vitest';
import type { Answered } from '../support/answered.ts';
import { exchangeOf, json } from '../support/with-gateway.ts';
import { type OneOfSeveral, withSeveral } from './several.ts';

const several = withSeveral({ delays: [0, 15], simulated: { responses: 'absent' } });
const at = (place: number): OneOfSeveral => several.all[place] as OneOfSeveral;
const model = 'llamacpp/simulated-small';
const NANO_PER_TOKEN = 1_000_000;

interface Reserved {
  readonly amount: string;
  readonly bounded: boolean;
}

/** The last reservation of the exchange whose answer this is, once the other gateway has it on disk. */
async function reservedBy(answer: Response): Promise<Reserved> {
  await answer.text();
  const stream = `exchange-${exchangeOf(answer)}`;
  let reserved: Reserved | undefined;
  const found = async () => {
    const events = (await at(0).events()).filter((event) => event.stream === stream);
    reserved = events.findLast(({ type }) => type === 'cost.reserved')?.data as Reserved | undefined;
    return reserved !== undefined;
  };
  await expect.poll(found).toBe(true);
  return reserved as unknown as Reserved;
}

async function posted(path: string, body: object): Promise<Answered> {
  const answer = await at(0).fetch(path, { json: body });
  expect(answer.ok, await answer.clone().text()).toBe(true);
  return json(answer);
}

beforeAll(async () => {
  const put = async (path: string, body: object) => {
    const answer = await at(0).fetch(path, { method: 'PUT', json: body });
    expect(answer.ok, await answer.text()).toBe(true);
  };
  const pricing = { input_per_mtok: 1000, output_per_mtok: 1000 };
  await put('/admin/model-pricing-overrides', { selector: model, pricing });
  await put('/admin/budgets/%2F/daily', { amount: 1_000_000 });
});

describe('a request reserves the turns that it continues', () => {
  /** The likely tokens of such a text are few, because it looks like base64; each byte of it may be one. */
  const text = 'z'.repeat(20_000);
  const next = { model, input: 'hi', max_output_tokens: 100 };

  async function expectReserved(body: object): Promise<void> {
    const { amount, bounded } = await reservedBy(await at(1).fetch('/v1/responses', { json: { ...next, ...body } }));
    expect(bounded).toBe(true);
    expect(Number(amount)).toBeGreaterThan((text.length + next.max_output_tokens) * NANO_PER_TOKEN);
    expect(Number(amount)).toBeLessThan((text.length + 2000) * NANO_PER_TOKEN);
  }

  it('of a conversation', async () => {
    const items = [{ type: 'message', role: 'user', content: text }];
    const { id } = await posted('/v1/conversations', { items });
    await expectReserved({ conversation: id });
  });

  it('before a response, also in the background', async () => {
    const { id } = await posted('/v1/responses', { ...next, input: text });
    await expectReserved({ previous_response_id: id });
    await expectReserved({ previous_response_id: id, background: true });
  });

  it('without a bound where they are not text', async () => {
    const image = { type: 'input_image', image_url: 'https://images.example/1.png' };
    const items = [{ type: 'message', role: 'user', content: [image] }];
    const { id } = await posted('/v1/conversations', { items });
    const answer = await at(1).fetch('/v1/responses', { json: { ...next, conversation: id } });
    expect((await reservedBy(answer)).bounded).toBe(false);
  });
});

describe('the reservation of a request', () => {
  const messages = [{ role: 'user', content: 'hi' }];
  const limited = JSON.stringify({ model, messages, max_tokens: 5 });

  it.each([
    ['with a limit is a bound', limited, true],
    [
      'with the limit of another API is one: the gateway sends its own',
      limited.replace('max_tokens', 'max_output_tokens'),
      true,
    ],
    ['with a number of answers as text is not', limited.replace('{', '{"n":"2",'), false],
  ])('%s', async (_name, body, isBounded) => {
    const headers = { 'content-type': 'application/json' };
    const answer = await at(1).fetch('/v1/chat/completions', { method: 'POST', body, headers });
    expect((await reservedBy(answer)).bounded).toBe(isBounded);
  });
});

it('the reservation of a request to a provider’s own API is a bound where its body names a model', async () => {
  const body = { model: 'simulated-small', messages: [{ role: 'user', content: 'hi' }], max_tokens: 5 };
  const answer = await at(1).fetch('/p/llamacpp/v1/chat/completions', { json: body });
  expect((await reservedBy(answer)).bounded).toBe(true);
});

describe('the reservation of a request under way', () => {
  it('is in the budgets of every gateway until usage replaces it', async () => {
    const userPath = '/under/way';
    const saved = await at(0).fetch('/admin/budgets/%2Funder/daily', { method: 'PUT', json: { amount: 1000 } });
    expect(saved.ok, await saved.text()).toBe(true);
    const shown = (place: number) => async () => json(await at(place).fetch('/admin/budgets/%2Funder/daily'));
    several.simulated.control.next({ holdAfterChunks: 1 });
    const body = { model, messages: [{ role: 'user', content: 'hi' }], max_tokens: 50, stream: true };
    const answer = await at(1).fetch('/v1/chat/completions', {
      json: body,
      headers: { 'x-gateway-user-path': userPath },
    });
    for (const place of [0, 1]) {
      await expect.poll(async () => (await shown(place)()).reserved).toBeGreaterThan(0.05);
      expect((await shown(place)()).spent).toBe(0);
    }
    several.simulated.control.release();
    await answer.text();
    for (const place of [0, 1]) {
      await expect.poll(shown(place)).toMatchObject({ reserved: 0 });
      expect((await shown(place)()).spent).toBeGreaterThan(0);
    }
  });
});
