/** Costs of batches: reserved in budgets before a provider receives them, and recorded once when they have ended. */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import {
  at,
  createBatch,
  line,
  MODEL,
  newBatch,
  setBudget,
  setPrice,
  spentOf,
  upload,
  usagesIn,
  withLastingProvider,
} from '../support/batches.ts';
import { newKey, setPolicy } from '../support/managed-keys.ts';
import { errorOf, eventsOfExchange, eventsUntil, exchangeOf, json, type LoggedEvent } from '../support/with-gateway.ts';

const lasting = withLastingProvider();
const { provider } = lasting;
const batchPath = { path: '/v1/batches' };
const hold = () => provider.control.always({ holdBackground: 'in_progress' }, batchPath);
const batchesMade = () =>
  provider.requests.filter(({ method, path }) => method === 'POST' && path === batchPath.path).length;

/** Every event of an exchange up to the one that ends its work. */
const untilSettled = (exchange: string): Promise<LoggedEvent[]> =>
  eventsUntil(lasting.gateway, `stream=exchange-${exchange}`, ({ type }) => type === 'usage.settled');

const lines = (count: number, body: object = {}) => Array.from({ length: count }, () => line(body));

beforeAll(async () => {
  await setPrice(lasting.gateway, `openai/${MODEL}`, { per_request: 1 });
});

describe('POST /v1/batches under a budget', () => {
  it('reserves the cost of all lines, and refuses a batch beyond the budget before the provider gets it', async () => {
    const { gateway } = lasting;
    await setBudget(gateway, '/reserved', 10);
    hold();
    const file = await upload(gateway, lines(4), at('/reserved'));
    const before = batchesMade();
    const answers = await Promise.all(Array.from({ length: 5 }, () => createBatch(gateway, file, at('/reserved'))));
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 200, 429, 429, 429]);
    expect(batchesMade() - before).toBe(2);
    const refused = answers.filter(({ status }) => status === 429);
    for (const answer of refused) {
      expect(await errorOf(answer, 429)).toMatchObject({ code: 'budget_exceeded', type: 'rate_limit_error' });
      const events = await eventsOfExchange(gateway, exchangeOf(answer));
      expect(events.at(-1)?.type).toBe('request.refused');
    }
    // The rest of the budget serves other requests.
    const chat = await gateway.fetch('/v1/chat/completions', {
      json: { model: `openai/${MODEL}`, messages: [{ role: 'user', content: 'hi' }] },
      ...at('/reserved'),
    });
    expect(chat.status).toBe(200);
    const [made] = answers.filter(({ status }) => status === 200);
    const [deferred] = (
      await eventsUntil(
        gateway,
        `stream=exchange-${exchangeOf(made as Response)}`,
        ({ type }) => type === 'usage.deferred',
      )
    ).slice(-1);
    expect(deferred?.data).toMatchObject({
      kind: 'batch',
      provider: 'openai',
      endpoint: '/v1/batches',
      parts: [{ model: MODEL, answers: 4 }],
      reservedCost: '4000000000',
    });
  });

  it('refuses a batch larger than the rest of the budget, also without other reservations', async () => {
    const { gateway } = lasting;
    await setBudget(gateway, '/alone', 10);
    expect(
      await errorOf(await createBatch(gateway, await upload(gateway, lines(11), at('/alone')), at('/alone')), 429),
    ).toMatchObject({
      code: 'budget_exceeded',
    });
    expect((await createBatch(gateway, await upload(gateway, lines(10), at('/alone')), at('/alone'))).status).toBe(200);
  });

  it('prices each line by its size, its longest allowed answer, and its number of answers', async () => {
    const { gateway } = lasting;
    await setPrice(gateway, 'openai/by-size', { input_per_mtok: 0, output_per_mtok: 1_000_000 });
    await setBudget(gateway, '/sized', 100);
    hold();
    const body = { model: 'by-size', max_tokens: 10, n: 3 };
    const fits = await createBatch(gateway, await upload(gateway, lines(3, body), at('/sized')), at('/sized'));
    expect(fits.status).toBe(200);
    const exceeds = await createBatch(
      gateway,
      await upload(gateway, [line({ ...body, n: 2 })], at('/sized')),
      at('/sized'),
    );
    await errorOf(exceeds, 429);
    // Without a stated length, a thousand tokens are assumed.
    await setBudget(gateway, '/unsized', 1000);
    await errorOf(
      await createBatch(gateway, await upload(gateway, [line({ model: 'by-size' })], at('/unsized')), at('/unsized')),
      429,
    );
  });

  it('charges the batch price of a model that has one', async () => {
    const { gateway } = lasting;
    await setPrice(gateway, 'openai/halved', {
      input_per_mtok: 1_000_000,
      output_per_mtok: 1_000_000,
      batch_input_per_mtok: 500_000,
      batch_output_per_mtok: 500_000,
    });
    await setBudget(gateway, '/halved', 1_000_000);
    const { exchange } = await newBatch(gateway, lines(2, { model: 'halved', max_tokens: 5 }), at('/halved'));
    const [usage] = usagesIn(await untilSettled(exchange));
    expect(usage).toMatchObject({ model: 'halved', answers: 2, source: 'provider', raw: null });
    expect(Number(usage?.totalCost)).toBe(Number(usage?.totalTokens) * 5e8);
  });

  it('refuses a batch without a known price, and allows it where there is no budget', async () => {
    const { gateway } = lasting;
    await setBudget(gateway, '/unpriced', 10);
    const mixed = [line(), line({ model: 'simulated-large' })];
    const refused = await createBatch(gateway, await upload(gateway, mixed, at('/unpriced')), at('/unpriced'));
    expect(refused.headers.get('x-should-retry')).toBe('false');
    expect(await errorOf(refused, 400)).toMatchObject({ code: 'price_unknown', param: 'input_file_id' });
    expect((await createBatch(gateway, await upload(gateway, mixed, at('/free')), at('/free'))).status).toBe(200);
  });

  it.each([
    ['no JSON', '{"custom_id":', /not a JSON object/],
    ['a list', '[1]', /not a JSON object/],
    ['no body', JSON.stringify({ url: '/v1/chat/completions' }), /no 'url' and 'body'/],
    ['no model', JSON.stringify(line({ model: undefined })), /names no model/],
    ['two models', JSON.stringify(line()).replace('"model":', '"model":"other","model":'), /'model' more than once/],
    ['a model in capitals', JSON.stringify(line()).replace('"model":', '"Model":"other","model":'), /more than once/],
    ['an escaped name', JSON.stringify(line()).replace('"model":', '"\\u006dodel":"other","model":'), /more than once/],
    [
      'two bodies',
      JSON.stringify(line()).replace('"body":', '"body":{"model":"other"},"body":'),
      /'body' more than once/,
    ],
  ])('refuses a line with %s, since it cannot be counted', async (_what, text, message) => {
    const { gateway } = lasting;
    await setBudget(gateway, '/lines', 1000);
    const file = await upload(gateway, [line(), text], at('/lines'));
    const error = await errorOf(await createBatch(gateway, file, at('/lines')), 400);
    expect(error).toMatchObject({ code: 'batch_line_invalid', param: 'input_file_id' });
    expect(error.message).toMatch(/^Line 2 /);
    expect(error.message).toMatch(message);
  });

  it('refuses a file that was deleted', async () => {
    const { gateway } = lasting;
    await setBudget(gateway, '/gone', 10);
    const file = await upload(gateway, [line()], at('/gone'));
    await fetch(`${lasting.url}/files/${file}`, { method: 'DELETE', headers: { authorization: 'Bearer sk-lasting' } });
    await errorOf(await createBatch(gateway, file, at('/gone')), 404);
  });

  it('releases the reservation when the provider refuses the batch', async () => {
    const { gateway } = lasting;
    await setBudget(gateway, '/refused', 10);
    const file = await upload(gateway, lines(10), at('/refused'));
    provider.control.next({ status: 400, message: 'no' }, batchPath);
    await errorOf(await createBatch(gateway, file, at('/refused')), 400);
    expect((await createBatch(gateway, file, at('/refused'))).status).toBe(200);
  });

  it('refuses batches on the API of the provider itself, where they are not counted', async () => {
    const { gateway } = lasting;
    await setBudget(gateway, '/around', 10);
    const file = await upload(gateway, [line()], at('/around'));
    const body = { input_file_id: file, endpoint: '/v1/chat/completions', completion_window: '24h' };
    const before = batchesMade();
    const paths = [
      'batches',
      'v1/batches',
      'v1/batches/?x=1',
      'v1/fine_tuning/jobs',
      'models/gemini:batchGenerateContent',
    ];
    for (const path of paths.map((one) => `/p/openai/${one}`)) {
      const refused = await gateway.fetch(path, { json: body, ...at('/around') });
      expect(await errorOf(refused, 400)).toMatchObject({ code: 'unmetered_operation' });
    }
    expect(batchesMade()).toBe(before);
  });
});

describe('a batch that has ended', () => {
  it('costs what its output reports, recorded once also when its client never polls', async () => {
    const { gateway } = lasting;
    await setBudget(gateway, '/settled', 10);
    const { id, exchange } = await newBatch(gateway, lines(4), at('/settled'));
    const events = await untilSettled(exchange);
    expect(events.map(({ type }) => type).slice(-3)).toEqual(['usage.deferred', 'usage.recorded', 'usage.settled']);
    expect(events.at(-1)?.data).toEqual({ kind: 'batch', workId: id, outcome: 'completed' });
    const [usage] = usagesIn(events);
    expect(usage).toMatchObject({
      provider: 'openai',
      model: MODEL,
      endpoint: '/v1/batches',
      answers: 4,
      totalCost: '4000000000',
      source: 'provider',
    });
    expect(usage?.inputTokens).toBeGreaterThan(0);
    expect(usage?.totalTokens).toBe((usage?.inputTokens ?? 0) + (usage?.outputTokens ?? 0));
    expect(events.at(-2)?.userPath).toBe('/settled');
    expect(await spentOf(gateway, '/settled')).toBe(4);
    // The reservation became spending; it does not count twice.
    expect((await createBatch(gateway, await upload(gateway, lines(6), at('/settled')), at('/settled'))).status).toBe(
      200,
    );
  });

  it('is recorded once with concurrent readers, before the client receives the id of its output', async () => {
    const { gateway } = lasting;
    hold();
    const { id, exchange } = await newBatch(gateway, lines(3));
    provider.control.release();
    const seen = await Promise.all(Array.from({ length: 8 }, () => gateway.fetch(`/v1/batches/${id}`).then(json)));
    const ended = seen.filter(({ status }) => status === 'completed');
    for (const batch of ended) expect(batch.output_file_id).toMatch(/^file-/);
    const types = (await lasting.recordedAfterStop(exchange)).map(({ type }) => type);
    expect(types.filter((type) => type === 'usage.recorded')).toHaveLength(1);
    expect(types.filter((type) => type === 'usage.settled')).toHaveLength(1);
  });

  it('costs each line at the price of its model', async () => {
    const { gateway } = lasting;
    await setPrice(gateway, 'openai/dear', { per_request: 5 });
    const { exchange } = await newBatch(gateway, [...lines(2), ...lines(3, { model: 'dear' })], at('/mixed'));
    const usages = usagesIn(await untilSettled(exchange));
    expect(usages.map(({ model, answers, totalCost }) => [model, answers, totalCost]).sort()).toEqual([
      ['dear', 3, '15000000000'],
      [MODEL, 2, '2000000000'],
    ]);
  });

  it('costs nothing when no line was answered', async () => {
    const { gateway } = lasting;
    await setBudget(gateway, '/failed', 10);
    hold();
    const { id, exchange } = await newBatch(gateway, lines(10), at('/failed'));
    const cancelled = await gateway.fetch(`/v1/batches/${id}/cancel`, { method: 'POST', ...at('/failed') });
    expect(cancelled.status).toBe(200);
    const events = await untilSettled(exchange);
    expect(events.at(-1)?.data).toMatchObject({ outcome: 'cancelled' });
    expect(usagesIn(events)).toEqual([]);
    expect(await spentOf(gateway, '/failed')).toBe(0);
    expect((await createBatch(gateway, await upload(gateway, lines(10), at('/failed')), at('/failed'))).status).toBe(
      200,
    );
  });

  it('costs the estimate when its output is deleted or reports no usage', async () => {
    const { gateway } = lasting;
    await setBudget(gateway, '/lost', 100);
    hold();
    const silent = await newBatch(gateway, lines(3, { simulate: { usage: false } }), at('/lost'));
    const forgotten = await newBatch(gateway, lines(5), at('/lost'));
    provider.control.always({ status: 404 }, { path: `/v1/batches/${forgotten.id}` });
    provider.control.release();
    const [ofSilent] = usagesIn(await untilSettled(silent.exchange));
    expect(ofSilent).toMatchObject({
      estimated: true,
      answers: 3,
      inputTokens: null,
      outputTokens: null,
      totalTokens: null,
      source: 'unknown',
      totalCost: '3000000000',
    });
    expect(ofSilent?.estimatedInputTokens).toBeGreaterThan(0);
    const events = await untilSettled(forgotten.exchange);
    expect(events.at(-1)?.data).toMatchObject({ outcome: 'lost' });
    expect(usagesIn(events)).toMatchObject([{ estimated: true, answers: 5, totalCost: '5000000000' }]);
    expect(await spentOf(gateway, '/lost')).toBe(8);
  });

  it('is recorded when it was created on the API of the provider itself', async () => {
    const { gateway } = lasting;
    const file = await upload(gateway, lines(2));
    const made = await gateway.fetch('/p/openai/v1/batches', {
      json: { input_file_id: file, endpoint: '/v1/chat/completions', completion_window: '24h' },
    });
    const [usage] = usagesIn(await untilSettled(exchangeOf(made)));
    expect(usage).toMatchObject({ model: MODEL, answers: 2, endpoint: '/p/openai/v1/batches', source: 'provider' });
  });
});

describe('after a restart', () => {
  it.each([
    ['from its snapshots', () => {}],
    ['from the log alone', (dataDir: string) => rmSync(join(dataDir, 'views.db'))],
  ])('reservations of batches are kept, and their costs are recorded: %s', async (name, lose) => {
    const path = `/restart/${name.replaceAll(' ', '-')}`;
    await setBudget(lasting.gateway, path, 10);
    hold();
    const { exchange } = await newBatch(lasting.gateway, lines(8), at(path));
    await lasting.restart(lose);
    const { gateway } = lasting;
    const file = await upload(gateway, lines(3), at(path));
    expect(await errorOf(await createBatch(gateway, file, at(path)), 429)).toMatchObject({ code: 'budget_exceeded' });
    provider.control.release();
    const [usage] = usagesIn(await untilSettled(exchange));
    expect(usage).toMatchObject({ answers: 8, totalCost: '8000000000' });
    expect(await spentOf(gateway, path)).toBe(8);
    await errorOf(await createBatch(gateway, file, at(path)), 429);
    provider.control.clear();
    expect((await createBatch(gateway, await upload(gateway, lines(2), at(path)), at(path))).status).toBe(200);
  });
});

describe('the lines of a batch', () => {
  it('may name only models that the caller may use', async () => {
    const { gateway } = lasting;
    const key = await newKey(gateway, { allowed_models: [`openai/${MODEL}`] });
    const good = await createBatch(key, await upload(key, [line()]));
    expect(good.status).toBe(200);
    const bad = await createBatch(key, await upload(key, [line(), line({ model: 'simulated-large' })]));
    expect(await errorOf(bad, 400)).toMatchObject({ code: 'model_access_denied' });
    await setPolicy(gateway, '/walled', [`openai/${MODEL}`]);
    const walled = await createBatch(
      gateway,
      await upload(gateway, [line({ model: 'dear' })], at('/walled')),
      at('/walled'),
    );
    expect(await errorOf(walled, 400)).toMatchObject({ code: 'model_access_denied' });
  });

  it('may name only files that the caller may read, and no other object of the provider', async () => {
    const { gateway } = lasting;
    const own = await upload(gateway, [line()], at('/team/ann'));
    const others = await upload(gateway, [line()], at('/team/bob'));
    const naming = (id: string) =>
      line({ messages: [{ role: 'user', content: [{ type: 'file', file: { file_id: id } }] }] });
    const init = at('/team/ann');
    expect((await createBatch(gateway, await upload(gateway, [naming(own)], init), init)).status).toBe(200);
    await errorOf(await createBatch(gateway, await upload(gateway, [naming(others)], init), init), 404);
    for (const body of [
      { previous_response_id: 'resp_1' },
      { conversation: 'conv_1' },
      { input: [{ type: 'item_reference', id: 'msg_1' }] },
      { input: [{ id: 'msg_1' }] },
      { input: [{ type: 'image_generation_call', id: 'ig_1' }] },
      { input: [{ type: 'reasoning', id: 'rs_1', summary: [] }] },
      { tools: [{ type: 'code_interpreter', container: 'cntr_1' }] },
      { tools: [{ type: 'file_search', vector_store_ids: ['vs_1'] }] },
      { messages: [{ role: 'assistant', audio: { id: 'audio_1' } }] },
    ]) {
      const refused = await createBatch(gateway, await upload(gateway, [line(body)], init), init);
      expect(await errorOf(refused, 400)).toMatchObject({ code: 'batch_line_invalid' });
    }
  });
});
