import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type Position, type RecordedEvent, streamName, type UserPath } from '../../src/events/event.ts';
import { eventToCloudEvent, eventToJson, isoTime } from '../../src/events/event-json.ts';

const plain: RecordedEvent = {
  id: 'id',
  type: 'request.received',
  schema: 1,
  stream: streamName('exchange', 'a'),
  revision: 2n ** 60n,
  position: '0000000000000001' as Position,
  at: Date.UTC(2026, 0, 31, 12) + 0.25,
  context: { actor: 'master' },
  data: { a: 1 },
};

const throughJson = (event: RecordedEvent) => JSON.parse(JSON.stringify(eventToJson(event)));

describe('an event as JSON', () => {
  test('has the members of the event, and no others', () => {
    expect(throughJson(plain)).toEqual({
      id: 'id',
      type: 'request.received',
      schema: 1,
      stream: 'exchange-a',
      revision: '1152921504606846976',
      position: '0000000000000001',
      at: '2026-01-31T12:00:00.000250Z',
      actor: 'master',
      data: { a: 1 },
    });
  });

  test('keeps every digit of a 64-bit position, also as a CloudEvent', () => {
    const largest = { ...plain, position: String(2n ** 64n - 1n) as Position };
    expect(throughJson(largest).position).toBe('18446744073709551615');
    const cloudEvent = JSON.parse(JSON.stringify(eventToCloudEvent(largest, 'file:log')));
    expect(cloudEvent.sequence).toBe('18446744073709551615');
  });

  test('has its context beside the rest', () => {
    const context = {
      actor: 'key:k' as const,
      userPath: '/team' as UserPath,
      requestId: 'r',
      correlationId: 'c',
      causationId: 'e',
      traceparent: 't',
    };
    expect(throughJson({ ...plain, context })).toMatchObject(context);
  });

  test('keeps any body, byte for byte', () => {
    fc.assert(
      fc.property(
        fc.oneof(
          fc.uint8Array(),
          fc.string().map((text) => new TextEncoder().encode(text)),
        ),
        (body) => {
          const json = throughJson({ ...plain, body });
          expect('body' in json).not.toBe('body_base64' in json);
          const back = 'body' in json ? Buffer.from(json.body, 'utf8') : Buffer.from(json.body_base64, 'base64');
          expect(Buffer.compare(back, body)).toBe(0);
        },
      ),
    );
  });

  test('an empty body is not the same as none', () => {
    expect(throughJson({ ...plain, body: new Uint8Array() })).toHaveProperty('body', '');
  });

  test('times are exact to the microsecond below, and sort as text', () => {
    const at = fc.integer({ min: 0, max: 4_102_444_800_000 });
    const fraction = fc.integer({ min: 0, max: 999 });
    fc.assert(
      fc.property(at, fraction, (whole, thousandths) => {
        const text = isoTime(whole + (thousandths + 0.4) / 1000);
        expect(Date.parse(text)).toBe(whole);
        expect(text).toMatch(new RegExp(`${String(thousandths).padStart(3, '0')}Z$`));
      }),
    );
  });
});
