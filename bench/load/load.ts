/**
 * The load generator, in a process of its own: keep-alive connections, each of which sends its next request as soon as
 * it has the whole answer, or at its due time. It has to cost far less than what it measures: raw sockets, request
 * bytes made once, one read buffer for all. Started with an IPC channel (`load-process.ts`), or by hand:
 *
 *   node bench/load/load.ts '{"url":"http://127.0.0.1:4010/json/v1/chat/completions","body":"{…}","connections":10,"seconds":3,"expect":{"end":"}"}}'
 */
import { connect, type Socket } from 'node:net';
import { STAMP_DIGITS, STAMP_MARK } from '../upstream/canned.ts';
import { BodyCheck, type Expected } from './expected.ts';
import { Histogram } from './histogram.ts';
import { HttpAnswers } from './http-answers.ts';

export interface Load {
  readonly url: string;
  readonly body: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly connections: number;
  /** Measured, after `warmUpSeconds` that are not counted. */
  readonly seconds: number;
  readonly warmUpSeconds?: number;
  /** Over which the connections are opened, one after the other. Default: at once. */
  readonly rampSeconds?: number;
  /**
   * Requests per second of all connections together, each at its due time. A connection whose answer comes late sends
   * its next request at once, and latencies count from the due time. Default: as soon as there is an answer.
   */
  readonly perSecond?: number;
  readonly expect: Expected;
  /** Times the first data of each answer. */
  readonly stream?: boolean;
  /** Reads the times that the upstream wrote into the stream. */
  readonly stamped?: boolean;
}

export interface LoadResult {
  /** Complete and correct answers in the measured time. */
  readonly answers: number;
  /** All of them, from the first request to the last. */
  readonly total: number;
  readonly perSecond: number;
  readonly latencyMs: Quantiles;
  /** Until the first byte of the first `data:` line; streams only. */
  readonly firstDataMs: Quantiles | null;
  /** From the upstream's write of a word to its arrival; stamped streams only. */
  readonly wordMs: Quantiles | null;
  readonly bytes: number;
  /** Number of failures by reason. */
  readonly failures: Readonly<Record<string, number>>;
}

export interface Quantiles {
  readonly count: number;
  readonly p50: number;
  readonly p90: number;
  readonly p99: number;
  readonly max: number;
}

/** How long an answer may take after the measured time. */
const TIMEOUT_MS = 15_000;
const MARK = STAMP_MARK.charCodeAt(0);
/** Each read is processed before the next one. */
const readBuffer = Buffer.allocUnsafeSlow(256 * 1024);

export async function runLoad(load: Load): Promise<LoadResult> {
  const url = new URL(load.url);
  const request = requestBytes(url, load);
  const latency = new Histogram();
  const firstData = new Histogram();
  const words = new Histogram();
  const failures: Record<string, number> = {};
  let bytes = 0;
  let total = 0;
  const started = performance.now();
  const countFrom = started + (load.warmUpSeconds ?? 0) * 1000;
  const countTo = countFrom + load.seconds * 1000;
  const counts = (now: number) => now >= countFrom && now < countTo;
  const fail = (reason: string) => {
    failures[reason] = (failures[reason] ?? 0) + 1;
  };

  function connection(index: number): Promise<void> {
    let requests = 0;
    /** When its next request is due. */
    const dueAt = () => {
      if (load.perSecond === undefined) return Number.POSITIVE_INFINITY;
      return started + ((index + load.connections * requests) / load.perSecond) * 1000;
    };
    return new Promise((finished) => {
      let socket: Socket;
      let sentAt = 0;
      let status = 0;
      let dataAt = 0;
      /** Whether a request was sent whose answer has not ended. */
      let waits = false;
      const check = new BodyCheck(load.expect);
      const answers = new HttpAnswers({
        onHead: (code) => {
          status = code;
        },
        onBody: (buffer, from, to) => {
          if (load.stream === true && dataAt === 0) {
            const at = buffer.indexOf('data:', from);
            if (at !== -1 && at < to) dataAt = performance.now();
          }
          if (load.stamped === true) recordWords(buffer, from, to);
          check.take(buffer, from, to);
        },
        onEnd: () => {
          waits = false;
          const now = performance.now();
          const fault = status === 200 ? check.fault() : `status ${status}`;
          if (fault !== undefined) fail(fault);
          else {
            total++;
            if (counts(now)) {
              latency.record(now - sentAt);
              if (load.stream === true) firstData.record(dataAt - sentAt);
              bytes += check.length;
            }
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
        check.reset();
        dataAt = 0;
        sentAt = Math.min(dueAt(), performance.now());
        requests += 1;
        waits = true;
        socket.write(request);
      };
      const onRead = (length: number) => {
        try {
          answers.take(readBuffer.subarray(0, length));
        } catch (error) {
          waits = false;
          fail(String(error));
          socket.destroy();
        }
        return true;
      };
      socket = connect(
        {
          host: url.hostname,
          port: Number(url.port),
          noDelay: true,
          onread: { buffer: readBuffer, callback: onRead },
        },
        sendInTime,
      );
      socket.on('error', (error) => {
        waits = false;
        fail(error.message);
      });
      const patience = setTimeout(
        () => {
          waits = false;
          fail('no answer in time');
          socket.destroy();
        },
        countTo - performance.now() + TIMEOUT_MS,
      );
      socket.on('close', () => {
        clearTimeout(patience);
        // Also after the measured time: an answer that breaks off then is a failure too.
        if (waits || performance.now() < countTo) fail('the connection was closed early');
        finished();
      });
    });
  }

  function recordWords(buffer: Buffer, from: number, to: number): void {
    if (!counts(performance.now())) return;
    const now = Number(process.hrtime.bigint()) / 1e6;
    for (let at = buffer.indexOf(MARK, from); at !== -1 && at < to; at = buffer.indexOf(MARK, at + STAMP_DIGITS)) {
      let micros = 0;
      for (let digit = at + 1; digit <= at + STAMP_DIGITS; digit++) micros = micros * 10 + (buffer[digit] ?? 48) - 48;
      words.record(Math.max(0, now - micros / 1000));
    }
  }

  const ramp = ((load.rampSeconds ?? 0) * 1000) / load.connections;
  const opened = async (index: number) => {
    if (ramp > 0) await new Promise((resolve) => setTimeout(resolve, index * ramp));
    await connection(index);
  };
  await Promise.all(Array.from({ length: load.connections }, (_, index) => opened(index)));
  return {
    answers: latency.count,
    total,
    perSecond: latency.count / load.seconds,
    latencyMs: quantiles(latency),
    firstDataMs: load.stream === true ? quantiles(firstData) : null,
    wordMs: load.stamped === true ? quantiles(words) : null,
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

function quantiles(histogram: Histogram): Quantiles {
  return {
    count: histogram.count,
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
