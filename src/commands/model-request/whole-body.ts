import { parseExactly } from '../../json/exact-json.ts';
import { type Provider, ProviderFailure, type ProviderReply } from '../../providers/provider.ts';
import { unfinished } from '../../providers/transport-failure.ts';

/** @throws ProviderFailure, with `timeout` when the answer takes longer than a whole answer may */
export async function wholeBody(
  reply: ProviderReply,
  { name, answerLimit }: Pick<Provider, 'name' | 'answerLimit'>,
  maxBytes: number,
): Promise<Buffer> {
  let expired = false;
  const timer = setTimeout(() => {
    expired = true;
    reply.body.cancel();
  }, answerLimit.ms);
  try {
    return await reply.body.bytes(maxBytes);
  } catch (error) {
    if (!expired) throw error;
    throw unfinished(name, answerLimit, reply.body.arrived, error);
  } finally {
    clearTimeout(timer);
  }
}

/** Undefined when the bytes are not JSON. */
export function parseWhole(bytes: Buffer): unknown {
  try {
    return parseExactly(bytes.toString());
  } catch {
    return undefined;
  }
}

/** Maximum number of recorded bytes of an error answer. */
export const MAX_ERROR_BYTES = 64 * 1024;
/** Bytes read beyond that, so that a credential at the cut is found whole. */
const CREDENTIAL_BYTES = 4096;
/** Milliseconds from the headers of an error answer to the end of its body. */
const ERROR_TIMEOUT_MS = 3_000;
const LIMIT_REACHED = Symbol('enough');

/**
 * The beginning of an error answer, up to `MAX_ERROR_BYTES` and a little more. The status states the error, so a body
 * that is longer, slow, or broken off is cut there.
 * @throws ProviderFailure when the caller's signal was aborted
 */
export async function errorBody(reply: ProviderReply): Promise<Buffer> {
  const pieces: Buffer[] = [];
  let bytes = 0;
  let isLate = false;
  const timer = setTimeout(() => {
    isLate = true;
    reply.body.cancel();
  }, ERROR_TIMEOUT_MS);
  try {
    await reply.body.pieces((piece) => {
      pieces.push(piece);
      bytes += piece.length;
      if (bytes >= MAX_ERROR_BYTES + CREDENTIAL_BYTES) throw LIMIT_REACHED;
    });
  } catch (error) {
    if (error !== LIMIT_REACHED && !(error instanceof ProviderFailure)) throw error;
    if (error instanceof ProviderFailure && error.kind === 'aborted' && !isLate) throw error;
  } finally {
    clearTimeout(timer);
  }
  return Buffer.concat(pieces).subarray(0, MAX_ERROR_BYTES + CREDENTIAL_BYTES);
}
