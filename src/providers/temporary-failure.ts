import { ProviderFailure } from './provider.ts';
import { UpstreamError } from './upstream-error.ts';

const TEMPORARY = new Set([408, 425, 429, 502, 503, 504]);

/** Whether a later attempt may succeed after this error; not for a route that the server does not have. */
export function isTemporary(error: unknown): boolean {
  if (error instanceof UpstreamError) return TEMPORARY.has(error.facts.status);
  return error instanceof ProviderFailure && error.kind !== 'too_large';
}
