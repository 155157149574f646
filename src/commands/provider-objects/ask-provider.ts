/**
 * Requests to a provider about an object that it stores under an id (a response, a file, a batch), and reads of its
 * files.
 */
import { parseExactly } from '../../json/exact-json.ts';
import { isObject } from '../../json/is-object.ts';
import { type Provider, ProviderFailure, type ProviderReply, type ReplyBody } from '../../providers/provider.ts';
import { type MappedError, mapUpstreamError } from '../../providers/upstream-error.ts';
import { errorBody } from '../model-request/answer-body.ts';
import { credentialsRefused, refusalFromFailure, refusalFromUpstream } from '../model-request/upstream-refusals.ts';
import { type Refusal, refusals } from '../refusal.ts';
import { files, messageBatches, type ObjectKind } from './tracked.ts';

const MAX_ANSWER_BYTES = 64 * 1024 * 1024;

export interface ProviderObjectRequest {
  readonly method: 'GET' | 'POST' | 'DELETE';
  /** Path of OpenAI's API, beginning with `/v1/`, with the query. */
  readonly path: string;
  /** Default `application/json`. */
  readonly accept?: string;
  readonly body?: { readonly type: string; readonly bytes: Uint8Array };
  readonly requestId: string;
  readonly signal: AbortSignal;
}

/**
 * @returns undefined when the provider does not have it
 * @throws Refusal
 */
export async function askProvider(
  provider: Provider,
  question: ProviderObjectRequest,
): Promise<Record<string, unknown> | undefined> {
  return objectIn(await replyTo(question, provider), provider);
}

/** @throws Refusal when the provider gives no answer */
export async function replyTo(question: ProviderObjectRequest, provider: Provider): Promise<ProviderReply> {
  const { method, path, accept = 'application/json', body, requestId, signal } = question;
  const headers: Record<string, string> = body === undefined ? { accept } : { accept, 'content-type': body.type };
  try {
    return await provider.forward({ method, path, openAi: true, headers, body: body?.bytes, requestId, signal });
  } catch (error) {
    throw error instanceof ProviderFailure ? refusalFromFailure(error) : error;
  }
}

/**
 * @returns undefined when the provider does not have it
 * @throws Refusal
 */
export async function objectIn(
  { status, headers, body: answer }: ProviderReply,
  provider: Provider,
): Promise<Record<string, unknown> | undefined> {
  try {
    if (status >= 400) {
      const body = await errorBody({ status, headers, body: answer });
      if (status === 404) return undefined;
      throw refusedBy(mapUpstreamError({ status, headers, body, provider }));
    }
    const body = await answer.bytes(MAX_ANSWER_BYTES);
    const parsed = parseExactly(body.toString());
    if (!isObject(parsed)) throw new SyntaxError('not an object');
    return parsed;
  } catch (error) {
    if (error instanceof ProviderFailure) throw refusalFromFailure(error);
    if (error instanceof SyntaxError) {
      throw refusals.badAnswer(provider.name, `'${provider.name}' did not answer with JSON.`);
    }
    throw error;
  }
}

/** A 403 for a stored object can only mean that the gateway's credential lacks the permission. */
function refusedBy(error: MappedError): Refusal {
  return error.status === 403 ? credentialsRefused(error) : refusalFromUpstream(error);
}

// The files of a batch, read at the provider that stores them: OpenAI's input and output files, Anthropic's results.

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

/** A file of JSON lines, read as it arrives: at most one line of it is held in memory. */
export interface LineLimits {
  readonly lineBytes: number;
  readonly totalBytes: number;
  readonly lines: number;
}

const NEWLINE = 0x0a;

/**
 * Calls `onLine` with the value and the bytes of each line that is not empty; continues when `pause` of a piece has
 * resolved. The value of a line that is not JSON is `undefined`.
 * @throws Refusal when a limit is exceeded or the provider fails; errors of `onLine`
 */
export async function forEachLine(
  body: ReplyBody,
  limits: LineLimits,
  onLine: (value: unknown, line: Buffer) => void,
  pause?: () => Promise<unknown> | undefined,
): Promise<void> {
  let held: Buffer[] = [];
  let heldBytes = 0;
  let total = 0;
  let lines = 0;
  const hold = (piece: Buffer): void => {
    held.push(piece);
    heldBytes += piece.length;
    if (heldBytes > limits.lineBytes) throw tooLarge(`a line has more than ${limits.lineBytes} bytes`);
  };
  const endLine = (): void => {
    const line = Buffer.concat(held);
    held = [];
    heldBytes = 0;
    const text = line.toString();
    if (text.trim() === '') return;
    lines += 1;
    if (lines > limits.lines) throw tooLarge(`it has more than ${limits.lines} lines`);
    onLine(parsed(text), line);
  };
  try {
    await body.pieces((piece) => {
      total += piece.length;
      if (total > limits.totalBytes) throw tooLarge(`it has more than ${limits.totalBytes} bytes`);
      let from = 0;
      for (let at = piece.indexOf(NEWLINE); at !== -1; at = piece.indexOf(NEWLINE, from)) {
        hold(piece.subarray(from, at));
        endLine();
        from = at + 1;
      }
      if (from < piece.length) hold(piece.subarray(from));
      return pause?.();
    });
    endLine();
  } catch (error) {
    throw error instanceof ProviderFailure ? refusalFromFailure(error) : error;
  }
}

function tooLarge(why: string) {
  return refusals.invalidRequest(`The batch's file cannot be read: ${why}.`, 'input_file_id', 'batch_too_large');
}

function parsed(text: string): unknown {
  try {
    return parseExactly(text);
  } catch {
    return undefined;
  }
}
