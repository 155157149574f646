/**
 * Spans in the wire format of OTLP (`ScopeSpans.spans` of opentelemetry/proto/trace/v1/trace.proto): each once, as it ends.
 * OpenTelemetry's own serialiser needs spans as objects and visits each of them twice.
 */

type Value = string | number | boolean | readonly string[] | null | undefined;

/** Values that are null or undefined are left out. */
export type Attributes = Readonly<Record<string, Value>>;

export interface Span {
  readonly traceId: string;
  readonly spanId: string;
  /** Undefined for the first of a trace. */
  readonly parentSpanId: string | undefined;
  readonly hasRemoteParent: boolean;
  readonly state: string | undefined;
  readonly name: string;
  readonly kind: 'internal' | 'server' | 'client';
  /** Milliseconds since the epoch, with fractions. */
  readonly from: number;
  readonly to: number;
  readonly isFailed: boolean;
  readonly exchangeId: string;
  readonly attributes: Attributes;
}

const kinds = { internal: 1, server: 2, client: 3 };
/** At least what a member without its text takes. */
const MEMBER_BYTES = 32;
/** Longer texts, and those with other characters, are written by a native function; for short ones a call takes longer. */
const SHORT = 64;
const UINT32 = 2 ** 32;

export class SpanWriter {
  #buffer: Buffer;
  #at = 0;
  count = 0;

  constructor(bytes = 64 * 1024) {
    this.#buffer = Buffer.allocUnsafe(bytes);
  }

  /** Of all spans so far. */
  get bytes(): Buffer {
    return this.#buffer.subarray(0, this.#at);
  }

  add(span: Span): void {
    this.count++;
    const start = this.#begin(0x12);
    this.#id(0x0a, span.traceId);
    this.#id(0x12, span.spanId);
    if (span.state !== undefined) this.text(0x1a, span.state);
    if (span.parentSpanId !== undefined) this.#id(0x22, span.parentSpanId);
    this.text(0x2a, span.name);
    this.#bytes(0x30, kinds[span.kind]);
    this.#time(0x39, span.from);
    this.#time(0x41, span.to);
    this.#attribute(0x4a, 'chancery.exchange.id', span.exchangeId);
    this.attributes(0x4a, span.attributes);
    if (span.isFailed) this.#bytes(0x7a, 0x02, 0x18, 0x02);
    this.#bytes(0x85, 0x01, 0x01, span.hasRemoteParent ? 0x03 : 0x01, 0x00, 0x00);
    this.#end(start);
  }

  /** As a repeated member of a message. */
  attributes(tag: number, attributes: Attributes): void {
    for (const name in attributes) this.#attribute(tag, name, attributes[name]);
  }

  text(tag: number, text: string): void {
    const start = this.#begin(tag);
    this.#room(3 * text.length);
    if (!this.#isWritten(text)) this.#at = start + this.#buffer.write(text, start);
    this.#end(start);
  }

  /** Writes a short text of ASCII. @returns whether it was one */
  #isWritten(text: string): boolean {
    if (text.length > SHORT) return false;
    const buffer = this.#buffer;
    let at = this.#at;
    for (let place = 0; place < text.length; place++) {
      const code = text.charCodeAt(place);
      if (code >= 0x80) return false;
      buffer[at++] = code;
    }
    this.#at = at;
    return true;
  }

  #attribute(tag: number, name: string, value: Value): void {
    if (value === undefined || value === null) return;
    const start = this.#begin(tag);
    this.text(0x0a, name);
    const inner = this.#begin(0x12);
    if (typeof value === 'string') this.text(0x0a, value);
    else if (typeof value === 'boolean') this.#bytes(0x10, Number(value));
    else if (typeof value === 'number') this.#number(value);
    else {
      const list = this.#begin(0x2a);
      for (const text of value) {
        const one = this.#begin(0x0a);
        this.text(0x0a, text);
        this.#end(one);
      }
      this.#end(list);
    }
    this.#end(inner);
    this.#end(start);
  }

  #number(value: number): void {
    if (Number.isSafeInteger(value) && value >= 0) {
      this.#bytes(0x18);
      this.#varint(value);
    } else {
      this.#bytes(0x21);
      this.#at = this.#buffer.writeDoubleLE(value, this.#at);
    }
  }

  #id(tag: number, id: string): void {
    const start = this.#begin(tag);
    this.#at += this.#buffer.write(id, this.#at, 'hex');
    this.#end(start);
  }

  /** In nanoseconds; the fraction of a microsecond is not exact. */
  #time(tag: number, ms: number): void {
    const ns = Math.round(ms * 1e6);
    const low = ns % UINT32;
    this.#bytes(tag);
    this.#at = this.#buffer.writeUInt32LE(low, this.#at);
    this.#at = this.#buffer.writeUInt32LE((ns - low) / UINT32, this.#at);
  }

  /** Begins a member whose length `#end` writes, into the byte before it or, after moving it, into several. */
  #begin(tag: number): number {
    this.#room(0);
    this.#buffer[this.#at] = tag;
    this.#at += 2;
    return this.#at;
  }

  #end(start: number): void {
    const length = this.#at - start;
    let more = 0;
    for (let rest = length; rest >= 128; rest >>>= 7) more++;
    if (more > 0) {
      this.#room(more);
      this.#buffer.copyWithin(start + more, start, this.#at);
    }
    this.#at = start - 1;
    this.#varint(length);
    this.#at += length;
  }

  #bytes(...bytes: readonly number[]): void {
    this.#room(0);
    for (const byte of bytes) this.#buffer[this.#at++] = byte;
  }

  #varint(value: number): void {
    let rest = value;
    for (; rest >= 128; rest = Math.floor(rest / 128)) this.#buffer[this.#at++] = (rest % 128) | 0x80;
    this.#buffer[this.#at++] = rest;
  }

  #room(bytes: number): void {
    if (this.#at + bytes + MEMBER_BYTES <= this.#buffer.length) return;
    const larger = Buffer.allocUnsafe(2 * (this.#buffer.length + bytes));
    this.#buffer.copy(larger, 0, 0, this.#at);
    this.#buffer = larger;
  }
}

/** A whole `ExportTraceServiceRequest`, of one service. */
export function spanRequest(resource: Attributes, version: string, spans: Buffer): Buffer {
  const service = new SpanWriter(1024);
  service.attributes(0x0a, resource);
  const scope = new SpanWriter(256);
  scope.text(0x0a, 'chancery');
  scope.text(0x12, version);
  return message(0x0a, message(0x0a, service.bytes), message(0x12, message(0x0a, scope.bytes), spans));
}

function message(tag: number, ...parts: readonly Buffer[]): Buffer {
  const head = [tag];
  let rest = parts.reduce((sum, { length }) => sum + length, 0);
  for (; rest >= 128; rest = Math.floor(rest / 128)) head.push((rest % 128) | 0x80);
  return Buffer.concat([Buffer.from([...head, rest]), ...parts]);
}
