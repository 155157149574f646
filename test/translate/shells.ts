import {
  type CreateResponseRequest,
  parseCreateResponse,
  responseShell,
} from '../../src/commands/responses/create-request.ts';
import type { ResponseShell } from '../../src/providers/translate/chat-to-responses/response-object.ts';

export const createdAt = 1_772_295_217;
export const completedAt = 1_772_295_219;

/** A shell with the id `resp_1a2b`, for a request with required members only. */
export function shellFor(request: Record<string, unknown> = {}): ResponseShell {
  return responseShell(accepted({ model: 'local/m1', input: 'hi', ...request }), {
    id: 'resp_1a2b',
    createdAt,
    model: 'local/m1',
    provider: 'local',
  });
}

export function accepted(body: Record<string, unknown>): CreateResponseRequest {
  const parsed = parseCreateResponse(body);
  if (!parsed.ok) throw new Error(parsed.refusal.message);
  return parsed.request;
}
