/**
 * The load generator: a closed loop over keep-alive connections, in a process of its own. Each connection asks again
 * as soon as it has the whole answer, or when its time has come. Started by `run.ts` with an IPC channel, or by hand:
 *
 *   node bench/load.ts '{"url":"http://127.0.0.1:4010/v1/chat/completions","body":"{…}","connections":10,"seconds":3,"expect":"json"}'
 */
import { connect, type Socket } from 'node:net';
import { Histogram } from './histogram.ts';
import { HttpAnswers } from './http-answers.ts';

export interface Load {
  readonly url: string;
  readonly body: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly connections: number;
  /** Counted, after `warmUpSeconds` that are not. */
  readonly seconds: number;
  readonly warmUpSeconds?: number;
  /**
   * Requests per second of all connections together, each at its time. A connection whose answer comes late asks at
   * once, and latencies count from the time at which it was to ask. Default: as soon as there is an answer.
   */
  readonly perSecond?: number;
  /** `json`: the body is one JSON object. `chat-sse` ends in `[DONE]`, `responses-sse` has `response.completed`. */
  readonly expect: 'json' | 'chat-sse' | 'responses-sse';
}

export interface LoadResult {
  /** Answers that were whole and right, in the time that counts. */
  readonly answers: number;
  /** All of them, from the first request to the last. */
  readonly total: number;
  readonly perSecond: number;
  readonly latencyMs: Quantiles;
  /** Until the first byte of the first `data:` line; streams only. */
  readonly firstDataMs: Quantiles | null;
  readonly bytes: number;
  /** How often what went wrong. */
  readonly failures: Readonly<Record<string, number>>;
}

export interface Quantiles {
  readonly p50: number;
  readonly p90: number;
  readonly p99: number;
  readonly max: number;
}

/** How long an answer may take after the counting has ended. */
const PATIENCE_MS = 15_000;

export async function runLoad(load: Load): Promise<LoadResult> {
  const url = new URL(load.url);
  const request = requestBytes(url, load);
  const latency = new Histogram();
  const firstData = new Histogram();
  const failures: Record<string, number> = {};
  let bytes = 0;
  let total = 0;
  const started = performance.now();
  const countFrom = started + (load.warmUpSeconds ?? 0) * 1000;
  const countTo = countFrom + load.seconds * 1000;

  function connection(index: number): Promise<void> {
    let asked = 0;
    /** When it is to ask next. */
    const dueAt = () => {
      if (load.perSecond === undefined) return Number.POSITIVE_INFINITY;
      return started + ((index + load.connections * asked) / load.perSecond) * 1000;
    };
    return new Promise((finished) => {
      let socket: Socket;
      let sentAt = 0;
      let status = 0;
      let dataAt = 0;
      let pieces: Buffer[] = [];
      const answers = new HttpAnswers({
        onHead: (code) => {
          status = code;
        },
        onBody: (piece) => {
          if (dataAt === 0 && piece.includes('data:')) dataAt = performance.now();
          pieces.push(piece);
        },
        onEnd: () => {
          const now = performance.now();
          const fault = faultOf(status, pieces, load.expect);
          if (fault !== undefined) fail(fault);
          else total++;
          if (fault === undefined && now >= countFrom && now < countTo) {
            latency.record(now - sentAt);
            if (load.expect !== 'json') firstData.record(dataAt - sentAt);
            for (const piece of pieces) bytes += piece.length;
          }
          if (now < countTo) sendInTime();
          else socket.end();
        },
      });
      const sendInTime = () => {
        const early = load.perSecond === undefined ? 0 : dueAt() - performance.now();
        if (early < 1) send();
        else setTimeout(() => (performance.now() < countTo ? send() : socket.end()), early);
      };
      const send = () => {
        pieces = [];
        dataAt = 0;
        sentAt = Math.min(dueAt(), performance.now());
        asked += 1;
        socket.write(request);
      };
      const fail = (reason: string) => {
        failures[reason] = (failures[reason] ?? 0) + 1;
      };
      socket = connect({ host: url.hostname, port: Number(url.port), noDelay: true }, sendInTime);
      socket.on('data', (piece: Buffer) => {
        try {
          answers.take(piece);
        } catch (error) {
          fail(String(error));
          socket.destroy();
        }
      });
      socket.on('error', (error) => fail(error.message));
      const patience = setTimeout(
        () => {
          fail('no answer in time');
          socket.destroy();
        },
        countTo - performance.now() + PATIENCE_MS,
      );
      socket.on('close', () => {
        clearTimeout(patience);
        if (performance.now() < countTo) fail('the connection was closed early');
        finished();
      });
    });
  }

  await Promise.all(Array.from({ length: load.connections }, (_, index) => connection(index)));
  return {
    answers: latency.count,
    total,
    perSecond: latency.count / load.seconds,
    latencyMs: quantiles(latency),
    firstDataMs: load.expect === 'json' ? null : quantiles(firstData),
    bytes,
    failures,
  };
}

function requestBytes(url: URL, { body, headers = {} }: Load): Buffer {
  const lines = [
    `POST ${url.pathname} HTTP/1.1`,
    `host: ${url.host}`,
    'content-type: application/json',
    ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`),
    `content-length: ${Buffer.byteLength(body)}`,
  ];
  return Buffer.from(`${lines.join('\r\n')}\r\n\r\n${body}`);
}

/** What is wrong with an answer; undefined when it is whole. */
function faultOf(status: number, pieces: readonly Buffer[], expect: Load['expect']): string | undefined {
  if (status !== 200) return `status ${status}`;
  const last = pieces.at(-1);
  if (last === undefined) return 'an empty answer';
  if (expect === 'json') return last[last.length - 1] === 0x7d /* } */ ? undefined : 'a JSON answer that is not whole';
  const marker = expect === 'chat-sse' ? 'data: [DONE]' : 'event: response.completed';
  if (pieces.slice(-3).some((piece) => piece.includes(marker))) return undefined;
  return Buffer.concat(pieces).includes(marker) ? undefined : `a stream without ${marker}`;
}

function quantiles(histogram: Histogram): Quantiles {
  return {
    p50: histogram.quantile(0.5),
    p90: histogram.quantile(0.9),
    p99: histogram.quantile(0.99),
    max: histogram.max,
  };
}

if (import.meta.main) {
  const byHand = process.argv[2];
  if (byHand !== undefined) console.log(JSON.stringify(await runLoad(JSON.parse(byHand) as Load), null, 2));
  else process.on('message', async (load: Load) => process.send?.(await runLoad(load)));
}
