/**
 * Passes a streamed answer on piece by piece: each piece is recorded, then passed on. A piece reaches the client when
 * the operating system has it; the terminal piece when everything is on disk.
 */
import { chunkReceived, costReserved } from '../../../events/catalogue/exchange.ts';
import { LogUnavailable } from '../../../events/log.ts';
import { ProviderFailure, type ProviderReply } from '../../../providers/provider.ts';
import {
  createSplitter,
  type Frame,
  isFiller,
  streamFormatOf,
  type UnreadFrames,
} from '../../../providers/stream-frames.ts';
import {
  earlyEnd,
  refusalFromFailure,
  streamIncomplete,
  streamTooLarge,
  streamTooLong,
} from '../../model-request/upstream-refusals.ts';
import type { TokenUsage } from '../../model-request/usage.ts';
import { type Refusal, refusals } from '../../refusal.ts';
import type { ExchangeRecord } from '../exchange-record.ts';
import type { Answered, AttemptEnd, AttemptOptions } from '../plan.ts';
import { addPiece, type FrameResult, type GuardrailEnd, joined } from '../response-stream.ts';
import { headersOfAnyProvider } from './answer-headers.ts';

/** Limit of bytes that are recorded and not yet passed on; above it nothing more is read from the provider. */
const HIGH_WATER_BYTES = 256 * 1024;
/** After the end of an answer its provider's connection is closed when the provider has not ended it itself. */
const CLOSE_WITHIN_MS = 1_000;
const NOTHING_MORE: FrameResult = { terminal: true };

export type StreamEnd =
  /** The answer is whole; `rest` is sent to the client once everything is on disk. */
  | { readonly kind: 'streamed'; readonly rest: Buffer[] }
  /** The stream broke after bytes had been sent to the client. `cut`: as of `AttemptEnd`. */
  | { readonly kind: 'broken'; readonly refusal: Refusal; readonly rest: Buffer[]; readonly cut?: boolean }
  /** The stream failed before any byte was sent to the client: the attempt failed, and another may be made. */
  | {
      readonly kind: 'failed';
      readonly refusal: Refusal;
      readonly failure?: ProviderFailure;
      /** The provider sent a whole answer, but it is malformed. */
      readonly malformed?: boolean;
    }
  /** A guardrail ended the answer before any byte was sent to the client. */
  | { readonly kind: 'blocked'; readonly refusal: Refusal; readonly isWhole: boolean }
  /** The client left, or the gateway stops. */
  | { readonly kind: 'abandoned'; readonly rest: Buffer[]; readonly cut?: boolean };

/** An answer that is passed on: of which attempt, and how its head is sent. */
export interface PassedAnswer extends AttemptOptions, Answered {
  readonly reply: ProviderReply;
  readonly headers: Record<string, string>;
  readonly beforeFirstByte: BeforeFirstByte;
}

/**
 * @param closesAfterEnd nothing follows the terminal event. Not so on a provider's own API, where only the provider ends
 * its stream
 * @throws LogUnavailable
 */
export async function passStream(options: PassedAnswer, closesAfterEnd: boolean): Promise<StreamEnd> {
  const { reply, answer, record, client, attempt, received, keepBodies } = options;
  const provider = options.target.provider.name;
  const clientEnded = client.ended;
  const format = streamFormatOf(reply.headers) ?? 'events';
  const splitter = createSplitter(format, { provider });
  /** Guardrails read every frame. */
  const unread = answer.unguarded === answer ? answer.reader.unread : undefined;
  const rest: Buffer[] = [];
  let refusal: Refusal | undefined;
  let failure: ProviderFailure | undefined;
  let guardrail: GuardrailEnd | undefined;
  let terminal = false;
  /** Guardrails evaluate the whole answer. */
  let isEvaluated = false;
  let begun = false;
  /** Some of it was appended. */
  let isAppended = false;
  /** The provider has sent all of it. */
  let hasEnded = false;
  let isSent = false;
  /** What came before the first event is no part of the answer: it is sent with that event, or by the heartbeat. */
  let fillers: Buffer[] | undefined = closesAfterEnd ? [] : undefined;
  let fillerBytes = 0;
  /** Set from the first byte for the client until that byte may be sent. */
  let gate: Promise<void> | undefined;
  let waiting = 0;
  /** Bytes of the provider, also those of an event that is not whole yet. */
  let arrived = 0;
  /** The client's bytes of pieces that were observed and are not yet appended. */
  let forClient: Buffer[] = [];
  /** Observed pieces wait to be appended. */
  let isForwarding = false;
  /** Resolves when everything that was observed has been passed on, or an append has failed. */
  let forwarded: Promise<void> = Promise.resolve();
  let behind: Promise<void> | undefined;
  let lost: unknown;
  let closing: NodeJS.Timeout | undefined;
  /** The stream has reached a limit of the gateway. */
  let isExceeded = false;

  const recordFrames = (frames: readonly (Frame | UnreadFrames)[]): void => {
    for (const frame of frames) {
      if ('ends' in frame) recordRun(frame);
      else recordFrame(frame);
    }
    if (fillerBytes > HIGH_WATER_BYTES) keepOpen();
    if (isForwarding) return;
    isForwarding = true;
    forwarded = forward(forwarded);
  };

  const recordRun = (run: UnreadFrames): void => {
    const { raw, ends } = run;
    const data = { attempt, index: received.chunks };
    record.note(chunkReceived.create(data, record.context, keepBodies ? raw : undefined, ends));
    received.chunks += ends.length;
    received.bytes += raw.length;
    received.firstByteMs ??= record.elapsed();
    if (refusal !== undefined) {
      becomeTerminal();
      return;
    }
    answer.reader.passRun?.(run);
    passLater(raw);
  };

  const recordFrame = (frame: Frame): void => {
    const result = refusal === undefined ? answer.frame(frame) : NOTHING_MORE;
    const data = { attempt, index: received.chunks };
    record.note(chunkReceived.create(data, record.context, keepBodies ? (result.record ?? frame.raw) : undefined));
    received.chunks += 1;
    received.bytes += frame.raw.length;
    const isBefore = fillers !== undefined && isFiller(frame);
    if (!isBefore) received.firstByteMs ??= record.elapsed();
    refusal ??= result.refusal;
    guardrail ??= result.guardrail;
    if (result.terminal) becomeTerminal();
    if (result.bytes === undefined) return;
    if (!isBefore) {
      passLater(result.bytes);
      return;
    }
    fillers?.push(result.bytes);
    fillerBytes += result.bytes.length;
  };

  const becomeTerminal = (): void => {
    if (terminal) return;
    terminal = true;
    // The client waits for its last bytes no longer than this for a provider that keeps the connection open.
    // When one of parallel calls has failed, the others are of no use.
    const isUseless = refusal !== undefined && options.plan.calls !== undefined;
    if (closesAfterEnd) closing = setTimeout(() => reply.body.cancel(), isUseless ? 0 : CLOSE_WITHIN_MS);
  };

  /** Keeps the client's bytes until they are recorded. */
  const passLater = (bytes: Buffer): void => {
    if (!isSent) {
      isSent = true;
      if (options.inputCounted !== undefined) noteInput(answer.reader.usage(), options.inputCounted, record);
    }
    const into = terminal ? rest : forClient;
    if (fillers !== undefined) {
      for (const filler of fillers) addPiece(into, filler);
      if (!terminal) waiting += fillerBytes;
      fillers = undefined;
      fillerBytes = 0;
    }
    addPiece(into, bytes);
    if (!terminal) waiting += bytes.length;
  };

  /**
   * One append and one write for all pieces that arrived in the same read of the socket. Nothing is passed on after a
   * piece whose append failed, also when later appends succeed or fail first. Never rejects.
   */
  const forward = async (before: Promise<void>): Promise<void> => {
    await undefined;
    // An end that came with the last events is noticed by then.
    if (terminal && !isAppended) await undefined;
    isForwarding = false;
    if (isWholeAtOnce()) {
      keepUntilEnd();
      return;
    }
    isAppended = true;
    const bytes = joined(forClient);
    forClient = [];
    let failed: unknown;
    try {
      await record.flush('written');
    } catch (error) {
      failed = error;
    }
    await before;
    try {
      if (failed !== undefined) throw failed;
      if (lost !== undefined || bytes === undefined) return;
      waiting -= bytes.length;
      // Parallel calls may bring the first bytes of one together with the failure of another.
      const hasFailed = refusal !== undefined || (failure !== undefined && !terminal);
      if (hasFailed && options.plan.calls !== undefined && !begun && !clientEnded.aborted) return;
      if (!isGone()) await passOn(bytes);
    } catch (error) {
      lost ??= error;
      reply.body.cancel();
    }
  };

  /** All of an unchanged answer is here before any of it was sent: it is recorded with its end, and sent in one write. */
  const isWholeAtOnce = (): boolean =>
    unread !== undefined && hasEnded && terminal && !isAppended && refusal === undefined;

  const keepUntilEnd = (): void => {
    const last = rest.splice(0);
    for (const bytes of forClient) addPiece(rest, bytes);
    for (const bytes of last) addPiece(rest, bytes);
    forClient = [];
    waiting = 0;
  };

  /** A client whose answer the gateway ends is still connected: it gets the pieces before that end. */
  const isGone = (): boolean => clientEnded.reason === 'client_gone';

  /** Sends in the order of the calls. Before the first byte it waits for `beforeFirstByte`. */
  const passOn = (bytes: Buffer): Promise<void> | undefined => {
    if (!begun) {
      begun = true;
      gate = options.beforeFirstByte().then(() => {
        gate = undefined;
        if (!isGone()) client.begin(reply.status, options.headers);
      });
    }
    heartbeat.sent();
    if (gate !== undefined) return gate.then(() => (isGone() ? undefined : send(bytes)));
    send(bytes);
    return undefined;
  };

  const send = (bytes: Buffer): void => {
    const isDrained = client.write(bytes);
    if (isDrained === undefined) return;
    behind = isDrained;
    void isDrained.then(() => {
      if (behind === isDrained) behind = undefined;
    });
  };

  /** The client waits for the first event; another provider may still be called. */
  const keepOpen = (comment?: Buffer): void => {
    const given = fillerBytes === 0 ? comment : Buffer.concat(fillers ?? []);
    if (fillers !== undefined) fillers = [];
    fillerBytes = 0;
    if (given === undefined || isGone()) return;
    // A new stream: this one may have passed on the provider's own error, which is not sent when the attempt fails.
    const failure = (why: Refusal) => options.plan.newStream(attempt).unguarded.broken(why);
    client.keepOpen(given, { headers: headersOfAnyProvider(options.headers), failure });
    heartbeat.sent();
  };

  const heartbeat = new Heartbeat((comment) => {
    if (terminal && !isEvaluated) return;
    // JSON lines that pass unchanged have no comments.
    if (format === 'lines' && !closesAfterEnd) return;
    if (isGone()) return;
    if (begun || !closesAfterEnd) passOn(comment);
    else keepOpen(comment);
  });

  const exceed = (why: Refusal): void => {
    isExceeded = true;
    refusal ??= why;
    reply.body.cancel();
  };
  const lasting = setTimeout(
    () => exceed(streamTooLong(provider, options.streamLimits.ms, received.bytes)),
    options.streamLimits.ms,
  );

  const onPiece = (piece: Buffer): Promise<unknown> | undefined => {
    if (lost !== undefined) throw lost;
    arrived += piece.length;
    if (arrived > options.streamLimits.bytes) {
      exceed(streamTooLarge(provider, options.streamLimits.bytes));
      return undefined;
    }
    recordFrames(unread === undefined ? splitter.push(piece) : splitter.pushRuns(piece, unread));
    if (waiting > HIGH_WATER_BYTES) return forwarded;
    return behind;
  };

  const ended = async (): Promise<StreamEnd> => {
    if (guardrail !== undefined) {
      await answer.finish();
      return endedBy(guardrail, false);
    }
    // A provider that has sent its terminal event has answered, whether or not the client stayed to receive it.
    if (clientEnded.aborted && !(terminal && refusal === undefined)) {
      const last = answer.abandon(earlyEnd(clientEnded.reason));
      return { kind: 'abandoned', rest: last === undefined ? [] : [last] };
    }
    if (failure !== undefined && !terminal) {
      refusal ??= failure.kind === 'broken' ? streamIncomplete(provider) : refusalFromFailure(failure);
    }
    if (refusal !== undefined) {
      if (!begun && isExceeded) return { kind: 'failed', refusal, malformed: true };
      // After the error that the provider reported, a failure is the gateway's own end of the call.
      if (!begun) return { kind: 'failed', refusal, failure: terminal ? undefined : failure };
      return { kind: 'broken', refusal, rest: [...rest, answer.broken(refusal)].filter((b) => b !== undefined) };
    }
    if (received.firstByteMs === undefined) {
      const what = received.chunks === 0 ? 'an empty stream' : 'a stream without an event';
      return {
        kind: 'failed',
        refusal: refusals.badAnswer(provider, `The provider '${provider}' sent ${what}.`),
        malformed: true,
      };
    }
    const finish = answer.finish();
    if (finish instanceof Promise) isEvaluated = true;
    const finished = finish instanceof Promise ? await finish : finish;
    if (finished.bytes !== undefined) rest.push(finished.bytes);
    if (finished.guardrail !== undefined) return endedBy(finished.guardrail, true);
    if (finished.cut) {
      const incomplete = streamIncomplete(provider);
      if (begun) return { kind: 'broken', refusal: incomplete, rest };
      return { kind: 'failed', refusal: finished.reported ?? incomplete };
    }
    return { kind: 'streamed', rest };
  };

  /** @param isWhole whether the provider had ended its answer */
  const endedBy = (end: GuardrailEnd, isWhole: boolean): StreamEnd => {
    if (!begun && !client.isKeptOpen) return { kind: 'blocked', refusal: end.refusal, isWhole };
    return end.isFailure ? { kind: 'broken', refusal: end.refusal, rest } : { kind: 'streamed', rest };
  };

  try {
    await reply.body.pieces(onPiece);
    hasEnded = true;
    const last = splitter.end();
    if (last !== undefined) recordFrames([last]);
  } catch (error) {
    heartbeat.stop();
    if (lost !== undefined) throw lost;
    if (error instanceof LogUnavailable || !(error instanceof ProviderFailure)) throw error;
    failure = error;
  } finally {
    clearTimeout(closing);
    clearTimeout(lasting);
  }
  try {
    await forwarded;
    if (lost !== undefined) throw lost;
    return await ended();
  } finally {
    heartbeat.stop();
  }
}

/**
 * The provider has counted the input, and the client gets its first bytes: from then on the exchange calls no other
 * provider.
 */
function noteInput(
  usage: TokenUsage,
  inputCounted: NonNullable<AttemptOptions['inputCounted']>,
  record: ExchangeRecord,
): void {
  // Of parallel calls, not every one has counted its input by then.
  if ((usage.inputTokens ?? 0) === 0 || usage.byCall !== undefined) return;
  const reserved = inputCounted(usage);
  if (reserved !== undefined) record.note(costReserved.create(reserved, record.context));
}

/**
 * Passes an answer on that is not an event stream: each piece is recorded, then passed on. The newest piece is held back
 * until another follows, so that the last one is sent only when everything is on disk.
 * @param onPiece called with each piece before it is passed on
 * @returns the piece held back, to be sent after the end is recorded; undefined when the answer was empty
 * @throws LogUnavailable, ProviderFailure
 */
export async function passBytes(options: PassedAnswer, onPiece: (piece: Buffer) => void): Promise<Buffer | undefined> {
  const { reply, record, client, attempt, received, keepBodies } = options;
  let held: Buffer | undefined;
  let begun = false;
  await reply.body.pieces(async (piece) => {
    received.firstByteMs ??= record.elapsed();
    onPiece(piece);
    const data = { attempt, index: received.chunks };
    record.note(chunkReceived.create(data, record.context, keepBodies ? piece : undefined));
    received.chunks += 1;
    received.bytes += piece.length;
    const previous = held;
    held = piece;
    if (previous === undefined) return;
    await record.flush('written');
    if (!begun) {
      begun = true;
      await options.beforeFirstByte();
      client.begin(reply.status, options.headers);
    }
    await client.write(previous);
  });
  return held;
}

// An answer that is passed on in two parts: up to its first byte, after which no other provider is called, and the
// rest.

/** Called once, before the first byte is sent to the client. Nothing may be sent until the promise has resolved. */
export type BeforeFirstByte = () => Promise<void>;

interface Opening<End> {
  /**
   * `opened` when the first byte is ready; the end of the answer when it ended before that. Rejects when the answer
   * cannot be recorded.
   */
  readonly first: Promise<'opened' | End>;
  /** Lets the bytes pass to the client. Resolves with the end of the answer. */
  deliver(): Promise<AttemptEnd>;
}

/** @param pass resolves with the end of the answer */
export function opening<End extends object>(
  pass: (beforeFirstByte: BeforeFirstByte) => Promise<End>,
  endOf: (end: End) => AttemptEnd,
): Opening<End> {
  const first = Promise.withResolvers<'opened' | End>();
  const gate = Promise.withResolvers<void>();
  const whole = pass(() => {
    first.resolve('opened');
    return gate.promise;
  });
  whole.then(first.resolve, first.reject);
  return {
    first: first.promise,
    deliver() {
      gate.resolve();
      return whole.then(endOf);
    },
  };
}

// Keeps an event stream alive while no bytes are sent, so that proxies do not close its connection.

/** A client that receives no bytes for this long receives a comment. */
const HEARTBEAT_MS = 15_000;
const COMMENT = Buffer.from(': keep-alive\n\n');

export class Heartbeat {
  #timer: NodeJS.Timeout | undefined;

  /** @param send called with a comment after each 15 s without `sent` */
  constructor(send: (comment: Buffer) => void) {
    this.#timer = setInterval(() => send(COMMENT), HEARTBEAT_MS);
  }

  /** Bytes were sent: the 15 s begin again. */
  sent(): void {
    this.#timer?.refresh();
  }

  stop(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
  }
}
