/**
 * Files that a request to a model names. A provider keeps all files under the gateway's one account and cannot tell
 * whose they are, so a caller who does not see everything may name those alone that it sees.
 */
import type { ExchangeDialect, PlanInput } from '../exchange/dialect.ts';
import { isObject } from '../exchange/usage.ts';
import { seesEverything } from '../visibility.ts';
import { remembered } from './stored-objects.ts';
import { files, type TrackedObjects } from './tracked.ts';

/** Undefined when there is nothing to look up, as nearly always. Rejects with a Refusal (404) for a file of others. */
export type CheckFiles = (input: Pick<PlanInput, 'asked' | 'body' | 'sight'>) => Promise<void> | undefined;

export function checkNamedFiles(tracked: TrackedObjects): CheckFiles {
  return ({ asked, body, sight }) => {
    if (seesEverything(sight) || !mayNameFiles(body)) return undefined;
    const ids = new Set(filesIn(asked.json));
    if (ids.size === 0) return undefined;
    return Promise.all([...ids].map((id) => remembered(files, id, sight, { tracked }))).then(() => {});
  };
}

/** The dialect, which looks at the files first. */
export function withFilesChecked(dialect: ExchangeDialect, check: CheckFiles): ExchangeDialect {
  return {
    ...dialect,
    plan: (input) => check(input)?.then(() => dialect.plan(input)) ?? dialect.plan(input),
  };
}

/** Quick; a name may be written in escapes. */
function mayNameFiles(body: Buffer): boolean {
  return body.includes('file_id') || body.includes('\\u00');
}

/** The types of parts that have a `file_id` of their own. What a model said of files, in an annotation, is no part. */
const FILE_PARTS: ReadonlySet<unknown> = new Set(['input_file', 'input_image', 'file', 'container_upload']);

function* filesIn(value: unknown): Generator<string> {
  if (Array.isArray(value)) {
    for (const each of value) yield* filesIn(each);
    return;
  }
  if (!isObject(value)) return;
  const { type, file, file_id: id, file_ids: ids, input_image_mask: mask } = value;
  if (typeof id === 'string' && FILE_PARTS.has(type)) yield id;
  // In chat completions the part has the file in a member; of a container and a mask the type is another.
  for (const holder of [type === 'file' ? file : undefined, mask]) {
    if (isObject(holder) && typeof holder.file_id === 'string') yield holder.file_id;
  }
  if (type === 'auto' && Array.isArray(ids)) for (const each of ids) if (typeof each === 'string') yield each;
  for (const member of Object.values(value)) yield* filesIn(member);
}
