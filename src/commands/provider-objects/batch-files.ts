/**
 * The files of a batch, read at the provider that stores them: OpenAI's input and output files, Anthropic's results.
 */
import { isObject } from '../../json/is-object.ts';
import type { Provider } from '../../providers/provider.ts';
import { mapUpstreamError } from '../../providers/upstream-error.ts';
import { refusalFromUpstream } from '../model-request/refusal-from-upstream.ts';
import { errorBody } from '../model-request/whole-body.ts';
import { replyTo } from './ask-provider.ts';
import { forEachLine, type LineLimits } from './json-lines.ts';
import { files, messageBatches, type ObjectKind } from './tracked.ts';

/** Above OpenAI's limits of 50,000 requests and 200 MB. */
const LIMITS: LineLimits = { lineBytes: 64 * 1024 * 1024, totalBytes: 1024 * 1024 * 1024, lines: 100_000 };

export interface FileQuestion {
  readonly requestId: string;
  readonly signal: AbortSignal;
}

/** The path of a file's content at its provider. */
export function contentPath(fileId: string): string {
  return `${files.endpoint}/${encodeURIComponent(fileId)}/content`;
}

/** A result file of a batch. */
export interface ResultFile {
  readonly path: string;
  /** The id of a file in OpenAI's API. */
  readonly id?: string;
  /** False for the file of errors. */
  readonly isOutput: boolean;
}

/** The result files of a batch that is over, as its provider names them. */
export function resultFiles(kind: ObjectKind, batch: Readonly<Record<string, unknown>>): readonly ResultFile[] {
  if (kind === messageBatches) {
    const path = `${kind.endpoint}/${encodeURIComponent(String(batch.id))}/results`;
    return typeof batch.results_url === 'string' ? [{ path, isOutput: true }] : [];
  }
  return (['output_file_id', 'error_file_id'] as const).flatMap((name) => {
    const id = batch[name];
    return typeof id === 'string' ? [{ id, path: contentPath(id), isOutput: name === 'output_file_id' }] : [];
  });
}

/** The answer in a line of a result file; undefined when the request was not made. */
export function answerIn(line: unknown): { readonly status: unknown; readonly body: unknown } | undefined {
  if (!isObject(line)) return undefined;
  const { response, result } = line;
  if (isObject(result)) return result.type === 'succeeded' ? { status: 200, body: result.message } : undefined;
  return isObject(response) ? { status: response.status_code, body: response.body } : undefined;
}

/**
 * Reads a file line by line.
 * @param pause called after each piece of the file: nothing more is read while the returned promise is pending
 * @returns false when the provider does not have it
 * @throws Refusal
 */
export async function readLines(
  provider: Provider,
  path: string,
  { requestId, signal }: FileQuestion,
  onLine: (value: unknown, line: Buffer) => void,
  pause?: () => Promise<unknown> | undefined,
): Promise<boolean> {
  const { status, headers, body } = await replyTo({ method: 'GET', path, accept: '*/*', requestId, signal }, provider);
  if (status === 404) {
    body.cancel();
    return false;
  }
  if (status >= 300) {
    const answer = { status, headers, body: await errorBody({ status, headers, body }), provider };
    throw refusalFromUpstream(mapUpstreamError(answer));
  }
  await forEachLine(body, LIMITS, onLine, pause);
  return true;
}
