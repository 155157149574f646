/** A gateway for the length of one test file, and functions to call it. */

import { createParser, type EventSourceMessage } from 'eventsource-parser';
import { afterAll, afterEach, beforeAll, expect } from 'vitest';
import type { RecordedRequest } from '../../infra/simulated-provider/server.ts';
import type { EventJson } from '../../src/events/event-json.ts';
import type { Answered } from './answered.ts';
import { startTestGateway, type TestGateway, type TestGatewayOptions } from './gateway.ts';

export interface StartedGateway extends TestGateway {
  /** A POST of JSON, or of text as it is. */
  post(path: string, body: unknown, init?: RequestInit): Promise<Response>;
  /** The newest request that a provider got, besides the listing of its models. */
  lastProviderRequest(): RecordedRequest;
}

/**
 * Starts it before the tests, with the models of its providers listed; clears the provider's faults after each.
 * @param providers how many can be listed; all of them when not given
 */
export function withGateway(
  given: TestGatewayOptions | (() => Promise<TestGatewayOptions>) = {},
  providers?: number,
): StartedGateway {
  let started: TestGateway | undefined;
  const it = (): TestGateway => {
    if (started === undefined) throw new Error('the gateway runs only within tests');
    return started;
  };
  beforeAll(async () => {
    const options = typeof given === 'function' ? await given() : given;
    started = await startTestGateway(options);
    const { simulated, register = (url: string) => ({ LLAMACPP_BASE_URL: url }), env } = options;
    const variables = { ...(simulated === false ? {} : register('')), ...env };
    await modelsListed(
      started,
      providers ?? Object.keys(variables).filter((name) => name.endsWith('_BASE_URL')).length,
    );
  });
  afterEach(() => started?.simulated.control.clear());
  afterAll(() => started?.close());
  return {
    get url() {
      return it().url;
    },
    get dataDir() {
      return it().dataDir;
    },
    get simulated() {
      return it().simulated;
    },
    get gateway() {
      return it().gateway;
    },
    fetch: (path, init) => it().fetch(path, init),
    close: () => it().close(),
    post(path, body, init = {}) {
      const headers = new Headers(init.headers);
      if (!headers.has('content-type')) headers.set('content-type', 'application/json');
      const text = typeof body === 'string' ? body : JSON.stringify(body);
      return it().fetch(path, { method: 'POST', ...init, headers, body: text });
    },
    lastProviderRequest() {
      const providerRequest = it().simulated.requests.findLast(
        ({ path }) => path !== '/v1/models' && path !== '/props',
      );
      if (providerRequest === undefined) throw new Error('the provider was not asked anything');
      return providerRequest;
    },
  };
}

/** Resolves once the gateway has listed the models of so many providers: no listing comes between later requests. */
export async function modelsListed(
  gateway: Pick<TestGateway, 'fetch'>,
  providers = 1,
  patienceMs?: number,
): Promise<void> {
  const listed = new Set<string>();
  const isLast = ({ stream }: LoggedEvent) => listed.add(stream).size === providers;
  await eventsUntil(gateway, 'types=provider.models_listed', isLast, patienceMs);
}

/** The whole answer, open to any check of a test. */
export async function json(response: Response): Promise<Answered> {
  return JSON.parse(await response.text());
}

export function eventsOf(text: string): EventSourceMessage[] {
  const events: EventSourceMessage[] = [];
  createParser({ onEvent: (event) => events.push(event) }).feed(text);
  return events;
}

/** The data of every event but `[DONE]`. */
export function dataOf(text: string): Answered[] {
  return eventsOf(text)
    .filter(({ data }) => data !== '[DONE]')
    .map(({ data }) => JSON.parse(data));
}

export function user(content: string) {
  return [{ role: 'user', content }];
}

export const weather = {
  name: 'get_weather',
  description: 'The weather in a city',
  parameters: {
    type: 'object',
    properties: { city: { type: 'string' }, unit: { type: 'string', enum: ['celsius', 'fahrenheit'] } },
    required: ['city', 'unit'],
    additionalProperties: false,
  },
};

const ERROR_TYPES = [
  'provider_error',
  'rate_limit_error',
  'invalid_request_error',
  'authentication_error',
  'not_found_error',
  'permission_error',
  'guardrail_error',
  'internal_error',
];

export interface ErrorBody {
  readonly code: string | null;
  readonly message: string;
  readonly param: string | null;
  readonly type: string;
  readonly provider?: string;
}

/** The error of an answer that must be one: its status, and the envelope in exactly its form. */
export async function errorOf(response: Response, status: number): Promise<ErrorBody> {
  const text = await response.text();
  expect({ status: response.status, text }).toMatchObject({ status });
  expect(response.headers.get('content-type')).toBe('application/json; charset=utf-8');
  const body = JSON.parse(text);
  expectEnvelope(body);
  return body.error;
}

/** Exactly `{error: {code, message, param, type, provider?}}`, with a type of the closed set. */
export function expectEnvelope(body: unknown): void {
  expect(Object.keys(Object(body))).toEqual(['error']);
  const { error } = body as { error: Record<string, unknown> };
  const { provider, ...members } = error;
  expect(Object.keys(members).sort()).toEqual(['code', 'message', 'param', 'type']);
  expect(error['message']).toEqual(expect.any(String));
  expect(error['message']).not.toBe('');
  for (const name of ['code', 'param']) expect(error[name] === null || typeof error[name] === 'string').toBe(true);
  expect(ERROR_TYPES).toContain(error['type']);
  if ('provider' in error) expect(provider).toEqual(expect.stringMatching(/./));
}

/** `x-exchange-id` of an answer. */
export function exchangeOf(response: Response): string {
  const id = response.headers.get('x-exchange-id');
  if (id === null) throw new Error('the answer has no x-exchange-id');
  return id;
}

/** The part of a streamed answer up to the given text. @throws when it ends without it */
export async function readUntil(answer: Response, words: string): Promise<string> {
  const reader = answer.body?.getReader();
  let text = '';
  while (!text.includes(words)) {
    const next = await reader?.read();
    if (next === undefined || next.done) throw new Error(`the answer ended without "${words}": ${text}`);
    text += Buffer.from(next.value).toString();
  }
  return text;
}

/** Every event of an exchange from the live tail; waits for events that are not there yet. */
export async function eventsOfExchange(gateway: Pick<TestGateway, 'fetch'>, id: string): Promise<LoggedEvent[]> {
  let tokensAreCounted = true;
  return eventsUntil(gateway, `stream=exchange-${id}`, ({ type, data }) => {
    if (type === 'request.received') tokensAreCounted = data.dialect !== 'passthrough';
    if (type === 'usage.recorded' && data.failedAttempt === undefined) return true;
    if (type === 'request.refused') return true;
    // The usage of a provider's answer is the last event.
    return ENDS.has(type) && !(tokensAreCounted && data.chunks > 0);
  });
}

const ENDS = new Set(['exchange.completed', 'exchange.failed', 'client.disconnected']);

/** An event as JSON, its data open to any check. */
export type LoggedEvent = EventJson & { readonly data: Answered };

/** The events from the beginning of the log on that match the query, up to the first that `isLast` accepts. */
export async function eventsUntil(
  gateway: Pick<TestGateway, 'fetch'>,
  query: string,
  isLast: (event: LoggedEvent) => boolean,
  patienceMs = 12_000,
): Promise<LoggedEvent[]> {
  const stop = new AbortController();
  const signal = AbortSignal.any([stop.signal, AbortSignal.timeout(patienceMs)]);
  const response = await gateway.fetch(`/admin/live/logs?view=events&cursor=0&${query}`, { signal });
  const events: LoggedEvent[] = [];
  const received: LoggedEvent[] = [];
  const parser = createParser({
    onEvent({ event, data }) {
      if (event === 'heartbeat' || event === 'reset') return;
      received.push(JSON.parse(data).data);
    },
  });
  try {
    const decoder = new TextDecoder();
    for await (const piece of response.body ?? []) {
      parser.feed(decoder.decode(piece, { stream: true }));
      for (const event of received.splice(0)) {
        events.push(event);
        if (isLast(event)) return events;
      }
    }
  } catch (error) {
    throw new Error(`it did not come; there were ${events.map(({ type }) => type).join(', ') || 'no events'}`, {
      cause: error,
    });
  } finally {
    stop.abort();
  }
  throw new Error(`the live tail ended after ${events.map(({ type }) => type).join(', ') || 'nothing'}`);
}
