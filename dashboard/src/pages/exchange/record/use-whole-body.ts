/** A recorded body of which the list of events has only the beginning. */
import { type Answer, getAnswer } from '../../../api/client.ts';
import { type Loaded, useLoaded } from '../../../api/use-answer.ts';
import type { RecordedBody } from './recorded-bodies.ts';

export interface WholeBody {
  /** Undefined when it is not text. */
  readonly text: string | undefined;
  readonly bytes: Uint8Array;
  /** Whether the rest is too long for the page. */
  readonly isCut: boolean;
}

/** Longer bodies are cut. */
const MOST_BYTES = 64 * 1024 * 1024;

/** Reads nothing while there is no body. */
export function useWholeBody(id: string, body: RecordedBody | undefined): Loaded<WholeBody | undefined> {
  const revision = body?.event.revision;
  return useLoaded(
    async (signal) => (body === undefined ? undefined : readWhole(id, body, signal)),
    `${id} ${revision ?? 'none'}`,
  );
}

/** @throws ApiError, and AbortError when the signal is aborted */
export async function readWhole(id: string, body: RecordedBody, signal: AbortSignal): Promise<WholeBody> {
  const { event, isCut } = body;
  if (!isCut) return wholeOf([partOf(event)], false);
  const parts: Uint8Array[] = [];
  let length = 0;
  let offset: number | undefined = 0;
  while (offset !== undefined && length < MOST_BYTES) {
    const query = { log_id: id, revision: event.revision, offset };
    const page: Answer<'/admin/audit/events'> = await getAnswer('/admin/audit/events', { query, signal });
    const read = page.events[0];
    const part = partOf(read ?? {});
    parts.push(part);
    length += part.length;
    offset = read?.body_next_offset;
  }
  return wholeOf(parts, offset !== undefined);
}

export interface BodyPart {
  readonly body?: string | undefined;
  readonly body_base64?: string | undefined;
}

export function partOf({ body, body_base64: base64 }: BodyPart): Uint8Array {
  if (body !== undefined) return new TextEncoder().encode(body);
  return Uint8Array.from(atob(base64 ?? ''), (character) => character.charCodeAt(0));
}

export function wholeOf(parts: readonly Uint8Array[], isCut: boolean): WholeBody {
  const bytes = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    bytes.set(part, at);
    at += part.length;
  }
  return { bytes, text: decoded(bytes), isCut };
}

function decoded(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return undefined;
  }
}
