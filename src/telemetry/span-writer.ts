/**
 * Spans in the wire format of OTLP (`ScopeSpans.spans` of opentelemetry/proto/trace/v1/trace.proto): each once, as it ends.
 * OpenTelemetry's own serialiser needs spans as objects, visits each of them twice, and takes ten times as long.
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
/** Bytes of a span without its texts, and of an attribute. */
const FIXED_BYTES = 128;
const UINT32 = 2 ** 32;

/** Names of attributes are few: each as the member `key` of its message. */
const keys = new Map<string, Buffer>();

function keyOf(name: string): Buffer {
  let key = keys.get(name);
  if (key === undefined) {
    const bytes = Buffer.from(name);
    key = Buffer.concat([Buffer.from([0x0a, bytes.length]), bytes]);
    keys.set(name, key);
  }
  return key;
}

function varintBytes(value: number): number {
  let bytes = 1;
  for (let rest = value; rest >= 128; rest = Math.floor(rest / 128)) bytes++;
  return bytes;
}

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
    this.#tag(0x12);
    // A length below 16 KiB: longer ones move the span.
    const start = this.#at + 2;
    this.#at = start;
    this.#id(0x0a, span.traceId);
    this.#id(0x12, span.spanId);
    if (span.state !== undefined) this.text(0x1a, span.state);
    if (span.parentSpanId !== undefined) this.#id(0x22, span.parentSpanId);
    this.text(0x2a, span.name);
    this.#tag(0x30);
    this.#varint(kinds[span.kind]);
    this.#time(0x39, span.from);
    this.#time(0x41, span.to);
    this.#attribute(0x4a, 'chancery.exchange.id', span.exchangeId);
    this.attributes(0x4a, span.attributes);
    if (span.isFailed) this.#bytes(0x7a, 0x02, 0x18, 0x02);
    this.#bytes(0x85, 0x01, 0x01, span.hasRemoteParent ? 0x03 : 0x01, 0x00, 0x00);
    this.#close(start);
  }

  /** As a repeated member of a message. */
  attributes(tag: number, attributes: Attributes): void {
    for (const name in attributes) this.#attribute(tag, name, attributes[name]);
  }

  /** Writes the length of what begins at `start` into the two bytes before it. */
  #close(start: number): void {
    const length = this.#at - start;
    const more = varintBytes(length) - 2;
    if (more > 0) {
      this.#room(more);
      this.#buffer.copyWithin(start + more, start, this.#at);
      this.#at += more;
    }
    const end = this.#at;
    this.#at = start - 2;
    if (more < 0) this.#bytes(length | 0x80, 0x00);
    else this.#varint(length);
    this.#at = end;
  }

  #attribute(tag: number, name: string, value: Value): void {
    if (value === undefined || value === null) return;
    const key = keyOf(name);
    const bytes = valueBytes(value);
    this.#room(FIXED_BYTES + key.length + bytes);
    this.#tag(tag);
    this.#varint(key.length + 1 + varintBytes(bytes) + bytes);
    this.#at += key.copy(this.#buffer, this.#at);
    this.#tag(0x12);
    this.#varint(bytes);
    this.#value(value);
  }

  /** A message `AnyValue`. */
  #value(value: NonNullable<Value>): void {
    if (typeof value === 'string') this.text(0x0a, value);
    else if (typeof value === 'boolean') this.#bytes(0x10, Number(value));
    else if (typeof value !== 'number') {
      this.#tag(0x2a);
      this.#varint(listBytes(value));
      for (const text of value) {
        this.#tag(0x0a);
        this.#varint(valueBytes(text));
        this.text(0x0a, text);
      }
    } else if (isCount(value)) {
      this.#tag(0x18);
      this.#varint(value);
    } else {
      this.#tag(0x21);
      this.#at = this.#buffer.writeDoubleLE(value, this.#at);
    }
  }

  text(tag: number, text: string): void {
    const length = textBytes(text);
    this.#room(FIXED_BYTES + length);
    this.#tag(tag);
    this.#varint(length);
    if (length > SHORT || length !== text.length) this.#at += this.#buffer.write(text, this.#at);
    else for (let place = 0; place < length; place++) this.#buffer[this.#at++] = text.charCodeAt(place);
  }

  #id(tag: number, id: string): void {
    this.#room(FIXED_BYTES);
    this.#tag(tag);
    this.#varint(id.length / 2);
    this.#at += this.#buffer.write(id, this.#at, 'hex');
  }

  /** In nanoseconds; the fraction of a microsecond is not exact. */
  #time(tag: number, ms: number): void {
    const ns = Math.round(ms * 1e6);
    const low = ns % UINT32;
    this.#room(FIXED_BYTES);
    this.#tag(tag);
    this.#at = this.#buffer.writeUInt32LE(low, this.#at);
    this.#at = this.#buffer.writeUInt32LE((ns - low) / UINT32, this.#at);
  }

  #tag(tag: number): void {
    this.#room(FIXED_BYTES);
    this.#buffer[this.#at++] = tag;
  }

  #bytes(...bytes: readonly number[]): void {
    this.#room(FIXED_BYTES);
    for (const byte of bytes) this.#buffer[this.#at++] = byte;
  }

  #varint(value: number): void {
    let rest = value;
    for (; rest >= 128; rest = Math.floor(rest / 128)) this.#buffer[this.#at++] = (rest % 128) | 0x80;
    this.#buffer[this.#at++] = rest;
  }

  #room(bytes: number): void {
    if (this.#at + bytes <= this.#buffer.length) return;
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

const isCount = (value: number) => Number.isSafeInteger(value) && value >= 0;

/** Short texts of ASCII are counted and written here: for these, a call of a native function takes longer. */
const SHORT = 64;

function textBytes(text: string): number {
  if (text.length > SHORT) return Buffer.byteLength(text);
  for (let place = 0; place < text.length; place++) if (text.charCodeAt(place) > 0x7f) return Buffer.byteLength(text);
  return text.length;
}

/** Of a message `AnyValue`. */
function valueBytes(value: NonNullable<Value>): number {
  if (typeof value === 'boolean') return 2;
  if (typeof value === 'number') return isCount(value) ? 1 + varintBytes(value) : 9;
  const bytes = typeof value === 'string' ? textBytes(value) : listBytes(value);
  return 1 + varintBytes(bytes) + bytes;
}

function listBytes(texts: readonly string[]): number {
  let sum = 0;
  for (const text of texts) {
    const bytes = valueBytes(text);
    sum += 1 + varintBytes(bytes) + bytes;
  }
  return sum;
}
