import type { KafkaMessage } from 'kafkajs';
import { describe, expect, it } from 'vitest';
import { PreparedAppend } from '../../../src/events/embedded/append-batch.ts';
import { type NewEvent, type StreamName, streamName } from '../../../src/events/event.ts';
import { AppendAssembler, messagesOf } from '../../../src/events/kafka/kafka-records.ts';
import { frameAppend } from '../../../src/events/replicated/append-frame.ts';
import type { SequencedAppend } from '../../../src/events/replicated/engine.ts';
import { append, appends, barrier } from '../eventstore/appends.ts';

const source = 'kafka:///log';
const large = append({ number: 1, bodies: [5_000] });

function recordsOf(call: string): Pick<KafkaMessage, 'value' | 'headers'>[] {
  return messagesOf([large], { call, maxBatchBytes: 2_000, source }).map(({ value, headers = {} }) => ({
    value: Buffer.from(value ?? ''),
    headers,
  }));
}

/** The records of the appends in one call. */
function sent(all: readonly SequencedAppend[], maxBatchBytes = 1_000_000) {
  return messagesOf(all, { call: 'a1b2-1', maxBatchBytes, source });
}

function received(all: readonly SequencedAppend[], maxBatchBytes?: number): SequencedAppend[] {
  return read(
    sent(all, maxBatchBytes).map(({ value, headers = {} }) => ({ value: Buffer.from(value ?? ''), headers })),
  );
}

function appendOf(events: readonly NewEvent[], stream: StreamName = streamName('thing', 'a')): SequencedAppend {
  const prepared = new PreparedAppend([{ stream, events, expectedRevision: 'any' }], 1_000_000);
  return { ...append({ number: 1 }), writes: prepared.writes, records: prepared.records };
}

function event(more: Partial<NewEvent> = {}): NewEvent {
  return { type: 'thing.noted', schema: 1, data: {}, context: { actor: 'system' }, ...more };
}

function read(records: readonly Pick<KafkaMessage, 'value' | 'headers'>[]) {
  const assembler = new AppendAssembler();
  return records.flatMap((record, index) => {
    const message = { key: null, timestamp: '0', attributes: 0, offset: String(index), ...record } as KafkaMessage;
    return [...assembler.add(message)];
  });
}

describe('the parts of an append on Kafka', () => {
  const first = recordsOf('a1b2-9');
  const second = recordsOf('a1b2-10');

  it('complete it, when a call that was given up arrives between the parts of its repetition', () => {
    const [begin, ...rest] = second;
    const [late] = first;
    if (begin === undefined || late === undefined) throw new Error('no parts');
    expect(rest.length).toBeGreaterThan(1);
    expect(read([begin, late, ...rest])).toEqual([large]);
  });

  it('complete it, when its repetition follows parts of a call that was given up', () => {
    expect(read([...first.slice(0, 2), ...second])).toEqual([large]);
  });
});

describe('the records of appends on Kafka', () => {
  it('have one record for the appends of a call, with the first and their number as headers', () => {
    const all = [...appends(1, 20), barrier(21), append({ number: 22, bodies: [1, 2, 3] })];
    const [record, ...further] = sent(all);
    expect(further).toEqual([]);
    expect(record?.headers).toEqual({ append: `${all[0]?.writer}/1`, appends: '22' });
    expect(record?.key).toBeNull();
    expect(received(all)).toEqual(all);
  });

  it('have the stream of the first write as key when they have one append; one without writes has none', () => {
    const keyOf = (one: SequencedAppend) => sent([one])[0]?.key?.toString();
    expect(keyOf(append({ number: 1, stream: 'ünïcode' }))).toBe('thing-ünïcode');
    expect(keyOf(barrier(2))).toBeUndefined();
  });

  it('have the headers of CloudEvents when the append has one event', () => {
    const id = '01939e6c-7a4e-7000-8000-000000000001';
    const one = appendOf([event({ id, at: 1_764_000_000_123.456, type: 'thing.nötiert' })]);
    expect(sent([one])[0]?.headers).toEqual({
      append: `${one.writer}/1`,
      ce_specversion: '1.0',
      ce_id: id,
      ce_source: source,
      ce_type: 'thing.nötiert',
      ce_time: '2025-11-24T16:00:00.123456Z',
      ce_subject: 'thing-a',
      'content-type': 'application/vnd.chancery.append',
    });
  });

  it.each([
    ['two events', appendOf([event(), event()])],
    ['no event', barrier(1)],
    ['an event whose time has no text', appendOf([event({ at: Number.NaN })])],
    ['a long stream name', appendOf([event()], streamName('thing', 'x'.repeat(600)))],
  ])('have no such headers when the append has %s, and are read', (_what, one) => {
    expect(sent([one]).map(({ headers }) => Object.keys(headers ?? {}))).toEqual([['append']]);
    expect(received([one])).toEqual([one]);
  });

  it('are read with one append each, with and without headers', () => {
    const all = [...appends(1, 20), barrier(21), append({ number: 22, bodies: [1, 2, 3] })];
    const older = all.map((one) => ({ value: frameAppend(one), headers: { append: `${one.writer}/${one.number}` } }));
    expect(read(older)).toEqual(all);
    expect(read(older.map(({ value }) => ({ value, headers: {} })))).toEqual(all);
  });

  it.each([
    ['its end is missing', (value: Buffer) => value.subarray(0, -1)],
    ['it ends within the head of an append', (value: Buffer) => value.subarray(0, -frameAppend(barrier(3)).length + 9)],
    ['bytes follow it', (value: Buffer) => Buffer.concat([value, Buffer.alloc(100)])],
    ['a byte of a later append differs', (value: Buffer) => Buffer.from(value).fill(7, value.length - 1)],
  ])('are refused as a whole when %s', (_what, damage) => {
    const [record] = sent([append({ number: 1 }), append({ number: 2 }), barrier(3)]);
    const value = Buffer.from(record?.value ?? '');
    expect(read([{ value, headers: {} }])).toHaveLength(3);
    expect(() => read([{ value: damage(value), headers: {} }])).toThrow('record 0 of the topic: ');
  });

  it('name the record and a way that works when one is damaged', () => {
    const value = Buffer.from(sent([append({ number: 1 })])[0]?.value ?? '');
    value.writeUInt8(value.readUInt8(60) ^ 1, 60);
    expect(() => read([{ value, headers: {} }])).toThrow(
      'record 0 of the topic: an append is damaged. A gateway that has everything goes on until it is restarted; its log ' +
        'can be copied to another topic: chancery log copy',
    );
  });

  it('are ignored when their parts complete something that is no append', () => {
    const part = (index: number, text: string) => ({
      value: Buffer.from(text),
      headers: { append: 'x/1', part: `foreign/${index}/2` },
    });
    expect(read([part(0, 'the first half '.repeat(9)), part(1, 'the second half'), ...recordsOf('a-1')])).toEqual([
      large,
    ]);
  });

  it('are several when the appends do not fit into one, in the order of the appends', () => {
    const all = [...appends(1, 5), large, ...appends(6, 10)].map((one, index) => ({ ...one, number: index + 1 }));
    const records = sent(all, 2_000);
    expect(
      records.map(({ headers }) => Object.keys(headers ?? {}).filter((name) => !name.startsWith('ce_'))),
    ).toContainEqual(['append', 'part']);
    expect(records.length).toBeGreaterThan(4);
    expect(received(all, 2_000)).toEqual(all);
  });

  it('fit into a batch of the broker together, with keys and headers', () => {
    const stream = streamName('thing', 'ü'.repeat(250));
    const all = Array.from({ length: 60 }, (_, index) => ({ ...appendOf([event()], stream), number: index + 1 }));
    const records = sent(all, 4_000);
    expect(records.length).toBeGreaterThan(1);
    for (const { key, value, headers } of [...records, ...all.flatMap((one) => sent([one], 4_000))]) {
      let bytes = Buffer.byteLength(key ?? '') + Buffer.byteLength(value ?? '');
      for (const [name, text] of Object.entries(headers ?? {})) bytes += Buffer.byteLength(`${name}${text}`);
      expect(bytes).toBeLessThanOrEqual(4_000);
    }
    expect(received(all, 4_000)).toEqual(all);
  });
});
