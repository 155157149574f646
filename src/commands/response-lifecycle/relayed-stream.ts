/** The stream of a response at its provider, relayed to a client that retrieves it. */
import { ProviderFailure, type ReplyBody } from '../../providers/provider.ts';
import { createFrameSplitter, type Frame } from '../../providers/sse.ts';
import { streamEndsEarly } from '../exchange/dialects/responses/response-error-event.ts';
import { parseChunk } from '../model-request/parse-chunk.ts';
import { type Answering, redacted } from '../model-request/redacted.ts';
import { refusalFromFailure } from '../model-request/refusal-from-upstream.ts';
import { streamIncomplete } from '../model-request/stream-refusals.ts';

const TERMINAL = new Set<unknown>(['response.completed', 'response.incomplete', 'response.failed']);
const MAY_HOLD_CREDENTIALS = new Set<unknown>(['error', 'response.failed']);

/** The events as the provider sends them. A stream that ends before its terminal event ends with an `error` event. */
export function relayedStream(body: ReplyBody, provider: Answering, signal: AbortSignal): Pick<ReplyBody, 'pieces'> {
  return {
    async pieces(onPiece) {
      const splitter = createFrameSplitter({ provider: provider.name });
      let ended = false;
      let number = -1;
      const forwarded = ({ raw, data }: Frame): Buffer | undefined => {
        if (data === '[DONE]') return ended ? raw : undefined;
        const event = data === undefined ? undefined : parseChunk(data);
        if (typeof event?.sequence_number === 'number') number = event.sequence_number;
        ended ||= TERMINAL.has(event?.type);
        return MAY_HOLD_CREDENTIALS.has(event?.type) ? redacted(raw, provider) : raw;
      };
      const pass = (frames: readonly Frame[]) => {
        const bytes = Buffer.concat(frames.map(forwarded).filter((raw) => raw !== undefined));
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
