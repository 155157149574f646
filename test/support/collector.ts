/** A collector of OpenTelemetry for tests: OTLP over HTTP and gRPC, decoded with the published definitions of the protocol. */
import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import { createServer as createSecureServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { gunzipSync } from 'node:zlib';
import { Server, ServerCredentials, type ServiceDefinition, status } from '@grpc/grpc-js';
import definitions from 'otlp-definitions/build/src/generated/root.js';

type Attributes = Readonly<Record<string, unknown>>;

export interface ReceivedSpan {
  readonly traceId: string;
  readonly spanId: string;
  /** Empty for the first of a trace. */
  readonly parentSpanId: string;
  readonly traceState: string;
  readonly name: string;
  readonly kind: number;
  readonly isFailed: boolean;
  /** Nanoseconds since the epoch. */
  readonly start: bigint;
  readonly end: bigint;
  readonly attributes: Attributes;
  readonly resource: Attributes;
  /** Bit 0: sampled; bit 9: the parent is of another program. */
  readonly flags: number;
}

export interface ReceivedPoint {
  readonly metric: string;
  readonly unit: string;
  readonly attributes: Attributes;
  readonly resource: Attributes;
  readonly value: number | undefined;
  readonly histogram:
    | {
        readonly count: number;
        readonly sum: number;
        readonly bounds: readonly number[];
        readonly counts: readonly number[];
      }
    | undefined;
}

export type Collector = Awaited<ReturnType<typeof startCollector>>;

const types = {
  traces: 'opentelemetry.proto.collector.trace.v1.ExportTraceServiceRequest',
  metrics: 'opentelemetry.proto.collector.metrics.v1.ExportMetricsServiceRequest',
};
type Signal = keyof typeof types;

// biome-ignore lint/suspicious/noExplicitAny: the definitions are generated without types of their messages
function decoded(signal: Signal, bytes: Uint8Array): any {
  // biome-ignore lint/suspicious/noExplicitAny: as above
  const type = types[signal].split('.').reduce((all: any, name) => all[name], definitions);
  return type.toObject(type.decode(bytes), { longs: String, defaults: true, arrays: true });
}

/** @param tls with which it listens; clients then need a certificate of the authority `ca` */
export async function startCollector(tls?: { readonly ca: string; readonly cert: string; readonly key: string }) {
  const spans: ReceivedSpan[] = [];
  const points: ReceivedPoint[] = [];
  const headers: Record<string, string>[] = [];
  const waiting = new Set<() => void>();
  /** The status of HTTP that is answered, or `hang`. */
  let fault: number | 'hang' | undefined;

  function take(signal: Signal, bytes: Uint8Array, given: Record<string, string>): void {
    headers.push(given);
    const request = decoded(signal, bytes);
    if (signal === 'traces') spans.push(...request.resourceSpans.flatMap(spansOf));
    else points.push(...request.resourceMetrics.flatMap(pointsOf));
    for (const check of waiting) check();
  }

  const answer: RequestListener = async (request, response) => {
    const sent = await buffer(request);
    if (fault === 'hang') return;
    if (fault !== undefined) {
      response.writeHead(fault).end('no');
      return;
    }
    const bytes = request.headers['content-encoding'] === 'gzip' ? gunzipSync(sent) : sent;
    const signal = request.url?.endsWith('/v1/traces') ? 'traces' : 'metrics';
    take(
      signal,
      bytes,
      Object.fromEntries(Object.entries(request.headers).map(([name, value]) => [name, String(value)])),
    );
    response.writeHead(200, { 'content-type': 'application/x-protobuf' }).end();
  };
  const http =
    tls === undefined
      ? createServer(answer)
      : createSecureServer({ ...tls, requestCert: true, rejectUnauthorized: true }, answer);
  http.listen(0, '127.0.0.1');
  await once(http, 'listening');

  const grpc = new Server();
  for (const signal of ['traces', 'metrics'] as const) {
    const path = `/${types[signal].replace(/\.Export(\w+)ServiceRequest$/, '.$1Service')}/Export`;
    const pass = (bytes: Buffer) => bytes;
    const serialize = {
      requestSerialize: pass,
      requestDeserialize: pass,
      responseSerialize: pass,
      responseDeserialize: pass,
    };
    const service: ServiceDefinition = { Export: { path, requestStream: false, responseStream: false, ...serialize } };
    grpc.addService(service, {
      // biome-ignore lint/suspicious/noExplicitAny: the types of grpc-js know no service without generated code
      Export(call: any, done: any) {
        if (fault !== undefined)
          return fault === 'hang' ? undefined : done({ code: status.UNAVAILABLE, details: 'no' });
        take(signal, call.request, call.metadata.getMap());
        done(null, Buffer.alloc(0));
      },
    });
  }
  const credentials =
    tls === undefined
      ? ServerCredentials.createInsecure()
      : ServerCredentials.createSsl(
          Buffer.from(tls.ca),
          [{ private_key: Buffer.from(tls.key), cert_chain: Buffer.from(tls.cert) }],
          true,
        );
  const scheme = tls === undefined ? 'http' : 'https';
  const grpcPort = await new Promise<number>((resolve, reject) =>
    grpc.bindAsync('127.0.0.1:0', credentials, (error, port) => (error === null ? resolve(port) : reject(error))),
  );

  return {
    url: `${scheme}://127.0.0.1:${(http.address() as AddressInfo).port}`,
    grpcUrl: `${scheme}://127.0.0.1:${grpcPort}`,
    spans,
    points,
    /** Of all requests, in their order. */
    headers,
    /** Resolves with the first value that is not undefined. */
    until<Value>(find: () => Value | undefined): Promise<Value> {
      return new Promise((resolve) => {
        const check = () => {
          const found = find();
          if (found === undefined) return;
          waiting.delete(check);
          resolve(found);
        };
        waiting.add(check);
        check();
      });
    },
    fail(how: number | 'hang' | undefined) {
      fault = how;
    },
    async close() {
      http.closeAllConnections();
      http.close();
      grpc.forceShutdown();
    },
  };
}

/** The spans of a trace, once that of the exchange is there, which is the first of them. */
export async function traceOf(collector: Collector, exchangeId: string) {
  const ofExchange = () =>
    collector.spans.filter(({ attributes }) => attributes['chancery.exchange.id'] === exchangeId);
  const server = await collector.until(() => ofExchange().find(({ kind }) => kind === 2));
  return { server, spans: ofExchange(), named: (name: string) => ofExchange().filter((span) => span.name === name) };
}

// biome-ignore lint/suspicious/noExplicitAny: decoded messages have no types
type Message = any;

const attributesOf = (list: Message): Attributes =>
  Object.fromEntries(list.map(({ key, value }: Message) => [key, plainValue(value)]));

function plainValue(value: Message): unknown {
  if (value.arrayValue != null) return value.arrayValue.values.map(plainValue);
  if (value.intValue != null) return Number(value.intValue);
  return value.stringValue ?? value.boolValue ?? value.doubleValue;
}

const hex = (bytes: Message) => Buffer.from(bytes ?? []).toString('hex');

function spansOf({ resource, scopeSpans }: Message): ReceivedSpan[] {
  return scopeSpans.flatMap(({ spans }: Message) =>
    spans.map((span: Message) => ({
      traceId: hex(span.traceId),
      spanId: hex(span.spanId),
      parentSpanId: hex(span.parentSpanId),
      traceState: span.traceState ?? '',
      name: span.name,
      kind: span.kind,
      isFailed: span.status?.code === 2,
      start: BigInt(span.startTimeUnixNano),
      end: BigInt(span.endTimeUnixNano),
      attributes: attributesOf(span.attributes),
      resource: attributesOf(resource.attributes),
      flags: span.flags,
    })),
  );
}

function pointsOf({ resource, scopeMetrics }: Message): ReceivedPoint[] {
  return scopeMetrics.flatMap(({ metrics }: Message) =>
    metrics.flatMap((metric: Message) => {
      const { dataPoints = [] } = metric.sum ?? metric.gauge ?? metric.histogram ?? {};
      return dataPoints.map((point: Message) => ({
        metric: metric.name,
        unit: metric.unit,
        attributes: attributesOf(point.attributes),
        resource: attributesOf(resource.attributes),
        value: metric.histogram == null ? (point.asDouble ?? Number(point.asInt)) : undefined,
        histogram:
          metric.histogram == null
            ? undefined
            : {
                count: Number(point.count),
                sum: point.sum,
                bounds: point.explicitBounds,
                counts: point.bucketCounts.map(Number),
              },
      }));
    }),
  );
}
