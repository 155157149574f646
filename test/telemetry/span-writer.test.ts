/** Spans in the wire format, read with the published definitions of the protocol. */
import fc from 'fast-check';
import definitions from 'otlp-definitions/build/src/generated/root.js';
import { expect, it } from 'vitest';
import { type Span, SpanWriter, spanRequest } from '../../src/telemetry/span-writer.ts';

const hex = (bytes: number) =>
  fc.uint8Array({ minLength: bytes, maxLength: bytes }).map((all) => Buffer.from(all).toString('hex'));
const text = fc.string({ unit: 'grapheme', maxLength: 300 });
const value = fc.oneof(
  text,
  fc.boolean(),
  fc.nat(),
  fc.maxSafeNat(),
  fc.double({ noNaN: true, noInteger: true }),
  fc.array(text, { maxLength: 5 }),
);
const spans: fc.Arbitrary<Span> = fc.record({
  traceId: hex(16),
  spanId: hex(8),
  parentSpanId: fc.option(hex(8), { nil: undefined }),
  hasRemoteParent: fc.boolean(),
  state: fc.option(text, { nil: undefined }),
  name: text,
  kind: fc.constantFrom('internal', 'server', 'client'),
  from: fc.nat(1e9).map((ms) => 1.7e12 + ms + 0.5),
  to: fc.nat(1e9).map((ms) => 1.8e12 + ms + 0.25),
  isFailed: fc.boolean(),
  exchangeId: text,
  attributes: fc.dictionary(fc.stringMatching(/^[a-z][a-z._]{0,140}$/), value, { maxKeys: 20, noNullPrototype: true }),
});

// biome-ignore lint/suspicious/noExplicitAny: the definitions are generated without types of their messages
const plain = (given: any): unknown =>
  given.arrayValue?.values.map(plain) ??
  given.stringValue ??
  given.boolValue ??
  given.doubleValue ??
  Number(given.intValue);

it('every span is read as it was written', () => {
  // biome-ignore lint/suspicious/noExplicitAny: as above
  const { ExportTraceServiceRequest: type } = (definitions as any).opentelemetry.proto.collector.trace.v1;
  fc.assert(
    fc.property(fc.array(spans, { maxLength: 8 }), (given) => {
      const writer = new SpanWriter(64);
      for (const span of given) writer.add(span);
      expect(writer.count).toBe(given.length);
      const bytes = spanRequest({ 'service.name': 'x', 'process.pid': 7 }, '1.2', writer.bytes);
      const read = type.toObject(type.decode(bytes), { longs: String, arrays: true, oneofs: false });
      const [{ resource, scopeSpans }] = read.resourceSpans;
      expect(resource.attributes).toHaveLength(2);
      expect(scopeSpans[0].scope).toMatchObject({ name: 'chancery', version: '1.2' });
      // biome-ignore lint/suspicious/noExplicitAny: as above
      const found = scopeSpans[0].spans.map((span: any) => ({
        traceId: span.traceId.toString('hex'),
        spanId: span.spanId.toString('hex'),
        parentSpanId: span.parentSpanId?.toString('hex'),
        hasRemoteParent: (span.flags & 0x200) !== 0,
        state: span.traceState,
        name: span.name,
        kind: [undefined, 'internal', 'server', 'client'][span.kind],
        from: Math.round(Number(span.startTimeUnixNano) / 1e4) / 100,
        to: Math.round(Number(span.endTimeUnixNano) / 1e4) / 100,
        isFailed: span.status?.code === 2,
        exchangeId: plain(span.attributes[0].value),
        // biome-ignore lint/suspicious/noExplicitAny: as above
        attributes: Object.fromEntries(span.attributes.slice(1).map(({ key, value }: any) => [key, plain(value)])),
      }));
      expect(found).toEqual(given);
    }),
  );
});
