/**
 * Masks secrets for analysts: hashes of keys, ciphertexts of secrets and the values assigned to placeholders stay in the
 * log.
 */
import type { RecordedEvent } from '../../events/event.ts';
import { isBodyWithheld } from '../withheld-body.ts';

const secrets = /^(secretHash|apiKeys|sealed\w*)$/;
/** Encrypted texts of `provider_credential.saved`, in any member. */
const sealed = /^v1\.[^.]+\.[\w-]{20,}$/;
const maskedFamilies = ['key.', 'provider_credential.'];

/** The data of the event, as JSON, with such members as `[MASKED]`. */
export function dataJson({ type, data }: RecordedEvent): string {
  const hide = maskedFamilies.some((family) => type.startsWith(family));
  return (hide ? JSON.stringify(data, mask) : JSON.stringify(data)) ?? 'null';
}

const noBytes = new Uint8Array();

/** The body of the event, for analysts; empty when it has none. */
export function visibleBody(event: RecordedEvent): Uint8Array {
  return isBodyWithheld(event) ? noBytes : (event.body ?? noBytes);
}

function mask(name: string, value: unknown): unknown {
  const isSecret = secrets.test(name) || (typeof value === 'string' && sealed.test(value));
  return isSecret && value !== undefined ? '[MASKED]' : value;
}
