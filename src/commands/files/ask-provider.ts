/** One short question to a provider about an object it keeps. */
import { type Provider, ProviderFailure } from '../../providers/provider.ts';
import { mapUpstreamError } from '../../providers/upstream-error.ts';
import { refusalFromFailure, refusalFromUpstream } from '../exchange/refusal-from-upstream.ts';
import { isObject } from '../exchange/usage.ts';
import { refusals } from '../refusal.ts';

const MAX_ANSWER_BYTES = 16 * 1024 * 1024;

export interface Question {
  readonly method: 'GET' | 'POST' | 'DELETE';
  /** Of OpenAI's API, with the query. */
  readonly path: string;
  readonly requestId: string;
  readonly signal: AbortSignal;
}

/**
 * @returns undefined when the provider does not have it
 * @throws Refusal
 */
export async function askProvider(
  provider: Provider,
  { method, path, requestId, signal }: Question,
): Promise<Record<string, unknown> | undefined> {
  try {
    const headers = { accept: 'application/json' };
    const reply = await provider.forward({ method, path, openAi: true, headers, requestId, signal });
    const body = await reply.body.bytes(MAX_ANSWER_BYTES);
    if (reply.status === 404) return undefined;
    if (reply.status >= 400) {
      const { status, headers: answered } = reply;
      throw refusalFromUpstream(mapUpstreamError({ status, headers: answered, body, provider }));
    }
    const parsed: unknown = JSON.parse(body.toString());
    if (!isObject(parsed)) throw new SyntaxError('not an object');
    return parsed;
  } catch (error) {
    if (error instanceof ProviderFailure) throw refusalFromFailure(error);
    if (error instanceof SyntaxError) {
      throw refusals.badAnswer(provider.name, `'${provider.name}' did not answer with JSON.`);
    }
    throw error;
  }
}
