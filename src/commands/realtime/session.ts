/**
 * Passes messages between a client and its provider until one of them ends the session. Each message is recorded before it
 * is passed on, in the order of arrival; the last one of a response when it is on disk, with the usage that it reports.
 */
import { chunkReceived, costReserved, requestBodyReceived } from '../../events/catalogue/exchange.ts';
import type { MessageSocket } from '../../network/message-socket.ts';
import { inSeconds } from '../../providers/transport-failure.ts';
import type { ExchangeRecord } from '../exchange/exchange-record.ts';
import type { OpenedSession, SessionEnd } from '../exchange/plan.ts';
import type { Target } from '../model-request/routing-types.ts';
import { Refusal, refusals } from '../refusal.ts';
import {
  parsedMessage,
  type ReadMessage,
  type ReportedUsage,
  type SessionMeter,
  transcriptionRequested,
  type UnfinishedResponse,
  withModel,
  withoutAudio,
} from './messages.ts';
import type { Session, SessionClient } from './session-client.ts';

export interface SessionParts extends Omit<OpenedSession, 'spend'> {
  readonly client: SessionClient;
  readonly record: ExchangeRecord;
  readonly target: Target;
  readonly meter: SessionMeter;
  /** What the record keeps of messages. */
  readonly keeps: { readonly bodies: boolean; readonly audio: boolean };
  /** Messages that the gateway sends before those of the client. */
  readonly opening: readonly Buffer[];
  /** Notes what was spent, and charges it. @returns nano-dollars, where the cost is known */
  charge(spent: ReportedUsage): number | undefined;
  chargeEstimate(unfinished: UnfinishedResponse): void;
  /** Counts a further response in the rate limits. @throws Refusal 429 */
  admitResponse(): void;
  /** Reads a message of the client; undefined for one that passes unread. */
  readSent(message: Buffer): Readonly<Record<string, unknown>> | Refusal | undefined;
  /** Whether the caller may use this model of the provider, too. */
  mayUse(model: string): boolean;
  /** Checks the stored objects that a message of the client names. @throws or rejects with Refusal */
  checkNamed(message: Buffer, parsed: Readonly<Record<string, unknown>>): Promise<void> | undefined;
}

/** Of one side, recorded and passed on later; above it nothing more is read from that side. */
const HIGH_WATER_BYTES = 1024 * 1024;

interface Message {
  readonly from: Side;
  readonly bytes: Buffer;
  readonly isBinary: boolean;
  /** Sent by the gateway: a session without it would be another one. */
  readonly isOpening: boolean;
  /** Changed for the other side. */
  sent?: Buffer | undefined;
  /** Why it is not passed on, and the id that the client gave it. */
  refusal?: Refusal;
  eventId?: unknown;
}

/** One side of the session, as the source of messages. */
interface Side {
  readonly name: 'client' | 'provider';
  readonly socket: MessageSocket;
  waitingBytes: number;
  /** The other side reads too slowly. */
  isBlocked: boolean;
}

/** @throws LogUnavailable */
export function runSession(parts: SessionParts): Promise<SessionEnd> {
  return new RunningSession(parts).over;
}

class RunningSession implements Session {
  readonly #parts: SessionParts;
  readonly target: Target;
  readonly #client: Side;
  readonly #provider: Side;
  readonly #over = Promise.withResolvers<SessionEnd>();
  readonly over = this.#over.promise;
  #queue: Message[] = [];
  #isPassing = false;
  #end: SessionEnd | undefined;
  #isOver = false;
  #sent = 0;
  #responses = 0;
  #transcriptions: readonly string[] = [];
  /** Value of `performance.now()` at the last message of the provider. */
  #heardAt = performance.now();
  /** Responses that the client has requested, and the provider has not begun. */
  #requested = 0;
  /** Nano-dollars. */
  #dearest = 0;

  constructor(parts: SessionParts) {
    this.#parts = parts;
    this.target = parts.target;
    const none = { waitingBytes: 0, isBlocked: false };
    this.#client = { name: 'client', socket: parts.client.socket, ...none };
    this.#provider = { name: 'provider', socket: parts.socket, ...none };
    parts.socket.listen({
      message: (message, isBinary) => {
        this.#heardAt = performance.now();
        parts.client.usedAt = this.#heardAt;
        this.#arrived(this.#provider, message, isBinary);
      },
      closed: (code, reason) => this.#providerClosed(code, reason),
    });
    for (const message of parts.opening) this.#arrived(this.#client, message, false, true);
    parts.client.connected(this);
  }

  get transcriptionModels(): readonly string[] {
    const { transcriptionModel: used } = this.#parts.meter;
    return used === undefined || !this.#transcriptions.includes(used) ? [] : [used];
  }

  /** A client that reads too slowly holds its provider back, and has a time limit of its own. */
  silence(now: number): Refusal | undefined {
    const { idle, meter, target } = this.#parts;
    if (!meter.isResponding || this.#provider.isBlocked || now - this.#heardAt < idle.ms) return undefined;
    const { name } = target.provider;
    const message = `The provider '${name}' sent nothing within a response for ${inSeconds(idle)}.`;
    return refusals.badAnswer(name, message, 'session_interrupted');
  }

  get isResponding(): boolean {
    return this.#parts.meter.isResponding;
  }

  ping(): boolean {
    return this.#provider.socket.ping();
  }

  message(message: Buffer, isBinary: boolean): void {
    this.#arrived(this.#client, message, isBinary);
  }

  closed(code: number): void {
    if (code === 1006) this.#parts.client.endEarly('client_gone');
    else this.#endWith({ kind: 'streamed', rest: [] });
  }

  interrupt(refusal: Refusal): void {
    this.#endNow({ kind: 'broken', refusal, rest: [], cut: true });
  }

  cut(): void {
    this.#endNow({ kind: 'abandoned', rest: [], cut: true });
  }

  /** What a provider states with a code of its own, the client gets as it is. */
  #providerClosed(code: number, given: string): void {
    const { client, target } = this.#parts;
    const reason = target.provider.redact(given);
    if (code === 1000 || code === 1005 || code === 1008 || code >= 3000) {
      client.endsWith(code, reason);
      this.#endWith({ kind: 'streamed', rest: [] });
      return;
    }
    const { name } = target.provider;
    const why = reason === '' ? '' : `: ${reason}`;
    const message = `The provider '${name}' ended the session with the code ${code}${why}`;
    const refusal = refusals.badAnswer(name, message, 'session_interrupted');
    this.#endWith({ kind: 'broken', refusal, rest: [], cut: true });
  }

  #arrived(from: Side, bytes: Buffer, isBinary: boolean, isOpening = false): void {
    if (this.#end !== undefined) return;
    this.#queue.push({ from, bytes, isBinary, isOpening });
    from.waitingBytes += bytes.length;
    if (from.waitingBytes > HIGH_WATER_BYTES) from.socket.pause();
    this.#start();
  }

  #start(): void {
    if (this.#isPassing || this.#isOver) return;
    this.#isPassing = true;
    this.#passAll().catch((error) => this.#fail(error));
  }

  async #passAll(): Promise<void> {
    // All that one read of a connection brings is in one append.
    await undefined;
    for (let batch = this.#nextBatch(); batch.length > 0; batch = this.#nextBatch()) {
      const refusal = await this.#recorded(batch);
      for (const message of batch)
        if (message.refusal === undefined || message.refusal !== refusal) this.#passOn(message);
      if (refusal !== undefined) this.interrupt(refusal);
    }
    this.#isPassing = false;
    // What a slow reader has not read is passed on before the end.
    if (this.#end !== undefined && this.#queue.length === 0) this.#finish(this.#end);
  }

  #nextBatch(): Message[] {
    const batch = this.#queue.filter(({ from }) => !from.isBlocked);
    this.#queue = this.#queue.filter(({ from }) => from.isBlocked);
    return batch;
  }

  /** @returns why the session cannot go on after these messages */
  async #recorded(batch: readonly Message[]): Promise<Refusal | undefined> {
    const { client, record, reservation } = this.#parts;
    let refusal: Refusal | undefined;
    let isCharged = false;
    for (const message of batch) {
      if (message.from === this.#client) {
        await this.#noteSent(message);
        // Without an event for errors, the end of the session is the answer.
        if (!client.sendsErrors || message.isOpening) refusal ??= message.refusal;
      } else {
        const read = this.#noteReceived(message);
        isCharged ||= read.isCharged;
        refusal ??= read.refusal;
      }
    }
    if (!isCharged) {
      await record.flush('written');
      return refusal;
    }
    const onLog = reservation?.onLog;
    const reserved = onLog?.next();
    if (reserved !== undefined) record.note(costReserved.create(reserved, record.context));
    const appended = await record.flush('durable');
    const isDecided = reserved !== undefined && appended !== undefined;
    return refusal ?? (isDecided ? await onLog?.decided(appended.position) : undefined);
  }

  /** A message that is refused is answered with an error, and not passed on. */
  async #noteSent(message: Message): Promise<void> {
    const { record, meter, target, readSent } = this.#parts;
    const read = readSent(message.bytes);
    const isRefused = read instanceof Refusal;
    const parsed = isRefused ? parsedMessage(message.bytes) : read;
    // What cannot be read has no audio that could be left out.
    const body = isRefused && parsed === undefined ? this.#keptWhole(message.bytes) : this.#kept(message.bytes, parsed);
    record.note(requestBodyReceived.create({ index: this.#sent++ }, record.context, body));
    if (isRefused) message.refusal = read;
    if (isRefused || parsed === undefined) return;
    try {
      await this.#check(message.bytes, parsed);
      if (parsed.type === 'response.create') {
        this.#admit();
        this.#requested += 1;
      }
      meter.readSent(parsed);
      const transcriptions = transcriptionRequested(parsed);
      if (transcriptions.length > 0) this.#transcriptions = transcriptions;
      message.sent = withModel(parsed, target.model);
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      message.refusal = error;
      message.eventId = parsed.event_id;
    }
  }

  /** @throws or rejects with Refusal */
  #check(bytes: Buffer, parsed: Readonly<Record<string, unknown>>): Promise<void> | undefined {
    if (parsed.type === 'input_audio_buffer.append') return undefined;
    const { mayUse, checkNamed } = this.#parts;
    for (const model of transcriptionRequested(parsed)) {
      if (!mayUse(model)) throw refusals.modelAccessDenied(model);
    }
    return checkNamed(bytes, parsed);
  }

  #noteReceived(message: Message): { readonly isCharged: boolean; readonly refusal?: Refusal | undefined } {
    const { record, meter, received, attempt, target, reservation, charge } = this.#parts;
    const parsed = parsedMessage(message.bytes);
    const { begins, spent, isError }: ReadMessage = parsed === undefined ? {} : meter.read(parsed);
    if (isError) message.sent = Buffer.from(target.provider.redact(message.bytes.toString()));
    const body = this.#kept(message.sent ?? message.bytes, parsed);
    record.note(chunkReceived.create({ attempt, index: received.chunks }, record.context, body));
    received.chunks += 1;
    received.bytes += message.bytes.length;
    received.firstByteMs ??= record.elapsed();
    if (spent !== undefined) {
      this.#dearest = Math.max(this.#dearest, charge(spent) ?? 0);
      // The next response may cost as much as the dearest so far. Where none has cost anything, the first reservation stays.
      const next = this.#dearest;
      return {
        isCharged: true,
        refusal: next === 0 ? undefined : refusalOf(() => reservation?.reserve(next, undefined)),
      };
    }
    if (begins !== true) return { isCharged: false };
    if (this.#requested > 0) {
      this.#requested -= 1;
      return { isCharged: false };
    }
    return { isCharged: false, refusal: refusalOf(() => this.#admit()) };
  }

  /** Counts a response; the session itself counts for the first one. @throws Refusal 429 */
  #admit(): void {
    if (this.#responses > 0) this.#parts.admitResponse();
    this.#responses += 1;
  }

  #keptWhole(bytes: Buffer): Buffer | undefined {
    return this.#parts.keeps.bodies ? bytes : undefined;
  }

  #kept(bytes: Buffer, parsed: Readonly<Record<string, unknown>> | undefined): Buffer | undefined {
    const { keeps } = this.#parts;
    if (!keeps.bodies) return undefined;
    return keeps.audio ? bytes : withoutAudio(bytes, parsed);
  }

  #passOn({ from, bytes, isBinary, sent, refusal, eventId }: Message): void {
    from.waitingBytes -= bytes.length;
    const to = from === this.#client ? this.#provider.socket : this.#client.socket;
    const draining =
      refusal === undefined ? to.send(sent ?? bytes, isBinary) : this.#parts.client.sendError(refusal, {}, eventId);
    if (draining === undefined) {
      if (!from.isBlocked) from.socket.resume();
      return;
    }
    if (from.isBlocked) return;
    from.isBlocked = true;
    from.socket.pause();
    void draining.then(() => {
      from.isBlocked = false;
      from.socket.resume();
      this.#start();
    });
  }

  #endWith(end: SessionEnd): void {
    this.#end ??= end;
    this.#start();
  }

  /** What was not passed on is not any more. */
  #endNow(end: SessionEnd): void {
    this.#queue = [];
    this.#endWith(end);
  }

  #finish(end: SessionEnd): void {
    if (this.#isOver) return;
    this.#isOver = true;
    const { meter, chargeEstimate } = this.#parts;
    for (const unfinished of meter.unfinished()) chargeEstimate(unfinished);
    // A provider that is held back would not read the close.
    if (end.kind === 'abandoned') this.#provider.socket.destroy();
    else this.#provider.socket.close(1000, '');
    this.#over.resolve(end);
  }

  #fail(error: unknown): void {
    this.#isOver = true;
    this.#queue = [];
    this.#provider.socket.close(1000, '');
    this.#over.reject(error);
  }
}

function refusalOf(check: () => void): Refusal | undefined {
  try {
    check();
    return undefined;
  } catch (error) {
    if (error instanceof Refusal) return error;
    throw error;
  }
}
