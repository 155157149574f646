/**
 * Several calls of a provider for one request, whose answers are one reply: for providers whose API gives one choice,
 * where a client wants several. The reply has a framing of the gateway:
 * - of streams: server-sent events with the name and data of each event as received, behind a line `call: <index>`; a
 *   line of JSON is the data of an event. An event `call: <index> ended` follows the last one of a call.
 * - of whole answers: `{"calls":[…]}`, in the order of the calls; null for one that was ended because another failed.
 */
import type { Provider, ProviderCall, ProviderReply, ReplyBody } from './provider.ts';
import { createSplitter, type Frame, streamFormatOf } from './stream-frames.ts';
import { tooLarge } from './transport-failure.ts';

/** More choices are refused. */
export const MAX_CALLS = 4;
/** Bytes of one stream that are read before every call has its headers. */
const READ_AHEAD_BYTES = 64 * 1024;

export interface ParallelOptions {
  readonly calls: number;
  /** Of one whole answer, and of all together. */
  readonly maxBytes: number;
  /** Whether an event of the joined stream is a failure of its call. */
  isFailure(frame: Frame): boolean;
  /** Whether a whole answer is one. Not called for the last of all. */
  isAnswer(answer: Buffer, call: number): boolean;
}

/**
 * Resolves when every call has its headers, or one has failed. Answers are read from their headers on, so that the first
 * failure ends the other calls at once. The reply of a call is the result when it is an error, or no stream where one was
 * requested; otherwise the joined reply, which ends with the failure.
 * @throws ProviderFailure when a call failed before its headers
 */
export async function sendInParallel(
  provider: Provider,
  call: ProviderCall,
  options: ParallelOptions,
): Promise<ProviderReply> {
  const ends = Array.from({ length: options.calls }, () => new AbortController());
  const endAll = (but?: AbortController): void => {
    for (const end of ends) if (end !== but) end.abort();
  };
  const joined = new JoinedBody(provider.name, options, endAll);
  const alone = Promise.withResolvers<ProviderReply>();
  const heads: ProviderReply[] = [];
  const all = Promise.all(
    ends.map(async (end, index) => {
      const reply = await provider.send({ ...call, signal: AbortSignal.any([call.signal, end.signal]) });
      if (reply.status < 300 && (!call.stream || streamFormatOf(reply.headers) !== undefined)) {
        heads.push(reply);
        joined.read(reply, index, call.stream);
      } else {
        endAll(end);
        alone.resolve(reply);
      }
    }),
  );
  try {
    const only = await Promise.race([alone.promise, joined.failed, all]);
    all.catch(() => {});
    if (only !== undefined && 'status' in only) return only;
    const { status = 200, headers: given = {} } = heads[0] ?? {};
    const { 'content-length': _ofOne, ...headers } = given;
    return {
      status,
      headers: call.stream ? { ...headers, 'content-type': 'text/event-stream' } : headers,
      body: joined,
    };
  } catch (error) {
    endAll();
    throw error;
  }
}

class JoinedBody implements ReplyBody {
  readonly #provider: string;
  readonly #options: ParallelOptions;
  readonly #endAll: () => void;
  readonly #replies: ProviderReply[] = [];
  /** Of whole answers. */
  readonly #answers: Buffer[] = [];
  /** Of streams: what has arrived before they are read. */
  #held: Buffer[] = [];
  #onPiece: ((piece: Buffer) => void | Promise<unknown>) | undefined;
  readonly #opened = Promise.withResolvers<void>();
  readonly #failed = Promise.withResolvers<void>();
  /** Resolves when every call has ended, or one has given no answer; rejects when one is broken. */
  readonly #done = Promise.withResolvers<void>();
  #ended = 0;
  /** Nothing of any call is passed on after one has failed. */
  #isOver = false;

  constructor(provider: string, options: ParallelOptions, endAll: () => void) {
    this.#provider = provider;
    this.#options = options;
    this.#endAll = endAll;
    this.#done.promise.catch(() => {});
  }

  /** Resolves when a call has failed. */
  get failed(): Promise<void> {
    return this.#failed.promise;
  }

  get arrived(): number {
    return this.#replies.reduce((bytes, { body }) => bytes + body.arrived, 0);
  }

  cancel(): void {
    this.#isOver = true;
    this.#endAll();
  }

  /** Reads the answer of a call, which has begun. */
  read(reply: ProviderReply, index: number, isStream: boolean): void {
    this.#replies.push(reply);
    const read = isStream ? this.#readStream(reply, index) : this.#readWhole(reply, index);
    read.then(
      () => {
        this.#ended += 1;
        if (this.#ended === this.#options.calls) this.#done.resolve();
      },
      (error: unknown) => {
        this.#done.reject(error);
        this.#fail();
      },
    );
  }

  async bytes(maxBytes: number): Promise<Buffer> {
    await this.#done.promise;
    const answers = Array.from({ length: this.#options.calls }, (_, index) => this.#answers[index] ?? NO_ANSWER);
    const pieces = answers.flatMap((answer, index) => [Buffer.from(index === 0 ? '{"calls":[' : ','), answer]);
    const whole = Buffer.concat([...pieces, Buffer.from(']}')]);
    if (whole.length > maxBytes) throw tooLarge(this.#provider, maxBytes);
    return whole;
  }

  async pieces(onPiece: (piece: Buffer) => void | Promise<unknown>): Promise<void> {
    this.#onPiece = onPiece;
    const held = this.#held;
    this.#held = [];
    try {
      if (held.length > 0) await onPiece(Buffer.concat(held));
    } catch (error) {
      this.cancel();
      throw error;
    }
    this.#opened.resolve();
    await this.#done.promise;
  }

  async #readWhole({ body }: ProviderReply, index: number): Promise<void> {
    const answer = await body.bytes(this.#options.maxBytes);
    this.#answers[index] = answer;
    // The last one is checked with all.
    if (this.#ended + 1 < this.#options.calls && !this.#options.isAnswer(answer, index)) this.#endWithoutAnswer();
  }

  async #readStream({ body, headers }: ProviderReply, index: number): Promise<void> {
    const splitter = createSplitter(streamFormatOf(headers) ?? 'events', { provider: this.#provider });
    const pass = (frames: readonly Frame[]) =>
      this.#pass(frames.filter(({ data }) => data !== undefined).map((frame) => ({ ...frame, call: `${index}` })));
    await body.pieces((piece) => pass(splitter.push(piece)));
    const last = splitter.end();
    if (last !== undefined) await pass([last]);
    await this.#pass([{ raw: NO_ANSWER, data: undefined, call: `${index} ended` }]);
  }

  #pass(frames: readonly Frame[]): void | Promise<unknown> {
    const bytes = frames.map(framedEvent);
    if (bytes.length === 0 || this.#isOver) return undefined;
    if (this.#onPiece !== undefined) return this.#onPiece(Buffer.concat(bytes));
    this.#held.push(...bytes);
    if (frames.some((frame) => this.#options.isFailure(frame))) this.#endWithoutAnswer();
    const held = this.#held.reduce((sum, { length }) => sum + length, 0);
    return held > READ_AHEAD_BYTES * this.#options.calls ? this.#opened.promise : undefined;
  }

  #endWithoutAnswer(): void {
    this.#done.resolve();
    this.#fail();
  }

  #fail(): void {
    this.#failed.resolve();
    this.cancel();
  }
}

const NO_ANSWER = Buffer.from('null');

/** With line feeds only: the end of one event and the beginning of the next may come in different reads. */
function framedEvent({ data, event, call }: Frame): Buffer {
  const name = event === undefined ? '' : `event: ${event}\n`;
  // Between the members of an object a carriage return is white space; in an event it would end the line.
  const content = data === undefined ? '' : `${name}data: ${data.replaceAll('\r', ' ').replaceAll('\n', '\ndata: ')}\n`;
  return Buffer.from(`call: ${call}\n${content}\n`);
}
