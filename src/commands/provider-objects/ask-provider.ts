/** One short request to a provider about an object that it stores under an id: a response, a file, a batch. */
import { parseExactly } from '../../json/exact-json.ts';
import { isObject } from '../../json/is-object.ts';
import { type Provider, ProviderFailure, type ProviderReply } from '../../providers/provider.ts';
import { type MappedError, mapUpstreamError } from '../../providers/upstream-error.ts';
import { credentialsRefused, refusalFromFailure, refusalFromUpstream } from '../model-request/refusal-from-upstream.ts';
import { errorBody } from '../model-request/whole-body.ts';
import { type Refusal, refusals } from '../refusal.ts';

const MAX_ANSWER_BYTES = 64 * 1024 * 1024;

export interface ProviderObjectRequest {
  readonly method: 'GET' | 'POST' | 'DELETE';
  /** Path of OpenAI's API, beginning with `/v1/`, with the query. */
  readonly path: string;
  /** Default `application/json`. */
  readonly accept?: string;
  readonly body?: { readonly type: string; readonly bytes: Uint8Array };
  readonly requestId: string;
  readonly signal: AbortSignal;
}

/**
 * @returns undefined when the provider does not have it
 * @throws Refusal
 */
export async function askProvider(
  provider: Provider,
  question: ProviderObjectRequest,
): Promise<Record<string, unknown> | undefined> {
  return objectIn(await replyTo(question, provider), provider);
}

/** @throws Refusal when the provider gives no answer */
export async function replyTo(question: ProviderObjectRequest, provider: Provider): Promise<ProviderReply> {
  const { method, path, accept = 'application/json', body, requestId, signal } = question;
  const headers: Record<string, string> = body === undefined ? { accept } : { accept, 'content-type': body.type };
  try {
    return await provider.forward({ method, path, openAi: true, headers, body: body?.bytes, requestId, signal });
  } catch (error) {
    throw error instanceof ProviderFailure ? refusalFromFailure(error) : error;
  }
}

/**
 * @returns undefined when the provider does not have it
 * @throws Refusal
 */
export async function objectIn(
  { status, headers, body: answer }: ProviderReply,
  provider: Provider,
): Promise<Record<string, unknown> | undefined> {
  try {
    if (status >= 400) {
      const body = await errorBody({ status, headers, body: answer });
      if (status === 404) return undefined;
      throw refusedBy(mapUpstreamError({ status, headers, body, provider }));
    }
    const body = await answer.bytes(MAX_ANSWER_BYTES);
    const parsed = parseExactly(body.toString());
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

/** A 403 for a stored object can only mean that the gateway's credential lacks the permission. */
function refusedBy(error: MappedError): Refusal {
  return error.status === 403 ? credentialsRefused(error) : refusalFromUpstream(error);
}
