/**
 * Several calls of a provider for one request, whose answers are one reply: for providers whose API gives one choice,
 * where a client wants several. The reply has a framing of the gateway:
 * - of streams: server-sent events with the name and data of each event as received, behind a line `call: <index>`; a
 *   line of JSON is the data of an event. An event `call: <index> ended` follows the last one of a call.
 * - of whole answers: `{"calls":[…]}`, in the order of the calls.
 */
import type { Provider, ProviderCall, ProviderReply, ReplyBody } from './provider.ts';
import { createSplitter, type Frame, streamFormatOf } from './stream-frames.ts';
import { tooLarge } from './transport-failure.ts';

/** More choices are refused. */
export const MAX_CALLS = 4;

/**
 * Resolves when every call has its headers. The first call that fails ends the others: its failure, or its reply when
 * that is an error or no stream where one was requested, is the result.
 * @throws ProviderFailure
 */
export async function sendInParallel(provider: Provider, call: ProviderCall, calls: number): Promise<ProviderReply> {
  const ends = Array.from({ length: calls }, () => new AbortController());
  const endAll = (but?: AbortController): void => {
    for (const end of ends) if (end !== but) end.abort();
  };
  const alone = Promise.withResolvers<{ readonly reply: ProviderReply; readonly end: AbortController }>();
  const all = Promise.all(
    ends.map(async (end) => {
      const reply = await provider.send({ ...call, signal: AbortSignal.any([call.signal, end.signal]) });
      const isPart = reply.status < 400 && (!call.stream || streamFormatOf(reply.headers) !== undefined);
      if (!isPart) alone.resolve({ reply, end });
      return reply;
    }),
  );
  try {
    const first = await Promise.race([alone.promise, all]);
    if (Array.isArray(first)) return joinedReply(first, provider.name, call.stream, endAll);
    all.catch(() => {});
    endAll(first.end);
    return first.reply;
  } catch (error) {
    endAll();
    throw error;
  }
}

/** With line feeds only: the end of one event and the beginning of the next may come in different reads. */
function framedEvent({ data, event }: Frame, call: number): Buffer[] {
  if (data === undefined) return [];
  const name = event === undefined ? '' : `event: ${event}\n`;
  // In JSON a line end is white space.
  return [Buffer.from(`call: ${call}\n${name}data: ${data.replaceAll(/[\r\n]/g, ' ')}\n\n`)];
}

function joinedReply(
  replies: readonly ProviderReply[],
  provider: string,
  stream: boolean,
  endAll: () => void,
): ProviderReply {
  const { status = 200, headers: given = {} } = replies[0] ?? {};
  const { 'content-length': _ofOne, ...headers } = given;
  const framed = stream ? { ...headers, 'content-type': 'text/event-stream' } : headers;
  return { status, headers: framed, body: new JoinedBody(replies, provider, endAll) };
}

class JoinedBody implements ReplyBody {
  readonly #replies: readonly ProviderReply[];
  readonly #provider: string;
  readonly #endAll: () => void;
  /** Nothing of any call is passed on after one has failed. */
  #isOver = false;

  constructor(replies: readonly ProviderReply[], provider: string, endAll: () => void) {
    this.#replies = replies;
    this.#provider = provider;
    this.#endAll = endAll;
  }

  get arrived(): number {
    return this.#replies.reduce((bytes, { body }) => bytes + body.arrived, 0);
  }

  cancel(): void {
    this.#isOver = true;
    this.#endAll();
  }

  async bytes(maxBytes: number): Promise<Buffer> {
    const answers = await this.#each(({ body }) => body.bytes(maxBytes));
    const pieces = answers.flatMap((answer, index) => [Buffer.from(index === 0 ? '{"calls":[' : ','), answer]);
    const whole = Buffer.concat([...pieces, Buffer.from(']}')]);
    if (whole.length > maxBytes) throw tooLarge(this.#provider, maxBytes);
    return whole;
  }

  async pieces(onPiece: (piece: Buffer) => void | Promise<unknown>): Promise<void> {
    const pass = (bytes: readonly Buffer[]) =>
      bytes.length === 0 || this.#isOver ? undefined : onPiece(Buffer.concat(bytes));
    await this.#each(async ({ body, headers }, index) => {
      const format = streamFormatOf(headers) ?? 'events';
      const splitter = createSplitter(format, { provider: this.#provider });
      const framed = (frame: Frame): Buffer[] => framedEvent(frame, index);
      await body.pieces((piece) => pass(splitter.push(piece).flatMap(framed)));
      const last = splitter.end();
      await pass([...(last === undefined ? [] : framed(last)), Buffer.from(`call: ${index} ended\n\n`)]);
    });
  }

  #each<T>(read: (reply: ProviderReply, index: number) => Promise<T>): Promise<T[]> {
    return Promise.all(
      this.#replies.map(async (reply, index) => {
        try {
          return await read(reply, index);
        } catch (error) {
          this.cancel();
          throw error;
        }
      }),
    );
  }
}
