/** The stream of a response that its provider makes or keeps, to a client that retrieves it. */
import { ProviderFailure, type ReplyBody } from '../../providers/provider.ts';
import { createFrameSplitter, type Frame } from '../../providers/sse.ts';
import { parseChunk } from '../exchange/parse-chunk.ts';
import { refusalFromFailure } from '../exchange/refusal-from-upstream.ts';
import { type Answering, redacted } from '../exchange/relay.ts';
import { streamEndsEarly } from '../exchange/response-error-event.ts';
import { streamIncomplete } from '../exchange/stream-refusals.ts';

const TERMINAL = new Set<unknown>(['response.completed', 'response.incomplete', 'response.failed']);
const MAY_HOLD_CREDENTIALS = new Set<unknown>(['error', 'response.failed']);

/** The events as the provider sends them. A stream that ends before its terminal event ends with an `error` event. */
export function relayedStream(body: ReplyBody, provider: Answering, signal: AbortSignal): Pick<ReplyBody, 'pieces'> {
  return {
    async pieces(onPiece) {
      const splitter = createFrameSplitter({ provider: provider.name });
      let ended = false;
      let number = -1;
      const passedOn = ({ raw, data }: Frame): Buffer | undefined => {
        if (data === '[DONE]') return ended ? raw : undefined;
        const event = data === undefined ? undefined : parseChunk(data);
        if (typeof event?.sequence_number === 'number') number = event.sequence_number;
        ended ||= TERMINAL.has(event?.type);
        return MAY_HOLD_CREDENTIALS.has(event?.type) ? redacted(raw, provider) : raw;
      };
      const pass = (frames: readonly Frame[]) => {
        const bytes = Buffer.concat(frames.map(passedOn).filter((raw) => raw !== undefined));
        return bytes.length > 0 ? onPiece(bytes) : undefined;
      };
      let refusal = streamIncomplete(provider.name);
      try {
        await body.pieces((piece) => pass(splitter.push(piece)));
        const last = splitter.end();
        if (last !== undefined) await pass([last]);
      } catch (error) {
        if (!(error instanceof ProviderFailure) || signal.aborted) throw error;
        if (error.kind !== 'broken') refusal = refusalFromFailure(error);
      }
      if (!ended) await onPiece(streamEndsEarly(number, refusal));
    },
  };
}
