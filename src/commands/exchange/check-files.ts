/** Checks of the files that a request names, implemented in `commands/files`. */
import type { Asked } from '../model-request/parsed-request.ts';
import type { Sight } from '../visibility.ts';
import type { PlanInput } from './dialect.ts';

/** Undefined when the request names no file. Rejects with a Refusal (404) for a file that the caller may not see. */
export type CheckFiles = (
  input: { readonly asked: Pick<Asked, 'json'> } & Pick<PlanInput, 'body' | 'sight'>,
) => Promise<void> | undefined;

/** The same check for the fields of a form. */
export type CheckFields = (fields: Iterable<NamedValue>, sight: Sight) => Promise<void> | undefined;

interface NamedValue {
  readonly name: string;
  readonly value: string;
}
