/** The results of a batch that is over, request by request, read from the provider's result files. */
import { isObject } from '../../json/is-object.ts';
import { outcomeIn } from '../deferred/work-end.ts';
import { contentPath, readLines, resultFiles } from '../provider-objects/batch-files.ts';
import { batches } from '../provider-objects/tracked.ts';
import { refusals } from '../refusal.ts';
import { resultLines } from './result-lines.ts';
import { holderOf, type ObjectDependencies, type ObjectRequest, retrieveObject } from './stored-objects.ts';

/** One request of a batch, and its result. */
export interface BatchResult {
  /** Its index in the input, from 0; null when the provider no longer has the input. */
  readonly index: number | null;
  readonly custom_id: string | null;
  readonly url: string | null;
  /** Null when the request was not made. */
  readonly status_code: number | null;
  readonly model: string | null;
  readonly provider: string;
  /** The answer's body; null when it is an error. */
  readonly response: unknown;
  readonly error: { readonly type: string; readonly message: string } | null;
}

type RequestedLine = Pick<BatchResult, 'index' | 'url' | 'model'>;

/**
 * The results as they are read: those of the output file, then those of the error file. The first one is read before
 * this resolves, so that a refusal still has its own HTTP status.
 * @param noteRead called with the ids of the files, once the caller's access to them is checked
 * @throws Refusal: 404, or 409 `batch_not_ready` while the batch is not over
 */
export async function batchResults(
  id: string,
  request: ObjectRequest,
  deps: ObjectDependencies,
  noteRead: (fileIds: readonly string[]) => Promise<void>,
): Promise<AsyncIterable<BatchResult>> {
  const { provider } = await holderOf(batches, id, request, deps);
  const batch: Readonly<Record<string, unknown>> = { ...(await retrieveObject(batches, id, request, deps)) };
  if (outcomeIn(batch) === undefined) throw refusals.batchNotReady(id, String(batch.status ?? 'unknown'));
  const made = resultFiles(batches, batch);
  await noteRead(made.flatMap((file) => file.id ?? []));
  const requestedLines = new Map<string, RequestedLine>();
  let index = 0;
  if (typeof batch.input_file_id === 'string' && made.length > 0) {
    const path = contentPath(batch.input_file_id);
    await readLines(provider, path, request, (line) => noteRequestedLine(line, index++, requestedLines));
  }
  return resultLines(made, (line) => resultOf(line, requestedLines, provider.name), provider, request);
}

function noteRequestedLine(line: unknown, index: number, requestedLines: Map<string, RequestedLine>): void {
  if (!isObject(line) || typeof line.custom_id !== 'string') return;
  const { url, body } = line;
  const model = isObject(body) && typeof body.model === 'string' ? body.model : null;
  requestedLines.set(line.custom_id, { index, url: typeof url === 'string' ? url : null, model });
}

function resultOf(line: unknown, requestedLines: ReadonlyMap<string, RequestedLine>, provider: string): BatchResult {
  const { custom_id, response, error } = isObject(line) ? line : {};
  const id = typeof custom_id === 'string' ? custom_id : null;
  const { index = null, url = null, model = null } = requestedLines.get(id ?? '') ?? {};
  const { status_code, body } = isObject(response) ? response : {};
  const status = typeof status_code === 'number' ? status_code : null;
  const reportedModel = isObject(body) && typeof body.model === 'string' ? body.model : model;
  const failed = failureOf(error, status, body);
  return {
    index,
    custom_id: id,
    url,
    status_code: status,
    model: reportedModel,
    provider,
    response: failed === null ? (body ?? null) : null,
    error: failed,
  };
}

/** The error of a request that was not made, or whose answer is an error. */
function failureOf(error: unknown, status: number | null, body: unknown): BatchResult['error'] {
  const reportedError = isObject(error)
    ? error
    : isObject(body) && status !== null && status >= 400
      ? body.error
      : undefined;
  if (reportedError === undefined && (status === null || status < 400)) return null;
  const { type, code, message } = isObject(reportedError) ? reportedError : {};
  const name = typeof type === 'string' ? type : typeof code === 'string' ? code : 'provider_error';
  return { type: name, message: typeof message === 'string' ? message : 'The provider gave no reason.' };
}
