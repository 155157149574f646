/** A client of the live tail for tests, like a browser or a script. */

import { get, type IncomingMessage } from 'node:http';
import { createParser } from 'eventsource-parser';
import { expect } from 'vitest';
import type { Answered } from '../support/answered.ts';

export interface LiveEvent {
  readonly id: string | undefined;
  readonly event: string;
  readonly data: {
    readonly seq: string;
    readonly type: string;
    readonly request_id?: string;
    readonly timestamp: string;
    readonly data?: Answered;
  };
}

export interface LiveListener {
  /** Pause it to be a client that does not read. */
  readonly response: IncomingMessage;
  /** Everything so far, including control events. */
  readonly events: LiveEvent[];
  readonly comments: string[];
  /** Resolves when the server ended the stream or the connection broke. */
  readonly ended: Promise<void>;
  /** The events received, without heartbeats. */
  news(): LiveEvent[];
  /** Waits until this many events besides heartbeats have arrived. */
  atLeast(count: number, timeoutMs?: number): Promise<LiveEvent[]>;
  /** Waits until an event of this type (and request) has arrived. */
  until(event: string, requestId?: string): Promise<LiveEvent>;
  lastId(): string | undefined;
  leave(): void;
}

export async function listen(
  url: string,
  query: Record<string, string> = {},
  headers: Record<string, string> = {},
): Promise<LiveListener> {
  // Not `fetch`: it opens connections ahead of need, and a server that closes would wait for those.
  const response = await new Promise<IncomingMessage>((resolve, reject) => {
    get(`${url}/admin/live/logs?${new URLSearchParams(query)}`, { headers, agent: false }, resolve).on('error', reject);
  });
  const events: LiveEvent[] = [];
  const comments: string[] = [];
  const parser = createParser({
    onEvent: ({ id, event = 'message', data }) => events.push({ id, event, data: JSON.parse(data) }),
    onComment: (comment) => comments.push(comment),
  });
  response.setEncoding('utf8');
  response.on('data', (text: string) => parser.feed(text));
  // A broken connection is an end like any other: the events received until then count.
  response.on('error', () => {});
  const ended = new Promise<void>((resolve) => response.once('close', resolve));
  const listener: LiveListener = {
    response,
    events,
    comments,
    ended,
    news: () => events.filter(({ event }) => event !== 'heartbeat'),
    async atLeast(count, timeoutMs = 15_000) {
      // Each poll goes through all received events.
      const interval = count > 1000 ? 50 : 5;
      await expect.poll(() => listener.news().length, { timeout: timeoutMs, interval }).toBeGreaterThanOrEqual(count);
      return listener.news();
    },
    async until(event, requestId) {
      const find = () =>
        events.find((one) => one.event === event && (requestId === undefined || one.data.request_id === requestId));
      await expect.poll(find, { timeout: 15_000, interval: 5 }).toBeDefined();
      return find() as LiveEvent;
    },
    lastId: () => events.findLast(({ id }) => id !== undefined)?.id,
    leave: () => response.destroy(),
  };
  return listener;
}
