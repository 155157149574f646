/**
 * Files that a request to a model names. A provider stores all files under the gateway's one account and does not
 * know their owners, so a caller who does not see everything may name only the files that it sees.
 */
import { isObject } from '../../json/is-object.ts';
import type { ExchangeDialect } from '../exchange/dialect.ts';
import { namesFile } from '../exchange/uploads/file-fields.ts';
import type { CheckFields, CheckFiles } from '../model-request/check-files.ts';
import { parseJson } from '../parse-json.ts';
import { files, type TrackedObjects } from '../provider-objects/tracked.ts';
import { refusals } from '../refusal.ts';
import { type Sight, seesEverything } from '../visibility.ts';
import { mayNameProviderObjects, refuseProviderObjects } from './provider-objects.ts';
import { remembered } from './stored-objects.ts';

export function checkNamedFiles(tracked: TrackedObjects): CheckFiles {
  return ({ parsedRequest, body, sight }) => {
    if (seesEverything(sight)) return undefined;
    refuseProviderObjects(parsedRequest.json);
    return mayNameFiles(body) ? checkAll(filesIn(parsedRequest.json), sight, tracked) : undefined;
  };
}

/** Checks a body that the gateway does not read otherwise. */
export type CheckBody = (body: Buffer, sight: Sight) => Promise<void> | undefined;

/**
 * The body is parsed only when it may name a stored object, and refused when a provider could parse it differently
 * from the gateway. Throws or rejects with a Refusal (400, 403, 404).
 */
export function checkNamedInBody(tracked: TrackedObjects): CheckBody {
  return (body, sight) => {
    // JSON text in another encoding than UTF-8 always contains zero bytes.
    if (body.includes(0)) throw refusals.malformedJson('it is not valid UTF-8');
    if (!mayNameFiles(body) && !mayNameProviderObjects(body)) return undefined;
    const json = parseJson(body);
    refuseProviderObjects(json);
    return checkAll(filesIn(json), sight, tracked);
  };
}

function checkAll(named: Iterable<string>, sight: Sight, tracked: TrackedObjects): Promise<void> | undefined {
  const ids = new Set(named);
  if (ids.size === 0) return undefined;
  return Promise.all([...ids].map((id) => remembered(files, id, sight, { tracked }))).then(() => {});
}

/** The dialect with a check of the named files. */
export function withFilesChecked(dialect: ExchangeDialect, check: CheckFiles): ExchangeDialect {
  return { ...dialect, checkFiles: check };
}

export function checkNamedInForm(tracked: TrackedObjects): CheckFields {
  return (fields, sight) => {
    if (seesEverything(sight)) return undefined;
    const named = [...fields].filter(({ name }) => namesFile(name));
    return checkAll(
      named.map(({ value }) => value),
      sight,
      tracked,
    );
  };
}

/** A quick check that may be true without a named file; names may be written with escapes. */
function mayNameFiles(body: Buffer): boolean {
  return body.includes('file_id') || body.includes('\\u00');
}

/** Types of parts that have a `file_id` of their own. An annotation in a model's output is not a part. */
const FILE_PARTS: ReadonlySet<unknown> = new Set(['input_file', 'input_image', 'file', 'container_upload']);

/** Ids of the files that a request names, at any depth. */
export function* filesIn(json: unknown): Generator<string> {
  const waiting = [json];
  while (waiting.length > 0) {
    const value = waiting.pop();
    if (isObject(value)) yield* filesNamedBy(value);
    if (typeof value === 'object' && value !== null) for (const member of Object.values(value)) waiting.push(member);
  }
}

function* filesNamedBy(value: Record<string, unknown>): Generator<string> {
  const { type, file, file_id: id, file_ids: ids, input_image_mask: inputMask, mask, images } = value;
  if (typeof id === 'string' && FILE_PARTS.has(type)) yield id;
  // In chat completions the file is in a member of the part; for a container, a mask and an image it is elsewhere.
  for (const holder of [
    type === 'file' ? file : undefined,
    inputMask,
    mask,
    ...(Array.isArray(images) ? images : []),
  ]) {
    if (isObject(holder) && typeof holder.file_id === 'string') yield holder.file_id;
  }
  if (type === 'auto' && Array.isArray(ids)) for (const each of ids) if (typeof each === 'string') yield each;
}
