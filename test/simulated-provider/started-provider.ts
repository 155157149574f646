/** A simulated provider for the length of one test file, and functions to call it. */

import { createParser, type EventSourceMessage } from 'eventsource-parser';
import { afterAll, afterEach, beforeAll } from 'vitest';
import {
  createSimulatedProvider,
  type SimulatedProvider,
  type SimulatedProviderOptions,
} from '../../infra/simulated-provider/server.ts';
import type { Answered } from '../support/answered.ts';

export type { Answered };

export interface Started {
  readonly provider: SimulatedProvider;
  /** Ends in `/v1`. */
  readonly url: string;
  get(path: string): Promise<Response>;
  post(path: string, body: unknown): Promise<Response>;
  /** The whole answer, open to any check of a test. */
  json(path: string, body?: unknown): Promise<Answered>;
  /** The events of a stream that runs to its end. */
  events(path: string, body: unknown): Promise<EventSourceMessage[]>;
}

export function withProvider(options: SimulatedProviderOptions = {}): Started {
  const provider = createSimulatedProvider(options);
  let url = '';
  beforeAll(async () => {
    url = await provider.listen();
  });
  afterEach(() => provider.control.clear());
  afterAll(() => provider.close());

  const get = (path: string) => fetch(new URL(path, url));
  const post = (path: string, body: unknown) =>
    fetch(new URL(path, url), {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: typeof body === 'string' ? body : JSON.stringify(body),
    });
  return {
    provider,
    get url() {
      return url;
    },
    get,
    post,
    json: async (path, body) => (await (body === undefined ? get(path) : post(path, body))).json(),
    events: async (path, body) => eventsOf(await (await post(path, body)).text()),
  };
}

export function eventsOf(text: string): EventSourceMessage[] {
  const events: EventSourceMessage[] = [];
  createParser({ onEvent: (event) => events.push(event) }).feed(text);
  return events;
}

/** The data of every event but `[DONE]`. */
export function dataOf(events: readonly EventSourceMessage[]): Answered[] {
  return events.filter((event) => event.data !== '[DONE]').map((event) => JSON.parse(event.data));
}

export function user(content: string) {
  return [{ role: 'user', content }];
}

export const weatherTool = {
  type: 'function',
  function: {
    name: 'get_weather',
    description: 'The weather in a city',
    parameters: {
      type: 'object',
      properties: { city: { type: 'string' }, unit: { type: 'string', enum: ['celsius', 'fahrenheit'] } },
      required: ['city', 'unit'],
      additionalProperties: false,
    },
  },
};
