/** The results of a batch that is over, request by request, read from the provider's result files. */

import { once } from 'node:events';
import { PassThrough } from 'node:stream';
import { isObject } from '../../json/is-object.ts';
import type { Provider } from '../../providers/provider.ts';
import { outcomeIn } from '../deferred/open-work.ts';
import {
  contentPath,
  type FileQuestion,
  type ResultFile,
  readLines,
  resultFiles,
} from '../provider-objects/ask-provider.ts';
import { batches, files } from '../provider-objects/tracked.ts';
import { refusals } from '../refusal.ts';
import { holderOf, type ObjectRequest, retrieveObject } from './stored-objects.ts';

/** One request of a batch, and its result. */
interface BatchResult {
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
  noteRead: (fileIds: readonly string[]) => Promise<void>,
): Promise<AsyncIterable<BatchResult>> {
  const { provider } = await holderOf(batches, id, request);
  const batch: Readonly<Record<string, unknown>> = { ...(await retrieveObject(batches, id, request)) };
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

/**
 * The first line is read before this resolves, so that a refusal still has its own HTTP status.
 * @param turn undefined for a line that the client does not get
 * @param rest the lines after all files are read
 * @throws Refusal
 */
export async function resultLines<Line extends object>(
  made: readonly ResultFile[],
  turn: (line: unknown) => Line | undefined,
  provider: Provider,
  question: FileQuestion,
  rest: () => Iterable<Line> = () => [],
): Promise<AsyncIterable<Line>> {
  const { signal } = question;
  const lines = new PassThrough({ objectMode: true, highWaterMark: 64 });
  const write = (line: Line | undefined): void => {
    if (line !== undefined) lines.write(line);
  };
  const room = () => (lines.writableNeedDrain ? once(lines, 'drain', { signal }) : undefined);
  const read = async (): Promise<void> => {
    for (const { path, id } of made) {
      const exists = await readLines(provider, path, question, (line) => write(turn(line)), room);
      if (!exists) throw files.notFound(id ?? path);
    }
    for (const line of rest()) {
      write(line);
      await room();
    }
    lines.end();
  };
  read().catch((error: Error) => lines.destroy(error));
  return opened<Line>(lines);
}

/** The values of the source, after the first one was read. @throws the errors of the source before that */
async function opened<Value>(source: AsyncIterable<Value>): Promise<AsyncIterable<Value>> {
  const values = source[Symbol.asyncIterator]();
  const first = await values.next();
  return (async function* () {
    try {
      for (let next = first; next.done !== true; next = await values.next()) yield next.value;
    } finally {
      await values.return?.();
    }
  })();
}
