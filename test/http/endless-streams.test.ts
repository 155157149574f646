/** A provider's stream without an end is ended by the gateway, with an error in the client's dialect and on record. */
import type { ServerResponse } from 'node:http';
import { afterAll, describe, expect, it } from 'vitest';
import { type ScriptedProvider, startScriptedProvider } from '../support/scripted-provider.ts';
import { eventsUntil, exchangeOf, type LoggedEvent, user, withGateway } from '../support/with-gateway.ts';

const KEY = 'sk-of-all';
const providers: ScriptedProvider[] = [];
afterAll(async () => {
  for (const provider of providers) await provider.close();
});

function limited(env: Record<string, string>) {
  const place: { provider?: ScriptedProvider } = {};
  const gateway = withGateway(async () => {
    place.provider = await startScriptedProvider();
    providers.push(place.provider);
    const { url } = place.provider;
    return {
      simulated: false,
      env: {
        CONFIGURED_PROVIDER_MODELS_MODE: 'merge',
        ...{ OPENAI_BASE_URL: url, OPENAI_API_KEY: KEY, OPENAI_MODELS: 'm' },
        ...{ DEEPSEEK_BASE_URL: url, DEEPSEEK_API_KEY: KEY, DEEPSEEK_MODELS: 'm' },
        ...{ ANTHROPIC_BASE_URL: url, ANTHROPIC_API_KEY: KEY, ANTHROPIC_MODELS: 'm' },
        RETRY_MAX_RETRIES: '0',
        CIRCUIT_BREAKER_ENABLED: 'false',
        ...env,
      },
    };
  }, 2);
  return { gateway, place };
}

const sse = (event: object) => `data: ${JSON.stringify(event)}\n\n`;
const TEXT = 'more and more '.repeat(20);
/** The first events of a stream, and the event that repeats. */
const dialects = {
  chat: ['', sse({ model: 'm', choices: [{ index: 0, delta: { content: TEXT }, finish_reason: null }] })],
  completion: ['', sse({ choices: [{ index: 0, text: TEXT, finish_reason: null }] })],
  messages: [
    sse({ type: 'message_start', message: { id: 'm', type: 'message', content: [], usage: { input_tokens: 3 } } }) +
      sse({ type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } }),
    sse({ type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: TEXT } }),
  ],
  responses: [
    sse({
      type: 'response.created',
      response: { id: 'resp_1', object: 'response', status: 'in_progress', output: [] },
    }),
    sse({ type: 'response.output_text.delta', item_id: 'msg_1', output_index: 0, content_index: 0, delta: TEXT }),
  ],
} as const;

const chat = { messages: user('Say hello.'), max_tokens: 9 };
const routes = [
  ['/v1/chat/completions', 'openai', chat, 'chat'],
  ['/v1/chat/completions', 'anthropic', chat, 'messages'],
  ['/v1/completions', 'openai', { prompt: 'Say hello.' }, 'completion'],
  ['/v1/messages', 'anthropic', chat, 'messages'],
  ['/v1/messages', 'deepseek', chat, 'chat'],
  ['/v1/responses', 'openai', { input: 'Say hello.' }, 'responses'],
  ['/v1/responses', 'deepseek', { input: 'Say hello.' }, 'chat'],
  ['/p/openai/v1/chat/completions', 'openai', chat, 'chat'],
] as const;

/** Writes until the gateway closes the connection. @returns resolves then, with the bytes that were written */
function withoutEnd(provider: ScriptedProvider | undefined, dialect: keyof typeof dialects, pauseMs: number) {
  const closed = Promise.withResolvers<number>();
  const [first, more] = dialects[dialect];
  provider?.script((_request, response) => {
    let bytes = 0;
    response.on('close', () => closed.resolve(bytes));
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    const write = (text: string) => {
      bytes += text.length;
      return response.write(text);
    };
    write(first);
    const next = (): void => {
      if (response.destroyed) return;
      if (pauseMs > 0) {
        write(more);
        setTimeout(next, pauseMs);
      } else if (write(more)) setImmediate(next);
      else response.once('drain', next);
    };
    next();
  });
  return closed.promise;
}

const ENDS = ['exchange.failed', 'exchange.completed', 'client.disconnected'];

async function endOf(gateway: ReturnType<typeof withGateway>, answer: Response): Promise<LoggedEvent[]> {
  const stream = `stream=exchange-${exchangeOf(answer)}`;
  let ended = false;
  // The usage is recorded in the append of the end.
  return eventsUntil(gateway, stream, ({ type }) => {
    ended ||= ENDS.includes(type);
    return ended && type === 'usage.recorded';
  });
}

const cases = [
  ['STREAM_MAX_SIZE', { STREAM_MAX_SIZE: '64K' }, 0, 'answer_too_large'],
  ['STREAM_MAX_DURATION', { STREAM_MAX_DURATION: '300ms' }, 5, 'answer_too_long'],
] as const;

describe.each(cases)('a stream above %s', (setting, env, pauseMs, code) => {
  const { gateway, place } = limited(env);

  it.each(routes)(
    'of %s of %s ends with an error, and costs what was received',
    async (path, provider, body, dialect) => {
      const closed = withoutEnd(place.provider, dialect, pauseMs);
      const model = path.startsWith('/p') ? 'm' : `${provider}/m`;
      const answer = await gateway.post(path, { ...body, model, stream: true });
      expect(answer.status).toBe(200);
      const text = await answer.text();
      expect(text).toContain('more and more');
      expect(text).toContain(setting);
      expect(await closed).toBeGreaterThan(100);
      const events = await endOf(gateway, answer);
      expect(events.find(({ type }) => type === 'exchange.failed')?.data).toMatchObject({
        code,
        reason: 'stream_broken',
      });
      expect(events.at(-1)?.data).toMatchObject({ partial: true });
      if (setting === 'STREAM_MAX_SIZE') expect(text.length).toBeLessThan(10 * 64 * 1024);
    },
  );

  it('that is one event or nothing but comments is 502 or 504', async () => {
    place.provider?.script((_request, response: ServerResponse) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      const next = (): void => {
        if (response.destroyed) return;
        response.write(`: ${TEXT}\n\n`);
        setTimeout(next, pauseMs);
      };
      next();
    });
    const answer = await gateway.post('/v1/chat/completions', { ...chat, model: 'openai/m', stream: true });
    expect(await answer.text()).toContain(setting);
    const stream = `stream=exchange-${exchangeOf(answer)}`;
    const events = await eventsUntil(gateway, stream, ({ type }) => type === 'exchange.failed');
    expect(events.at(-1)?.data).toMatchObject({ code, reason: 'provider_error' });
  });
});

describe('an answer without an end that is no event stream', () => {
  const { gateway, place } = limited({ STREAM_MAX_DURATION: '300ms' });

  it('is cut, and on record', async () => {
    place.provider?.script((_request, response) => {
      response.writeHead(200, { 'content-type': 'application/octet-stream' });
      const next = (): void => {
        if (response.destroyed) return;
        response.write(TEXT);
        setTimeout(next, 5);
      };
      next();
    });
    const answer = await gateway.fetch('/p/openai/v1/files/x/content');
    await expect(answer.text()).rejects.toThrow();
    const stream = `stream=exchange-${exchangeOf(answer)}`;
    const events = await eventsUntil(gateway, stream, ({ type }) => type === 'exchange.failed');
    expect(events.at(-1)?.data).toMatchObject({ code: 'answer_too_long', reason: 'stream_broken' });
  });
});
