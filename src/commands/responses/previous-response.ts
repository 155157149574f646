import type { ParsedRequest } from '../model-request/parsed-request.ts';

/** The response that a request continues. */
export function previousResponseOf({ json }: ParsedRequest): string | null {
  const previous = json.previous_response_id;
  return typeof previous === 'string' && previous !== '' ? previous : null;
}
