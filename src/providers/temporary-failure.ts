import { ProviderFailure } from './provider.ts';
import { UpstreamError } from './upstream-error.ts';

const TEMPORARY = new Set([408, 425, 429, 502, 503, 504]);

/** Whether what a server could not tell now may be had a little later; a route that it does not have may not. */
export function isTemporary(error: unknown): boolean {
  if (error instanceof UpstreamError) return TEMPORARY.has(error.facts.status);
  return error instanceof ProviderFailure && error.kind !== 'too_large';
}
