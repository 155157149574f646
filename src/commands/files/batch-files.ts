/** The files of a batch, read at the provider that keeps them. */
import type { Provider } from '../../providers/provider.ts';
import { mapUpstreamError } from '../../providers/upstream-error.ts';
import { replyTo } from '../ask-provider.ts';
import { refusalFromUpstream } from '../exchange/refusal-from-upstream.ts';
import { errorBody } from '../exchange/whole-body.ts';
import { forEachLine, type LineLimits } from './json-lines.ts';
import { files } from './tracked.ts';

/** As OpenAI allows, and some more: 50,000 requests and 200 MB. */
const LIMITS: LineLimits = { lineBytes: 64 * 1024 * 1024, totalBytes: 1024 * 1024 * 1024, lines: 100_000 };

export interface FileQuestion {
  readonly requestId: string;
  readonly signal: AbortSignal;
}

/**
 * Reads a file line by line.
 * @returns false when the provider does not have it
 * @throws Refusal
 */
export async function readLines(
  provider: Provider,
  id: string,
  { requestId, signal }: FileQuestion,
  onLine: (value: unknown, line: Buffer) => void,
): Promise<boolean> {
  const path = `${files.endpoint}/${encodeURIComponent(id)}/content`;
  const { status, headers, body } = await replyTo({ method: 'GET', path, accept: '*/*', requestId, signal }, provider);
  if (status === 404) {
    body.cancel();
    return false;
  }
  if (status >= 300) {
    const said = { status, headers, body: await errorBody({ status, headers, body }), provider };
    throw refusalFromUpstream(mapUpstreamError(said));
  }
  await forEachLine(body, LIMITS, onLine);
  return true;
}
