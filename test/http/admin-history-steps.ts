/** Steps for tests of administration and its history: keys, policies, and later reads. */
import { expect } from 'vitest';
import { wallClock } from '../../src/events/event-id.ts';
import type { Answered } from '../support/answered.ts';
import type { TestGateway } from '../support/gateway.ts';
import { errorOf, json } from '../support/with-gateway.ts';

export interface NewKey {
  readonly id: string;
  /** The key itself. */
  readonly value: string;
}

export function administrator(gateway: Pick<TestGateway, 'fetch'>) {
  const as = (key: string | undefined) => (key === undefined ? {} : { headers: { authorization: `Bearer ${key}` } });
  return {
    /** The JSON of a GET that must succeed. */
    async get(path: string, key?: string): Promise<Answered> {
      const answer = await gateway.fetch(path, as(key));
      expect({ path, status: answer.status, text: answer.ok ? '' : await answer.text() }).toMatchObject({
        status: 200,
      });
      return json(answer);
    },
    async refused(path: string, status: number, key?: string) {
      return errorOf(await gateway.fetch(path, as(key)), status);
    },
    async newKey(body: object = {}): Promise<NewKey> {
      const answer = await gateway.fetch('/admin/auth-keys', { json: { name: 'a key', ...body } });
      expect(answer.status).toBe(201);
      return json(answer);
    },
    async change(method: 'PUT' | 'POST' | 'DELETE', path: string, body?: object, key?: string): Promise<Answered> {
      const answer = await gateway.fetch(path, { method, ...as(key), ...(body === undefined ? {} : { json: body }) });
      const text = await answer.text();
      expect({ path, status: answer.status, text: answer.ok ? '' : text }).toMatchObject({ text: '' });
      return text === '' ? undefined : JSON.parse(text);
    },
    /** The position of the newest change: an `as_of` that depends on no clock. */
    async newestChange(): Promise<string> {
      const { entries } = await this.get('/admin/history?limit=1');
      return entries[0].position;
    },
    /**
     * A time after all earlier changes and before all later ones. An `as_of` includes the whole millisecond that it names,
     * and a change takes less than one: so the millisecond has passed when this resolves.
     */
    async aMomentLater(): Promise<string> {
      // Events have the times of the log's clock; the gateway refuses a time that the system's clock has not reached.
      const clocks = [Date.now, wallClock];
      const moment = Math.floor(Math.max(...clocks.map((clock) => clock()))) + 1;
      while (Math.min(...clocks.map((clock) => clock())) < moment + 1) {
        await new Promise((resolve) => setImmediate(resolve));
      }
      return new Date(moment).toISOString();
    },
  };
}
