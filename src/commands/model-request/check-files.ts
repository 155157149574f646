/** Checks of the files that a request names, implemented in `commands/files`. */
import type { Sight } from '../visibility.ts';
import type { ParsedRequest } from './parsed-request.ts';

/** Undefined when the request names no file. Rejects with a Refusal (404) for a file that the caller may not see. */
export type CheckFiles = (input: {
  readonly parsedRequest: Pick<ParsedRequest, 'json'>;
  /** The body of the request, of which `parsedRequest.json` is the parsed form. */
  readonly body: Buffer;
  readonly sight: Sight;
}) => Promise<void> | undefined;

/** The same check for the fields of a form. */
export type CheckFields = (fields: Iterable<NamedValue>, sight: Sight) => Promise<void> | undefined;

interface NamedValue {
  readonly name: string;
  readonly value: string;
}
