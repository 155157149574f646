import { parseExactly } from '../../json/exact-json.ts';
import { ProviderFailure, type ProviderReply } from '../../providers/provider.ts';

/** @throws ProviderFailure, with `timeout` when the answer takes longer than a whole one may */
export async function wholeBody(
  reply: ProviderReply,
  provider: string,
  maxBytes: number,
  timeoutMs: number,
): Promise<Buffer> {
  let expired = false;
  const timer = setTimeout(() => {
    expired = true;
    reply.body.cancel();
  }, timeoutMs);
  try {
    return await reply.body.bytes(maxBytes);
  } catch (error) {
    if (!expired) throw error;
    throw new ProviderFailure(provider, 'timeout', `its answer took longer than ${timeoutMs} ms`, error);
  } finally {
    clearTimeout(timer);
  }
}

/** Undefined when the bytes are no JSON. */
export function parseWhole(bytes: Buffer): unknown {
  try {
    return parseExactly(bytes.toString());
  } catch {
    return undefined;
  }
}
