/**
 * Relays an answer that is not an event stream: each piece is recorded, then passed on. The newest piece is held back
 * until another follows, so that the last one is sent only when everything is on disk.
 */
import { chunkReceived } from '../../../events/catalogue/exchange.ts';
import type { ProviderReply } from '../../../providers/provider.ts';
import type { Client } from '../../model-request/client.ts';
import type { ExchangeRecord } from '../exchange-record.ts';
import type { Received, StreamLimits } from '../outcome.ts';
import type { BeforeFirstByte } from './opening.ts';

export interface BytesRelayOptions {
  readonly reply: ProviderReply;
  readonly record: ExchangeRecord;
  readonly client: Client;
  readonly attempt: number;
  readonly received: Received;
  readonly keepBodies: boolean;
  readonly headers: Record<string, string>;
  readonly beforeFirstByte: BeforeFirstByte;
  readonly streamLimits: StreamLimits;
  /** Called with each piece before it is passed on. */
  onPiece?(piece: Buffer): void;
}

/**
 * @returns the piece held back, to be sent after the end is recorded; undefined when the answer was empty
 * @throws LogUnavailable, ProviderFailure
 */
export async function relayBytes(options: BytesRelayOptions): Promise<Buffer | undefined> {
  const { reply, record, client, attempt, received, keepBodies } = options;
  let held: Buffer | undefined;
  let begun = false;
  await reply.body.pieces(async (piece) => {
    received.firstByteMs ??= record.elapsed();
    options.onPiece?.(piece);
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
